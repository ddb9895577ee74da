"""Plug-ins: schemes, environments and agents whose code is elsewhere, found by a path, a module, or an installed package.

Loading one runs its code, so it happens only where a user asks for it: by ``PATH.py:NAME`` or ``MODULE:NAME`` on the command
line or in a call of ``load``, or by the name of an entry point of a package that was installed. Logs, results, run
folders and settings files may come from strangers: a path in one of them is looked up among what is loaded, and never loaded.
"""

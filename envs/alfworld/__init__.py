"""ALFWorld: household tasks in text, on a native engine that is byte-exact with TextWorld's.

Reading order: ``env`` (what users see), ``engine`` (the rules), ``world`` and ``game`` (state and house), ``files`` and
``content`` (where houses come from), ``generator``, ``oracle``.
"""

"""The present names of methods in stored results: ``grouptd`` has had two sets of defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["stored_names"]


def stored_names(names: Iterable[str], settings: Mapping[str, str]) -> dict[str, str]:
    """By stored name the present one: ``grouptd`` with its first defaults is now ``grouptd_base``, ``grouptd_relative`` is ``grouptd``.

    >>> stored_names(["grouptd", "grpo"], {"grouptd_relative": "grouptd with divide_by_success=True"})
    {'grouptd': 'grouptd_base', 'grpo': 'grpo'}
    >>> stored_names(["grouptd", "grouptd_relative"], {})
    {'grouptd': 'grouptd', 'grouptd_relative': 'grouptd'}

    Args:
        names: names of methods in the results of one run.
        settings: how the methods of the run differed from the defaults of then.
    """
    # only with the first defaults does a variant differ by dividing by the success rate
    first = any("divide_by_success=True" in text for text in settings.values())
    renamed = {"grouptd_relative": "grouptd"} | ({"grouptd": "grouptd_base"} if first else {})
    return {name: renamed.get(name, name) for name in names}

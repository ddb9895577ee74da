"""Versions of distributions, compared by their leading numbers."""

from __future__ import annotations

import re

__all__ = ["version_numbers"]


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; () if it does not begin with a number.

    >>> version_numbers("2.13.0+cpu"), version_numbers("main")
    ((2, 13, 0), ())
    """
    match = re.match(r"\d{1,9}(?:\.\d{1,9})*", version)
    return tuple(map(int, match[0].split("."))) if match else ()

"""Schemes that need no annotations, and those with released code beside the paper, for tests of rules that hold for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from creditflow import credit
from creditflow.wrappers.credit.base import Scheme, Semantics
from creditflow.wrappers.credit.outcome import OutcomeScheme
from creditflow.wrappers.credit.registry import lookup

__all__ = ["PUBLISHED", "both_semantics", "every_preset", "every_scheme", "make", "released"]

SEMANTICS: tuple[Semantics, ...] = ("paper", "release")
PUBLISHED = tuple(  # mt_grpo, whose outcome is the last reward, has none of the options of the others
    name
    for name in credit.names(given=())
    if "release" in lookup(name).presets and issubclass(lookup(name), OutcomeScheme)
)
# also those without released code
every_preset = pytest.mark.parametrize(
    ("name", "semantics"),
    [(name, one) for name in credit.names(given=()) for one in SEMANTICS if one in lookup(name).presets],
)
every_scheme = pytest.mark.parametrize("name", PUBLISHED)
both_semantics = pytest.mark.parametrize("semantics", SEMANTICS)


def make(name: str, semantics: Semantics = "paper", **options: Any) -> Scheme:
    """Make a scheme; released semantics compare states by key, for hand-written groups have no text keys."""
    if semantics == "release" and "key" in lookup(name).preset(semantics):
        options = {"key": "state"} | options
    return credit.make(name, semantics=semantics, **options)


def released(name: str, **options: Any) -> Scheme:
    """Make a scheme with released semantics."""
    return make(name, "release", **options)

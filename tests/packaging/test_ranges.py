"""The lower bounds in pyproject.toml are the versions that the tiers minimal and oldest install and test."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, distributions

import pytest
from helpers.shared_data import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TIERS = {"minimal": [], "oldest": ["dev", "train", "train-log", "sb3"]}
LINTERS = {"import-linter", "mypy", "ruff", "types-networkx"}


def requirements(extras: list[str]) -> Iterator[Requirement]:
    """Of the package with these extras; an extra that names the package's own extras is followed."""
    texts = [*PROJECT["dependencies"], *(text for name in extras for text in PROJECT["optional-dependencies"][name])]
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["name"]:
            yield from requirements(sorted(requirement.extras))
        else:
            yield requirement


def lower_bounds(extras: list[str]) -> dict[str, Version]:
    bounds: dict[str, Version] = {}
    for requirement in requirements(extras):
        [bound] = [Version(part.version) for part in requirement.specifier if part.operator in (">=", "==")]
        name = canonicalize_name(requirement.name)
        bounds[name] = max(bound, bounds.get(name, bound))
    return bounds


def pins(tier: str) -> dict[str, Version]:
    lines = (ROOT / "constraints" / f"{tier}.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_of_lower_bounds_pins_exactly_them(tier: str) -> None:
    pinned, bounds = pins(tier), lower_bounds(TIERS[tier])
    assert {name: pinned.get(name) for name in bounds} == bounds


def test_the_demo_and_the_image_have_releases_that_the_fast_tier_tests() -> None:
    assert pins("demo").items() <= pins("fast").items()
    assert set(lower_bounds(["bench"])) <= set(pins("demo"))


def test_the_demo_and_the_image_pin_everything_that_they_install() -> None:
    pinned = pins("demo")
    installed = {canonicalize_name(one.metadata["Name"]): Version(one.version) for one in distributions()}
    if not pinned.items() <= installed.items():
        # the tiers oldest, newest, py312 and py313 run this file with other releases, whose requirements are not those of the demo
        pytest.skip("the releases here are not those of the tier fast")
    waiting, needed = [*requirements(["bench"])], set()
    while waiting:
        name = canonicalize_name(waiting.pop().name)
        if name not in needed:
            needed.add(name)
            found = map(Requirement, distribution(name).requires or ())
            waiting += [one for one in found if one.marker is None or one.marker.evaluate({"extra": ""})]
    assert needed == set(pinned)


def test_the_bounds_of_the_linters_are_the_releases_of_the_static_tier() -> None:
    pinned, bounds = pins("fast"), lower_bounds(["dev"])
    assert {name: bounds[name] for name in LINTERS} == {name: pinned[name] for name in LINTERS}


@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_every_requirement_has_one_lower_bound(extra: str) -> None:
    assert lower_bounds([extra])

"""Groups without contrast: rollouts that do the same and end the same say nothing about their turns, under any scheme over states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason

SCHEMES = ("grpo", "gigpo", "graphgpo", "grouptd", "blend")


def equal_rollouts(path: str, end: StopReason, count: int, name: str = "g") -> Group:
    members = [walk(path, end, name=f"r{i}") for i in range(count)]
    made = group(*members)
    return Group(tuple(replace(member, group_id=name) for member in made.trajectories), made.task)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("end", ["success", "failed", "env_limit"])
@pytest.mark.parametrize("path", ["s a b g", "s g", "s a s a g"])
def test_equal_rollouts_get_exactly_nothing(scheme: str, count: int, end: StopReason, path: str) -> None:
    if path == "s a s a g" and scheme in ("gigpo", "graphgpo"):
        return  # these compare the two visits of one rollout
    assert not credit.make(scheme).assign(equal_rollouts(path, end, count)).flat_advantages.any()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_rollouts_get_nothing_beside_a_group_with_contrast(scheme: str) -> None:
    contrasting = group(walk("s a g"), walk("s b x", "failed"))
    equal = equal_rollouts("s a b g", "success", 8, name="equal")
    differing, same = credit.make(scheme).assign_batch([contrasting, equal])
    assert differing.flat_advantages.any()
    assert not same.flat_advantages.any()


@pytest.mark.parametrize("scheme", ["grouptd", "blend"])
@pytest.mark.parametrize("other", [("s b g", "success"), ("s a t g", "success"), ("s a x", "failed")])
def test_one_other_rollout_is_a_contrast(scheme: str, other: tuple[str, StopReason]) -> None:
    mixed = group(*(walk("s a g", name=f"r{i}") for i in range(7)), walk(other[0], other[1], name="other"))
    assert np.abs(credit.make(scheme).assign(mixed).flat_advantages).max() > 0.1

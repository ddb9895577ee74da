"""Statistics of generated houses: well formed, followed by the generator."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.alfworld.generator import FRAMES, MIN_STEPS, Draws, generate, house_statistics
from creditflow.envs.alfworld.pddl import TASK_TYPES

STATISTICS = house_statistics()


def test_statistics_name_only_types_that_they_describe() -> None:
    assert (
        set(STATISTICS.goals) == set(TASK_TYPES) == set(STATISTICS.targets) == set(STATISTICS.hidden) == set(MIN_STEPS)
    )
    for rooms in STATISTICS.goals.values():
        for name, goals in rooms.items():
            room = STATISTICS.rooms[name]
            for target, place in goals:
                assert target in room.objects
                assert place in room.furniture or place == "desklamp"
    for room in STATISTICS.rooms.values():
        assert set(room.stands) == set(room.furniture)
        assert set(room.objects) <= set(STATISTICS.affordances)
        for found in room.objects.values():
            assert set(found.places) <= {*room.furniture, ""}
            assert sum(found.counts) > 0


def test_every_goal_and_every_place_is_one_that_the_furniture_accepts() -> None:
    for task, rooms in STATISTICS.goals.items():
        for target, place in (goal for goals in rooms.values() for goal in goals):
            assert task == "look_at_obj_in_light" or target in STATISTICS.accepts[place]


@given(weights=st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(any), seed=st.integers(0, 2**32))
def test_weighted_draws_are_proportional(weights: list[int], seed: int) -> None:
    """Within five standard errors; an option of weight 0 is never drawn."""
    draws, table = Draws((seed,)), dict(enumerate(weights))
    counts = Counter(draws.weighted(table) for _ in range(2_000))
    for option, weight in table.items():
        p = weight / sum(weights)
        assert abs(counts[option] - 2_000 * p) <= 5 * np.sqrt(2_000 * p * (1 - p)) + 1e-9


@pytest.mark.parametrize(
    ("histogram", "least", "expected"),
    [((3, 4, 5), 0, {0, 1, 2}), ((3, 4, 0, 5), 1, {1, 3}), ((9,), 2, {2}), ((), 1, {1})],
)
def test_counts_are_at_least_what_is_asked(histogram: tuple[int, ...], least: int, expected: set[int]) -> None:
    draws = Draws((1, 2))
    assert {draws.count(histogram, least) for _ in range(300)} == expected


@pytest.mark.parametrize("task", sorted(TASK_TYPES))
def test_a_sentence_has_a_frame_of_the_release(task: str) -> None:
    game = generate(7, task_type=task)
    _, target, place = (name.removesuffix("type") for name in game["goal"])
    assert game["sentence"] in {frame.format(o=target, r=place) for frame in FRAMES[task]}

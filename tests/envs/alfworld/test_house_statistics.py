"""Statistics of generated houses: well formed, followed by the generator, recovered by the fit."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from evidence.alfworld.fit_houses import fit, place_weights
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.alfworld.generator import MIN_STEPS, WORDINGS, Draws, generate, house_statistics, parse_statistics
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


def test_the_fit_recovers_the_weights_of_a_choice_model() -> None:
    """Choices among changing sets, by known weights; the floor "" is always there."""
    rng, true = np.random.default_rng(0), {"": 0.1, "bed": 0.5, "desk": 0.3, "shelf": 0.1}
    found: Counter[tuple[tuple[tuple[str, int], ...], str]] = Counter()
    for _ in range(20_000):
        kinds = sorted(kind for kind in true if not kind or rng.random() < 0.6)
        odds = np.array([true[kind] for kind in kinds])
        found[tuple((kind, 1) for kind in kinds), kinds[rng.choice(len(kinds), p=odds / odds.sum())]] += 1
    assert place_weights(found) == pytest.approx(true, abs=0.02)


@pytest.mark.slow
def test_houses_that_follow_houses_are_like_them() -> None:
    """A round trip: statistics fitted to generated bedrooms give the same goals, furniture and numbers of objects."""
    games = {
        f"train/{seed}-x-None-y-301/t/game.tw-pddl": generate(seed, task_type="pick_and_place_simple", room="bedroom")
        for seed in range(300)
    }
    again = parse_statistics(fit(games))
    first, second = STATISTICS.rooms["bedroom"], again.rooms["bedroom"]
    for kind, counts in first.furniture.items():
        mean = np.average(range(len(counts)), weights=counts)
        fitted = second.furniture.get(kind, (1,))
        assert np.average(range(len(fitted)), weights=fitted) == pytest.approx(mean, abs=0.25 + 0.1 * mean), kind
    goals = again.goals["pick_and_place_simple"]["bedroom"]
    assert set(goals) <= set(STATISTICS.goals["pick_and_place_simple"]["bedroom"])
    most = max(STATISTICS.goals["pick_and_place_simple"]["bedroom"].items(), key=lambda item: item[1])
    total = sum(STATISTICS.goals["pick_and_place_simple"]["bedroom"].values())
    assert goals[most[0]] / 300 == pytest.approx(most[1] / total, abs=0.06)


@pytest.mark.parametrize("task", sorted(TASK_TYPES))
def test_wording_changes_the_sentence_alone(task: str) -> None:
    games = {wording: generate(7, task_type=task, wording=wording) for wording in WORDINGS}
    worlds = [{key: value for key, value in game.items() if key != "sentence"} for game in games.values()]
    assert all(world == worlds[0] for world in worlds)
    for wording, game in games.items():
        _, target, place = (name.removesuffix("type") for name in game["goal"])
        assert game["sentence"] in {frame.format(o=target, r=place) for frame in WORDINGS[wording][task]}
    assert games["released"]["sentence"] != games["own"]["sentence"]

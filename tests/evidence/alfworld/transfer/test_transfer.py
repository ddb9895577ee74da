"""The transfer experiment in miniature: features know only what was seen, its episodes are the environment's, its parts learn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence.alfworld.transfer import repeated, summarize, tabular
from evidence.alfworld.transfer.features import Belief, Row, command_rows, is_prior
from evidence.alfworld.transfer.play import Decision, Demonstration, demonstrate, play
from evidence.alfworld.transfer.policy import (
    Greedy,
    Sampled,
    imitate,
    log_gradient,
    probabilities,
    uniform,
    with_prior_of,
)
from evidence.alfworld.transfer.reinforce import group_of, reinforce
from evidence.alfworld.transfer.training_sets import evaluation_games, follow, houses, training_sets
from helpers.shared_data import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.envs.alfworld.game import Game, bits
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World
from creditflow.wrappers.credit.registry import make

HOUSES = houses(1, 12)


def _released() -> dict[str, Any]:
    """Houses under the names of released games: two training scenes of every kind of room, and validation games."""
    rooms = {"bathroom": 401, "bedroom": 301, "kitchen": 1, "living": 201}
    from creditflow.envs.alfworld.generator import generate

    games = {}
    for room, scene in rooms.items():
        for i in range(8):
            split = ("train", "train", "train", "valid_seen")[i % 4] if i < 7 else "valid_unseen"
            games[f"{split}/x-{scene + i % 2}/t{i}/game.tw-pddl"] = generate(i, room=room)
    return dict(sorted(games.items()))


@given(house=st.integers(0, len(HOUSES) - 1), seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_features_do_not_depend_on_what_was_not_seen(house: int, seed: int) -> None:
    """Objects that are moved between receptacles that were not looked into change no feature of any command offered in both."""
    rng = np.random.default_rng(seed)
    world, belief = World(Game(HOUSES[house])), Belief()
    for _ in range(int(rng.integers(1, 12))):
        offered = admissible_commands(world).by_text
        parsed = list(offered.values())[int(rng.integers(len(offered)))]
        act(world, parsed)
        belief.update(world, parsed)
    game, other = world.game, world.copy()
    away = [r for r in range(len(game.fits)) if not belief.seen >> r & 1 and game.home[r] != world.location]
    for r, q in zip(away, rng.permutation(away).tolist(), strict=True):
        other.inside[r] = world.inside[q]
    offered = admissible_commands(world).by_text
    assert admissible_commands(other).by_text == offered
    assert command_rows(other, belief, offered) == command_rows(world, belief, offered)


@pytest.mark.parametrize("house", range(4))
def test_episodes_are_those_of_the_environment(house: int) -> None:
    content = HOUSES[house]
    weights = imitate(
        [s for i, h in enumerate(HOUSES) for s in demonstrate(Game(h), 0.3, 12, np.random.default_rng(i))]
    )
    episode = play(Game(content), Sampled(weights), np.random.default_rng(house), record=True)
    env = creditflow.make("alfworld", game=content)
    info = env.reset()[1]
    keys, success = [info["state_key"]], False
    for command in episode.commands:
        _, _, success, _, info = env.step(command)
        assert not info["invalid_reason"]
        keys.append(info["state_key"])
    assert (success, tuple(keys)) == (episode.won, episode.keys)


def test_without_noise_a_demonstration_is_a_shortest_solution() -> None:
    for content in HOUSES[:4]:
        game = Game(content)
        env: Any = creditflow.make("alfworld", game=content)
        env.reset()
        assert len(demonstrate(game, 0.0, 50, np.random.default_rng(0))) == len(env.unwrapped.walkthrough())


def test_imitation_finds_the_frequencies_of_choices() -> None:
    """Two kinds of commands, of which the first is right three times in four; two commands of a kind share their part."""
    rows: list[Row] = [("a",), ("a",), ("b",)]
    weights = imitate([Demonstration(rows, (0,) if i % 4 else (2,)) for i in range(400)])
    assert probabilities(weights, rows) == pytest.approx([0.375, 0.375, 0.25], abs=0.01)
    assert imitate([Demonstration(rows, (0,))], keep=lambda name: name == "b").keys() == {"b"}


def test_the_gradient_is_that_of_the_log_probability() -> None:
    rows, policy = [("a", "c"), ("b",), ("b", "c")], {"a": 0.3, "b": -0.2, "c": 0.5}
    gradient = log_gradient(policy, [Decision(rows, 2)], [1.5])
    for name in policy:
        ends = [np.log(probabilities(policy | {name: policy[name] + h}, rows)[2]) for h in (1e-5, -1e-5)]
        assert gradient[name] == pytest.approx(1.5 * (ends[0] - ends[1]) / 2e-5, abs=1e-6)


def test_greedy_breaks_ties_at_random() -> None:
    rng = np.random.default_rng(0)
    assert {Greedy({"a": 1.0})([("a",), ("b",), ("a",)], rng) for _ in range(50)} == {0, 2}


def test_priors_are_exchanged_whole() -> None:
    mixed = with_prior_of({"x": 1.0, "prior bed": 2.0}, {"x": 3.0, "prior desk": 4.0})
    assert mixed == {"x": 1.0, "prior desk": 4.0}
    assert [is_prior(name) for name in mixed] == [False, True]


@pytest.mark.slow
def test_policy_gradients_raise_success() -> None:
    games = [Game(house) for house in HOUSES[:6]]
    states = [s for i, game in enumerate(games) for s in demonstrate(game, 0.5, 12, np.random.default_rng(i))]
    start = {name: 0.5 * weight for name, weight in imitate(states).items()}
    better = reinforce(start, games, make("gigpo"), 8, seed=0)

    def success(policy: dict[str, float]) -> float:
        return float(
            np.mean([play(g, Sampled(policy), np.random.default_rng([i, 9])).won for i in range(20) for g in games])
        )

    assert success(better) > success(start) + 0.1


def test_groups_reward_winning_alone() -> None:
    game = Game(HOUSES[0])
    episodes = [play(game, uniform, np.random.default_rng(i), record=True, limit=3) for i in range(2)]
    group = group_of(game, episodes, 0)
    assert [t.success for t in group.trajectories] == [e.won for e in episodes]
    assert group.arrays.reward.sum() == sum(e.won for e in episodes)


@pytest.mark.slow
def test_the_experiment_runs_in_miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every planned policy is judged on every game that it should be; the summary has their differences."""
    monkeypatch.setattr(tabular, "STATES", 2)
    games = _released()
    for seed in range(2):
        run = tabular.one_seed(games, seed, sizes=(4, 6), odd=4, iterations=1)
        (tmp_path / f"tabular-{seed}.json").write_text(json.dumps(run), "ascii")
    monkeypatch.setattr(summarize, "PLANNED", (("generated-6", "released-6"), ("generated_odd-4", "released_odd-4")))
    found = summarize.evidence(games, tmp_path)
    played = evaluation_games(games)
    assert found["games"]["valid_unseen"]["games"] == len(played["valid_unseen"])
    for row in found["differences"]["generated-6 - released-6/greedy"].values():
        mean, low, high = row["commands"]["over_games"]
        assert low <= mean <= high
    assert set(found["differences"]["generated_odd-4 - released_odd-4/sampled"]) == set(played)
    assert found["policies"]["oracle/optimal"]["valid_seen"]["success"] == [1.0, 1.0, 1.0]
    assert found["language_model"] is None


def test_the_games_are_also_shown_as_often_as_there_are_houses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rival of houses that follow few games: the same games and as many states; its first showing is the experiment's."""
    monkeypatch.setattr(tabular, "STATES", 2)
    games = _released()
    few = dict(training_sets(games, 0, (4, 8), 0))["released"][:4]
    first, second = (repeated.shown(few, times, 0) for times in (1, 2))
    assert (len(first), second[:4]) == (4, first)
    assert second[4:] != first
    for seed in range(2):
        run = repeated.one_seed(games, seed, sizes=(4, 8))
        (tmp_path / f"repeated-{seed}.json").write_text(json.dumps(run), "ascii")
    found = summarize.repeated(games, tmp_path)
    assert found["seeds"] == 2
    assert list(found["differences"]) == [
        f"{pair}/{decoding}"
        for pair in ("refitted-8 - released-4, 2 times", "released-4, 2 times - released-4")
        for decoding in ("greedy", "sampled")
    ]


def test_the_page_says_what_the_evidence_of_repeated_games_says() -> None:
    """Its differences in commands, and the means of the policies that both experiments train are equal."""
    path = summarize.REPEATED
    own, other = (json.loads(p.read_text("ascii")) for p in (path, summarize.EVIDENCE))
    words = " ".join((ROOT / "envs" / "alfworld" / "TRANSFER.md").read_text("utf-8").split())
    for decoding in ("greedy", "sampled"):
        for found in own["differences"][f"refitted-400 - released-100, 4 times/{decoding}"].values():
            mean, low, high = (-x for x in found["commands"]["over_games"])
            assert f"{mean:.2f} [{high:.2f}, {low:.2f}]" in words
        for name in (f"refitted-400/{decoding}", f"released-100/{decoding}"):
            assert own["policies"][name].items() <= other["policies"][name].items()


def test_training_sets_are_nested_and_of_equal_size() -> None:
    games = _released()
    small, large = (dict(training_sets(games, 3, (4, n), 4)) for n in (5, 8))
    assert set(small) == set(large) == {
        "released", "generated", "standard-v1", "standard-v2", "refitted", "released_odd", "generated_odd",
    }  # fmt: skip
    assert large["released"][:5] == small["released"]
    assert large["generated"][:5] == small["generated"]
    assert {len(found) for name, found in large.items() if "odd" not in name} == {8}


def test_houses_of_two_seeds_differ_and_refitted_ones_know_only_their_games() -> None:
    assert not any(house in HOUSES for house in houses(2, 12))
    games = {name: game for name, game in _released().items() if name.startswith("train/")}
    kinds = {row[1] for game in games.values() for row in game["receptacles"]}
    assert {row[1] for house in houses(5, 6, follow(games)) for row in house["receptacles"]} <= kinds


def test_seen_receptacles_hold_what_the_belief_says() -> None:
    """A receptacle that was opened counts as seen; one that was only approached does not."""
    world, belief = World(Game(HOUSES[0])), Belief()
    closed = next(r for r in bits(world.game.openable & ~world.opened) if world.game.home[r] >= 0)
    for verb in ("go", "open"):
        parsed = next(
            p for p in admissible_commands(world).by_text.values() if (p.verb, p.receptacle) == (verb, closed)
        )
        act(world, parsed)
        belief.update(world, parsed)
        assert bool(belief.seen >> closed & 1) == (verb == "open")

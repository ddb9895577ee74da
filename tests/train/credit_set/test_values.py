"""Values of a credit set: exact ones agree with the tables and the definition, and intervals of forked ones cover them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from creditflow.envs.sokoban.levels.xsb import level_task, parse_level
from creditflow.train.bench.exact.policies import noisy_expert
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.credit_set.build import ExactValues, ForkedValues, records_of_task
from creditflow.train.credit_set.continuation import LazyStateGraph, State, unlimited_env
from creditflow.train.credit_set.settings import PANEL, SETTINGS, BuildSettings
from creditflow.train.credit_set.turns import Player

LEVEL = "#######\n#@ $ .#\n#     #\n#######"
RNG = np.random.default_rng(0)


def walker_of_level() -> LazyStateGraph:
    return LazyStateGraph(unlimited_env("sokoban", PANEL), level_task(parse_level(LEVEL)))


def test_exact_values_are_those_of_the_table():
    graph, noise, horizon = walker_of_level(), 0.4, 12
    mdp = sokoban_mdp(parse_level(LEVEL), horizon)
    values, table = ExactValues(mdp, noise), evaluate(mdp, noisy_expert(mdp, noise))
    state = graph.start
    for left in range(horizon, 0, -1):
        index = mdp.index[state.key]
        assert values.state(state, left, RNG).mean == pytest.approx(table.value[left, index], abs=1e-8)
        for action in mdp.actions:
            expected = table.action_value[left, index, mdp.actions.index(action)]
            assert values.action(state, action, left, RNG).mean == pytest.approx(expected, abs=1e-8)
        state = graph.step(state, "right" if left % 2 else "down")


def test_exact_values_follow_the_definition():
    """V and Q by recursion over the environment itself, without tables."""
    graph, noise, horizon = walker_of_level(), 0.4, 9
    values = ExactValues(sokoban_mdp(parse_level(LEVEL), horizon), noise)

    @cache
    def value(state: State, left: int) -> float:
        if state.over or left == 0:
            return float(state.success)
        best, every = graph.best(state) or state.actions, state.actions
        random = sum(value(graph.step(state, action), left - 1) for action in every) / len(every)
        expert = sum(value(graph.step(state, action), left - 1) for action in best) / len(best)
        return noise * random + (1 - noise) * expert

    for left in (horizon, 5, 1):
        assert values.state(graph.start, left, RNG).mean == pytest.approx(value(graph.start, left), abs=1e-8)
        for action in graph.start.actions:
            after = value(graph.step(graph.start, action), left - 1)
            assert values.action(graph.start, action, left, RNG).mean == pytest.approx(after, abs=1e-8)


def test_a_rejected_action_uses_a_turn_and_changes_nothing_else():
    graph, noise = walker_of_level(), 0.4
    values = ExactValues(sokoban_mdp(parse_level(LEVEL), 10), noise)
    assert graph.step(graph.start, "fly") is graph.start
    assert values.action(graph.start, "fly", 8, RNG) == values.state(graph.start, 7, RNG)


def test_intervals_of_forked_values_cover_the_exact_ones():
    exact, forked = BuildSettings(envs=("sokoban",), seed=3), BuildSettings(envs=("sokoban",), seed=3, exact=False)
    covered, errors = [], []
    for number in range(12):
        for one, other in zip(
            records_of_task(exact, "sokoban", number), records_of_task(forked, "sokoban", number), strict=True
        ):
            assert one["turn_id"] == other["turn_id"]
            assert (one["kind"], other["kind"]) == ("exact", "forked")
            pairs = [(one["v"], other["v_interval"], other["v"], other["v_error"])]
            for a, b in zip([one, *one["alternatives"]], [other, *other["alternatives"]], strict=True):
                assert a["action"] == b["action"]
                pairs.append((a["q"], b["q_interval"], b["q"], b["q_error"]))
            covered += [low <= q <= high for q, (low, high), _, _ in pairs]
            errors += [(mean - q) / error for q, _, mean, error in pairs]
    # Wilson's interval covers 95 % on average over rates, and at least 93 % with 32 trials but next to the ends
    assert sum(covered) >= binom.ppf(0.001, len(covered), 0.93)
    assert len(covered) > 300
    assert abs(np.mean(errors)) < 4 / np.sqrt(len(errors))  # free of bias


@pytest.mark.parametrize("env", list(SETTINGS))
def test_continuations_over_known_transitions_equal_those_in_the_environment(env):
    """The same random numbers give the same ends, step by step through the environment and its oracle."""
    player = Player(env, ("random",), 1)
    task, _ = player.task(0)
    base: Any = unlimited_env(env, PANEL)
    graph, left, noise = LazyStateGraph(unlimited_env(env, PANEL), task), 6, 0.5
    state = graph.step(graph.start, graph.start.actions[-1])
    assert not state.over
    found = graph.continuations(state, left, noise, 8, np.random.default_rng(7))
    again = graph.continuations(state, left, noise, 8, np.random.default_rng(7))
    assert np.array_equal(found.success, again.success)
    for k, numbers in enumerate(np.random.default_rng(7).random((8, left, 2)).tolist()):
        _, info = base.set_state(state.snapshot)
        for coin, place in numbers:
            best = base.oracle.optimal_actions(base.get_state()) if coin >= noise else ()
            actions = best or sorted(info["admissible_actions"])
            _, _, over, _, info = base.step(actions[int(place * len(actions))])
            if over:
                break
        assert (info["success"], info["score"]) == (found.success[k], found.score[k])


def test_an_estimate_has_its_own_error_even_if_all_continuations_agree():
    graph = walker_of_level()
    estimate = ForkedValues(graph, 0.0, 16).state(graph.start, 20, RNG)
    assert (estimate.mean, estimate.high, estimate.halves, estimate.score) == (1.0, 1.0, (1.0, 1.0), 1.0)
    assert 0 < estimate.standard_error < 0.1
    assert 0.75 < estimate.low < 0.85

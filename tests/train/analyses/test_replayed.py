"""Replayed advantages against the signals of a log: a true signal is found, an empty one is chance, and the noise tells the K that suffices."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.train.analyses.replayed import is_replayed, replayed, replayed_text
from creditflow.train.statistics import (
    ClusteredMean,
    below_false_discovery_rate,
    jackknife,
    normal_interval,
    permutation_p,
    t_quantile,
)
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.trajectory import Group, Turn

K = 16


def log(noise: float, *, tasks: int = 6) -> list[Group]:
    """Groups whose turns have a true effect of −0.5, 0 or 0.5 and its replay, a judge that knows the effect, and one that does not."""
    rng = np.random.default_rng(3)
    about = json.dumps(
        {"annotator": "forks", "version": 2, "parameters": {"continuations": K, "agent": "x"}, "model": ""}
    )
    groups = []
    for number in range(tasks):
        group = random_group(np.random.default_rng(number))
        members = []
        for member in group.trajectories:
            turns = []
            for turn in member.turns:
                effect = 0.5 * float(rng.integers(-1, 2))
                values = {"fork.value": 0.5, "fork.q": 0.5 + effect + noise * rng.normal(), "fork.error": noise}
                values |= {"fork.p": 0.0001 if effect else 1.0, "judge.score": effect, "judge.other": rng.normal()}
                values |= {"value.critic": 0.0, "value.critic.next": effect, "judge.constant": 1.0}
                turns.append(replace(turn, values=values))
            cost = dict.fromkeys(("fork.episodes", "fork.turns", "fork.tokens"), 1.0)
            members.append(
                replace(
                    member,
                    turns=tuple(turns),
                    task_id=f"t{number}",
                    values=cost,
                    provenance={"fork.p": about},
                    tokens=None,
                )
            )
        groups.append(Group(tuple(members), group.task))
    return groups


def test_a_true_signal_is_found_and_an_empty_one_is_chance() -> None:
    found = replayed(log(0.05))
    judge, critic, empty, constant = (
        found.signals[name] for name in ("judge.score", "change of value.critic", "judge.other", "judge.constant")
    )
    assert judge.rank.mean > 0.9
    assert judge.differs
    assert (judge.auroc.mean, judge.false_credit.mean) == (1.0, 0.0)
    assert critic == judge
    assert not empty.differs
    assert constant.rank.mean == 0.0
    assert found.signals["stateless"].lead.mean == 0.0
    assert judge.lead.mean == pytest.approx(judge.rank.mean - found.signals["stateless"].rank.mean)
    assert judge.lead.interval.low > 0.0
    assert constant.auroc.mean == 0.5
    assert constant.false_credit.mean == pytest.approx(1.0 - found.measurable.mean)
    assert found.gains + found.losses == pytest.approx(found.measurable.mean)
    assert "judge.score" in replayed_text(found)
    assert all(abs(effect.advantage) > 0.4 for effect in found.largest)
    assert all(effect.half_width == pytest.approx(t_quantile(K - 1.0) * 0.05) for effect in found.largest)
    rare = replace(found, measurable=ClusteredMean(0.02, 0.03, 7.0))
    assert "2.0% [0.0%, 9.1%]" in replayed_text(rare)  # a share is no less than nothing


@pytest.mark.parametrize("exponent", [-1000, -45, 45, 900])
def test_a_judge_is_rated_alike_in_any_unit(exponent: int) -> None:
    """Scores times a power of 2 say the same; they may be probabilities of texts, which are tiny."""

    def in_two_units(turn: Turn, noise: float) -> Turn:
        score = turn.values["judge.score"] + noise
        return replace(turn, values={**turn.values, "judge.noisy": score, "judge.scaled": score * 2.0**exponent})

    rng = np.random.default_rng(7)
    groups = [
        replace(
            group,
            trajectories=tuple(
                replace(m, turns=tuple(in_two_units(turn, rng.normal()) for turn in m.turns))
                for m in group.trajectories
            ),
        )
        for group in log(0.05)
    ]
    signals = replayed(groups).signals
    noisy, scaled = signals["judge.noisy"], signals["judge.scaled"]
    assert scaled == noisy
    assert 0.5 < noisy.auroc.mean < 1.0


def test_alternatives_are_compared_with_the_action_and_with_every_signal() -> None:
    """The other actions are as good as the state on average, and the best of them gains 0.5."""

    def with_alternatives(turn: Turn) -> Turn:
        return replace(turn, values={**turn.values, "fork.mean": 0.5, "fork.best": 1.0})

    groups = [
        replace(
            group,
            trajectories=tuple(replace(m, turns=tuple(map(with_alternatives, m.turns))) for m in group.trajectories),
        )
        for group in log(0.05)
    ]
    found = replayed(groups)
    assert found.over_mean is not None
    assert found.over_best is not None
    assert found.over_mean.mean == pytest.approx(found.over_best.mean + 0.5)
    judge = found.signals["judge.score"]
    assert judge.against_others == judge.rank  # here the mean of the others is the same number in all states
    assert "against others" in replayed_text(found)
    assert "against others" not in replayed_text(replayed(log(0.05)))


def test_the_number_that_suffices_follows_from_the_noise() -> None:
    for noise in (0.1, 0.4):
        found = replayed(log(noise, tasks=40))
        true = 1.0 / 6.0  # variance of the effects
        assert found.reliability == pytest.approx(true / (true + noise**2), abs=0.06)
        assert found.sufficient == pytest.approx(max(2.0, 4.0 * K * noise**2 / true), rel=0.35)


def test_a_log_replayed_in_part_or_in_two_ways_is_refused() -> None:
    groups = log(0.1, tasks=2)
    bare = replace(
        groups[0].trajectories[0], turns=tuple(replace(t, values={}) for t in groups[0].trajectories[0].turns)
    )
    partly = [replace(groups[0], trajectories=(bare, *groups[0].trajectories[1:])), groups[1]]
    assert not is_replayed(partly)
    with pytest.raises(DataError, match="without replayed values"):
        replayed(partly)
    other = tuple(
        replace(m, provenance={"fork.p": m.provenance["fork.p"].replace('"x"', '"y"')}) for m in groups[0].trajectories
    )
    with pytest.raises(DataError, match="2 ways"):
        replayed([replace(groups[0], trajectories=other), groups[1]])


def test_the_permutation_test_keeps_its_level_on_scores_of_0_and_1() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.random((2_000, 8)) < 0.3).astype(float), (rng.random((2_000, 8)) < 0.3).astype(float)
    p = permutation_p(x, y, rng, 999)
    assert (p <= 0.05).mean() < 0.06
    assert not below_false_discovery_rate(p).any()
    assert permutation_p(np.zeros((1, 8)), np.ones((1, 8)), rng)[0] < 0.001
    assert permutation_p(np.zeros((1, 3)), np.ones((1, 3)), rng)[0] > 0.05


def test_the_jackknife_of_a_mean_is_the_interval_of_the_tasks() -> None:
    means = np.array([0.1, 0.4, 0.7, 0.2])
    values, tasks = np.repeat(means, 5), np.repeat(np.arange(4), 5)
    found = jackknife(lambda used: float(values[used].mean()), tasks)
    assert found.interval == pytest.approx(normal_interval(means))

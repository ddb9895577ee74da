"""TRACE: the worked example, where its window and its outcome end, and its edge cases."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.trajectory import StopReason, Trajectory

LOGP = "logp.answer.mean"
PROBES = [-2.0, -1.5, -1.6, -0.4, -0.2]  # before and after four searches
TRACE = credit.make("trace")


def searching(end: StopReason, probes: list[float] = PROBES) -> Trajectory:
    """Four searches and an answer, which is not probed after."""
    path = ["s", *(f"{end}{t}" for t in range(len(probes)))]
    return annotated(walk(path, end), {LOGP: [*probes, probes[-1]]})


def test_the_worked_example():
    won, lost = TRACE.assign(group(searching("success"), searching("failed"))).advantages
    np.testing.assert_allclose(won, [1.0825, 1.3069, 1.4374, 1.4222, 1.0], atol=6e-5)
    np.testing.assert_allclose(lost, [-0.9175, -1.1027, -1.0746, -1.2178, -1.0], atol=6e-5)


def test_step_rewards_are_changes_of_the_logarithm_of_the_distance_from_the_answer():
    scored = TRACE.assign(group(searching("success"), searching("failed")))
    np.testing.assert_allclose(scored.step_rewards[0], [0.2719, -0.0606, 1.2238, 0.5108, 0.0], atol=6e-5)
    np.testing.assert_allclose(np.cumsum(scored.step_rewards[0])[:4], [0.2719, 0.2113, 1.4351, 1.9459], atol=6e-5)


def test_a_dead_group_has_the_local_credit_alone():
    first, second = TRACE.assign(group(searching("failed"), searching("failed"))).advantages
    np.testing.assert_allclose(first, second)
    np.testing.assert_allclose(first, [0.0825, 0.1021, 0.1814, 0.1022, 0.0], atol=6e-5)
    report = credit.check_credit(TRACE, draws=20)
    assert not report.holds("all_fail_zero")
    assert not report.holds("ties_zero")


def test_every_turn_of_a_rollout_without_an_answer_is_a_search():
    cut = annotated(walk("s a b c d", "env_limit"), {LOGP: PROBES})
    scored = TRACE.assign(group(searching("success"), cut)).advantages[1]
    np.testing.assert_allclose(scored, [-0.9175, -1.1027, -1.0746, -1.2178], atol=6e-5)


def test_an_answer_at_once_gets_the_outcome_alone():
    first = annotated(walk("s g"), {LOGP: [-1.0, -1.0]})
    second = annotated(walk("s x", "failed"), {LOGP: [-1.0, -1.0]})
    assert TRACE.assign(group(first, second)).flat_advantages.tolist() == [1.0, -1.0]


def test_the_window_is_as_long_as_the_turns_that_are_left():
    whole = credit.make("trace", window=99, outcome_bonus=0.0, local_weight=1.0, discount=1.0)
    got = whole.assign(group(searching("failed"))).advantages[0]
    delta = np.array([0.27193, -0.06062, 1.22378, 0.51083])
    np.testing.assert_allclose(got[:4], [delta[t:].mean() for t in range(4)], atol=1e-4)


def test_numbers_that_are_no_log_probabilities_are_rejected():
    with pytest.raises(CreditError, match=r"must be a log-probability, below trace\.margin"):
        TRACE.assign(group(annotated(walk("s a"), {LOGP: [0.2, -1.0]})))


def test_a_missing_probe_names_the_command_that_writes_it():
    with pytest.raises(CreditError, match="annotate --with likelihood:DIR"):
        TRACE.assign(group(walk("s a")))


@pytest.mark.parametrize("options", [{"window": 0}, {"margin": 0.0}, {"discount": 0.0}])
def test_options_out_of_range_are_rejected_by_name(options):
    with pytest.raises(ConfigError, match=rf"trace\.{next(iter(options))} must lie in"):
        credit.make("trace", **options)

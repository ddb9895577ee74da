"""``prm``, ``tips``, ``igpo``: annotations become credit; the error about a missing one names the command."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.trajectory import Trajectory


def with_annotations(trajectory: Trajectory, **columns: list[float]) -> Trajectory:
    """Add annotations: T numbers for the turns, or T + 1 before and after them; "__" in a name is a dot."""
    turns = list(trajectory.turns)
    for name, numbers in columns.items():
        name = name.replace("__", ".")
        for t, turn in enumerate(turns):
            values = {**turn.values, name: numbers[t]}
            if len(numbers) == len(turns) + 1:
                values[f"{name}.next"] = numbers[t + 1]
            turns[t] = replace(turn, values=values)
    return replace(trajectory, turns=tuple(turns))


# -- prm ----------------------------------------------------------------------------------------------------------------
def test_judge_scores_are_normalised_over_the_group_and_summed_to_the_end() -> None:
    g = group(
        with_annotations(walk("s a g"), judge__score=[1.0, 3.0]),
        with_annotations(walk("s b", "failed"), judge__score=[5.0]),
    )
    scored = credit.make("prm").assign(g)
    np.testing.assert_allclose(np.concatenate(scored.advantages), [-1.0 + 0.0, 0.0, 1.0])
    assert scored.outcome_advantages.tolist() == [0.0, 0.0]
    own = credit.make("prm", span="turn", episode_weight=1.0).assign(g)
    np.testing.assert_allclose(own.flat_step_advantages, [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(own.outcome_advantages, credit.make("grpo").assign(g).outcome_advantages)


def test_any_annotation_can_be_the_step_reward() -> None:
    g = group(
        with_annotations(walk("s a g"), value__x=[0.0, 0.25, 1.0]),
        with_annotations(walk("s b", "failed"), value__x=[0.0, 0.0]),
    )
    scored = credit.make("prm", value="value.x", form="increase").assign(g)
    np.testing.assert_allclose(scored.flat_step_rewards, [0.25, 0.75, 0.0])
    assert credit.make("prm", value="value.x").needs == ("value.x",)
    with pytest.raises(ConfigError, match=r"without '\.next'"):
        credit.make("prm", value="value.x.next")


@given(seed=st.integers(0, 99))
def test_equal_scores_of_all_turns_give_zero_credit(seed):
    n = np.random.default_rng(seed).integers(1, 5, 3)
    g = group(*(with_annotations(walk([f"{t}" for t in range(k)] + ["g"]), judge__score=[0.7] * k) for k in n.tolist()))
    assert not credit.make("prm").assign(g).flat_advantages.any()


# -- tips ---------------------------------------------------------------------------------------------------------------
def with_likelihoods(trajectory: Trajectory, likelihood: list[float]) -> Trajectory:
    return with_annotations(trajectory, logp__answer=likelihood, value__critic=[0.0] * (len(trajectory.turns) + 1))


def test_turns_are_shaped_by_the_likelihood_of_the_answer_with_zero_terminal_potential() -> None:
    g = group(with_likelihoods(walk("s a b g"), [-4.0, -3.0, -1.0, -0.5]))
    assert credit.make("tips").assign(g).step_rewards[0].tolist() == [1.0, 2.0, 1.0]
    assert credit.make("tips", terminal="kept").assign(g).step_rewards[0].tolist() == [1.0, 2.0, 0.5]
    assert credit.make("tips", terminal="silent").assign(g).step_rewards[0].tolist() == [1.0, 2.0, 0.0]


def test_a_truncated_episode_keeps_its_potential() -> None:
    g = group(with_likelihoods(walk("s a b", "env_limit"), [-4.0, -3.0, -1.0]))
    assert credit.make("tips").assign(g).step_rewards[0].tolist() == [1.0, 2.0]


@given(seed=st.integers(0, 99))
def test_shaping_sums_to_the_same_on_every_terminated_path(seed):
    rng = np.random.default_rng(seed)
    start = float(-rng.random())
    members = [
        with_likelihoods(walk([f"{t}" for t in range(n)] + ["g"]), [start, *(-rng.random(n)).tolist()])
        for n in rng.integers(1, 6, 4).tolist()
    ]
    sums = [r.sum() for r in credit.make("tips").assign(group(*members)).step_rewards]
    np.testing.assert_allclose(sums, -start)


@given(seed=st.integers(0, 99), gae_lambda=st.floats(0, 1))
def test_a_critic_of_shaped_values_gives_the_unshaped_advantages(seed, gae_lambda):
    # with V − Φ for V the shaped advantages are the unshaped ones (Wiewiora 2003)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    values, phi = rng.normal(size=n + 1), -rng.random(n + 1)
    path = walk([f"{t}" for t in range(n)] + ["g"], rewards=rng.normal(size=n).tolist())
    plain = group(with_annotations(path, value__critic=values.tolist()))
    shaped = group(with_annotations(path, value__critic=(values - phi).tolist(), logp__answer=phi.tolist()))
    expected = credit.make("mt_ppo", gae_lambda=gae_lambda, whitening=False).assign(plain).flat_advantages
    got = credit.make("tips", gae_lambda=gae_lambda, whitening=False).assign(shaped).flat_advantages
    np.testing.assert_allclose(got, expected, atol=1e-9)


# -- igpo ---------------------------------------------------------------------------------------------------------------
def informed(trajectory: Trajectory, probabilities: list[float]) -> Trajectory:
    return with_annotations(trajectory, logp__answer__mean=np.log(probabilities).tolist())


def test_gains_and_outcomes_are_normalised_jointly_and_summed() -> None:
    g = group(informed(walk("s a g"), [0.1, 0.6, 0.9]), informed(walk("s b x", "failed"), [0.1, 0.1, 0.1]))
    scored = credit.make("igpo").assign(g)
    np.testing.assert_allclose(scored.flat_step_rewards, [0.5, 0.0, 0.0, 0.0], atol=1e-12)
    samples = np.array([0.5, 0.0, 1.0, 0.0])
    z = (samples - samples.mean()) / samples.std()
    np.testing.assert_allclose(scored.flat_advantages, [z[0] + z[2], z[2], z[1] + z[3], z[3]])


def test_with_separate_normalization_gains_and_outcomes_have_their_own_mean_and_deviation() -> None:
    g = group(informed(walk("s a g"), [0.1, 0.6, 0.9]), informed(walk("s b x", "failed"), [0.1, 0.1, 0.1]))
    scored = credit.make("igpo", normalization="separate").assign(g)
    np.testing.assert_allclose(scored.flat_advantages, [2.0, 1.0, -2.0, -1.0])


def test_the_outcome_is_discounted_in_the_paper_and_not_in_the_release() -> None:
    g = group(informed(walk("s a g"), [0.5, 0.5, 0.5]), informed(walk("s b x", "failed"), [0.5, 0.5, 0.5]))
    paper = credit.make("igpo", normalization="separate", discount=0.5).assign(g).advantages[0]
    release = credit.make("igpo", semantics="release", discount=0.5, std_eps=0.0).assign(g).advantages[0]
    np.testing.assert_allclose(paper, [0.5, 1.0])
    np.testing.assert_allclose(release, [1.0, 1.0])


# -- all ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "missing", "writer"),
    [
        ("prm", "judge.score", "judge:URL#MODEL"),
        ("tips", "logp.answer", "likelihood:DIR"),
        ("igpo", "logp.answer.mean", "likelihood:DIR"),
    ],
)
def test_a_missing_annotation_names_the_turn_and_the_command_that_writes_it(
    name: str, missing: str, writer: str
) -> None:
    full = with_annotations(
        walk("s a g"), judge__score=[0.0, 0.0], logp__answer=[0.0] * 3, logp__answer__mean=[0.0] * 3
    )
    broken = replace(full.turns[1], values={k: v for k, v in full.turns[1].values.items() if k != missing})
    g = group(full, replace(full, turns=(full.turns[0], broken), trajectory_id="second"))
    with pytest.raises(CreditError, match=rf"'{missing}', which .*'second', turn 1 does not have; .*--with {writer} "):
        credit.make(name).assign(g)


@pytest.mark.parametrize("name", ["ppo_gae", "mt_ppo", "prm", "tips", "igpo"])
def test_explain_names_the_annotations(name: str) -> None:
    text = credit.describe(name)
    assert "Annotations needed: " + ", ".join(credit.make(name).needs) in text
    assert name not in credit.names(given=())
    assert name in credit.names(given=credit.make(name).needs)


def test_next_values_are_those_of_the_next_turn() -> None:
    # the builder above writes ".next" as the next turn's number, as annotators do
    turns = with_annotations(walk("s a b g"), value__x=[1.0, 2.0, 3.0, 4.0]).turns
    assert all(a.values["value.x.next"] == b.values["value.x"] for a, b in pairwise(turns))

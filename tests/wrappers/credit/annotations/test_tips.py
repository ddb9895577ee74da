"""``tips``: the likelihood of the answer is a potential."""

from __future__ import annotations

import numpy as np
from helpers.episodes.annotated import with_annotations
from helpers.episodes.builders import group, walk
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.trajectory import Trajectory


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

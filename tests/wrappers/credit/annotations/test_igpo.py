"""``igpo``: gains of the answer's likelihood, normalised beside outcomes."""

from __future__ import annotations

import numpy as np
from helpers.episodes.annotated import with_annotations
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.wrappers.trajectory import Trajectory


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

"""``ppo_gae``: one step of the estimate is one token."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.annotated import with_tokens
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.wrappers.credit import CreditError


def test_a_turns_reward_is_on_its_last_token_and_observations_are_no_steps() -> None:
    g = group(with_tokens(walk("s a g", rewards=[0.25, 1.0]), [0.5, 0.75, 99.0], inside=0.0))
    scored = credit.make("ppo_gae", gae_lambda=0.0, whitening=False).assign(g)
    assert scored.token_advantages is not None
    # three model tokens per turn: V = 0.5, 0, 0 | 0.75, 0, 0; rewards on the third
    np.testing.assert_allclose(scored.token_advantages[0], [-0.5, 0.0, 0.25 + 0.75, -0.75, 0.0, 1.0])
    # a turn's advantage is the mean over its tokens
    np.testing.assert_allclose(scored.advantages[0], [0.5 / 3, 0.25 / 3])


def test_token_credit_needs_tokens() -> None:
    with pytest.raises(CreditError, match="has no tokens: ppo_gae assigns credit to tokens"):
        credit.make("ppo_gae").assign(group(walk("s g")))


def test_a_reward_before_the_first_model_token_is_dropped() -> None:
    made = with_tokens(walk("s a g", rewards=[5.0, 1.0]), [0.0, 0.0, 0.0])
    assert made.tokens is not None
    mask = made.tokens.mask.copy()
    mask[:5] = False
    g = group(replace(made, tokens=replace(made.tokens, mask=mask)))
    scored = credit.make("ppo_gae", whitening=False).assign(g)
    assert scored.token_advantages is not None
    assert scored.token_advantages[0].tolist() == [1.0, 1.0, 1.0]
    assert scored.advantages[0].tolist() == [0.0, 1.0]

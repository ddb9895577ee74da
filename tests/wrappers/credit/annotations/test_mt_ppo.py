"""``mt_ppo``: one step of the estimate is one turn."""

from __future__ import annotations

from helpers.episodes.annotated import with_tokens
from helpers.episodes.builders import group, walk

from creditflow import credit


def test_with_lambda_zero_turns_get_their_temporal_differences() -> None:
    g = group(with_tokens(walk("s a b g", rewards=[0.0, 0.5, 1.0]), [1.0, 2.0, 4.0, 99.0]))
    scored = credit.make("mt_ppo", discount=0.5, gae_lambda=0.0, whitening=False).assign(g)
    assert scored.advantages[0].tolist() == [0.0 + 1.0 - 1.0, 0.5 + 2.0 - 2.0, 1.0 - 4.0]
    assert scored.value_targets is not None
    assert scored.value_targets.targets[0].tolist() == [1.0, 2.5, 1.0]
    assert scored.value_targets.values[0].tolist() == [1.0, 2.0, 4.0]

"""Asynchronous rollouts of a run: where they are the default, and that they are those of lock step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.training_runs import Make

from creditflow.envs.errors import ConfigError


def test_episodes_wait_for_no_other_with_vllm_unless_they_are_told_to(
    config: dict[str, Any], settings_of: Callable[..., Any]
) -> None:
    assert settings_of(config).rollout.asynchronous is False
    assert settings_of(config, "generation.backend=vllm").rollout.asynchronous is True
    assert settings_of(config, "generation.backend=vllm", "rollout.asynchronous=false").rollout.asynchronous is False
    with pytest.raises(ConfigError, match="env_threads must be at least 1"):
        settings_of(config, "rollout.env_threads=0")


def test_episodes_that_go_on_by_themselves_are_those_of_lock_step_up_to_rounding(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    played = []
    for engine in ("false", "true"):
        run = trainer_of(config, f"out={tmp_path}/{engine}", f"rollout.asynchronous={engine}")
        played.append([t for group in run.sample(0).groups for t in group.trajectories])
    for in_step, alone in zip(*played, strict=True):
        assert in_step.turns == alone.turns
        np.testing.assert_array_equal(in_step.tokens.ids, alone.tokens.ids)
        np.testing.assert_allclose(in_step.tokens.logprobs, alone.tokens.logprobs, atol=1e-3)

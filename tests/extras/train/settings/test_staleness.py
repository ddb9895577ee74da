"""Rollouts ahead of the update are refused where they cannot work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from creditflow.envs.errors import ConfigError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"generation": {"backend": "vllm"}, "rollout": {"asynchronous": False}}, "asynchronous: true"),
        ({"generation": {"backend": "vllm"}, "rollout": {"asynchronous": True, "max_staleness": 2}}, "one version"),
        ({"generation": {"backend": "vllm", "vllm": {"sleep": True}}, "rollout": {"asynchronous": True}}, "sleep"),
        ({"rollout": {"cache": "static", "compile": True}}, "main thread"),
        ({"rollout": {"top_p": 0.9}}, "top_p=1"),
        ({"rollout": {"top_k": 20}}, "top_k=0"),
        ({"update": {"loss": {"importance_cap": 0.0}}}, "importance_cap"),
        ({"rollout": {"max_staleness": -1}}, "max_staleness must be at least 0"),
        ({"rollout": {"env_threads": 0}}, "env_threads must be at least 1"),
    ],
)
def test_what_cannot_work_is_refused(
    config: dict[str, Any], settings_of: Callable[..., Any], change: dict[str, Any], message: str
) -> None:
    config["rollout"]["max_staleness"] = 1
    for section, values in change.items():
        config[section] = config.get(section, {}) | values
    with pytest.raises(ConfigError, match=message):
        settings_of(config)


def test_ratios_to_the_sampler_correct_without_a_cap(config: dict[str, Any], settings_of: Callable[..., Any]) -> None:
    settings = settings_of(
        config, "rollout.max_staleness=1", "update.old_logprobs=sampler", "update.loss.importance_cap=0"
    )
    assert settings.rollout.max_staleness == 1


def test_episodes_wait_for_no_other_with_vllm_unless_they_are_told_to(
    config: dict[str, Any], settings_of: Callable[..., Any]
) -> None:
    assert settings_of(config).rollout.asynchronous is False
    assert settings_of(config, "generation.backend=vllm").rollout.asynchronous is True
    assert settings_of(config, "generation.backend=vllm", "rollout.asynchronous=false").rollout.asynchronous is False

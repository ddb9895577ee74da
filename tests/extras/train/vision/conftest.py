"""A vision-language policy from scratch and its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.models.toy_config import toy_vision_config


@pytest.fixture(params=["qwen2_5_vl", "qwen3_vl"])
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def vision_config(tmp_path: Path) -> dict[str, Any]:
    """Plain settings of a run that takes a second or two."""
    return toy_vision_config(tmp_path)


@pytest.fixture
def policy_of(settings_of: Callable[..., Any]) -> Callable[..., Any]:
    """Settings, model and tokenizer of a policy that was not trained."""
    from creditflow.train.rollout.tasks import training_tasks
    from creditflow.train.run.assemble import make_policy

    def make(config: dict[str, Any], *overrides: str) -> tuple[Any, Any, Any]:
        settings = settings_of(config, *overrides)
        tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        model, tokenizer = make_policy(settings, None, tasks)
        return settings, model, tokenizer

    return make


@pytest.fixture
def groups_of() -> Callable[..., Any]:
    """Training groups that a policy samples."""
    from creditflow.agents.backends.transformers_backend import TransformersBackend
    from creditflow.train.annotate.scheme import make_scheme
    from creditflow.train.rollout.tasks import training_tasks
    from creditflow.train.run.assemble import make_policy_agent, make_rollout_engine

    def play(settings: Any, model: Any, tokenizer: Any) -> Any:
        tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        agent = make_policy_agent(settings, TransformersBackend(model), tokenizer, temperature=1.0)
        return make_rollout_engine(settings, make_scheme(settings)).play(agent, tasks, seed=0)

    return play

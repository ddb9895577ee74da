"""The tinker tier: without tinker-cookbook every test is skipped; ``--require tinker`` makes that a failure.

Groups are played by tinker-cookbook's own rollout, with a policy of its own type. Its service is not reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.tiny_tokenizer import byte_tokenizer
from helpers.servers.chat_server import Model
from helpers.worlds.sokoban_episodes import sokoban_config

from creditflow.train.adapters.text_episode import EpisodeConfig, panel_tasks


@pytest.fixture(autouse=True, scope="session")
def tinker_is_there() -> None:
    pytest.importorskip(
        "tinker_cookbook", reason="tinker-cookbook is not installed: pip install -e '.[tinker-cookbook]'"
    )


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def renderer(tokenizer: Any) -> Any:
    from tinker_cookbook.renderers import get_renderer

    return get_renderer("qwen3_instruct", tokenizer)


@pytest.fixture
def config(tmp_path: Path) -> EpisodeConfig:
    """Sokoban on three levels of one or two moves."""
    return sokoban_config(tmp_path)


@pytest.fixture
def play(config: EpisodeConfig, renderer: Any, tokenizer: Any) -> Callable[..., list[Any]]:
    """A group per task, played by ``do_group_rollout``."""

    def run(model: Model, scheme: Any, *, size: int = 6, ended: bool = True) -> list[Any]:
        from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
        from tinker_cookbook.rl.rollouts import do_group_rollout

        from creditflow.train.adapters.tinker import CreditGroupBuilder

        class Policy(TokenCompleter):
            async def __call__(self, model_input: Any, stop: Any, *, max_tokens: int | None = None) -> Any:
                shown = tokenizer.decode(model_input.to_ints()).rsplit("<|im_start|>user", 1)[1].split("<|im_end|>")[0]
                ids = tokenizer.encode(model([{"role": "user", "content": shown}]), add_special_tokens=False)
                ids += [tokenizer.eos_token_id] if ended else []
                return TokensWithLogprobs(ids, np.linspace(-1.0, -0.1, len(ids)).tolist())

        async def groups() -> list[Any]:
            builders = [
                CreditGroupBuilder(config, task.content, renderer, scheme, size) for task in panel_tasks(config.env)
            ]
            return [await do_group_rollout(builder, Policy()) for builder in builders]

        return asyncio.run(groups())

    return run

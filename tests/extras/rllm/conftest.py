"""The rLLM tier: without rLLM every test is skipped with the reason; ``--require rllm`` makes that a failure.

Episodes are played by rLLM's own workflow engine and OpenAI engine, against a model on the loopback address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.models.tiny_tokenizer import byte_tokenizer
from helpers.servers.chat_server import Model, chat_server, json_server
from helpers.worlds.sokoban_episodes import sokoban_config

from creditflow.train.adapters.text_episode import EpisodeConfig


@pytest.fixture(autouse=True, scope="session")
def rllm_is_there() -> None:
    pytest.importorskip("rllm", reason="rLLM is not installed, and not on PyPI: see train/adapters/README.md")


@pytest.fixture
def config(tmp_path: Path) -> EpisodeConfig:
    """Sokoban on three levels of one or two moves."""
    return sokoban_config(tmp_path)


@pytest.fixture
def engine_play(config: EpisodeConfig) -> Callable[..., list[Any]]:
    """Whole groups played by rLLM's engine; returns its episodes."""

    def run(
        rollout: Any, *, size: int = 6, play: EpisodeConfig | None = None, rows: Any = None, **others: Any
    ) -> list[Any]:
        from rllm.engine.unified_workflow_engine import UnifiedWorkflowEngine

        from creditflow.train.adapters.rllm import CreditWorkflow, task_rows

        rows = task_rows(config) if rows is None else rows
        tasks = [row for row in rows for _ in range(size)]
        engine = UnifiedWorkflowEngine(
            CreditWorkflow, {"play": play or config}, rollout, n_parallel_tasks=4, retry_limit=1, **others
        )

        async def execute() -> list[Any]:
            try:
                return list(await engine.execute_tasks(tasks, [row["id"] for row in tasks]))
            finally:
                engine.shutdown()
                if hasattr(rollout, "client"):
                    await rollout.client.close()

        return asyncio.run(execute())

    return run


@pytest.fixture
def chat_play(engine_play: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The same against the chat endpoint, without token ids."""

    def run(model: Model, **others: Any) -> list[Any]:
        from rllm.engine.rollout.openai_engine import OpenAIEngine

        with chat_server(model) as url:
            return engine_play(OpenAIEngine(model="toy", base_url=url, api_key="none", api_retries=1), **others)

    return run


@pytest.fixture
def token_play(engine_play: Callable[..., list[Any]]) -> Callable[..., tuple[list[Any], list[list[int]]]]:
    """The same against the completions endpoint: rLLM's chat parser encodes, the server returns the ids that it sampled."""

    def run(model: Model, **others: Any) -> tuple[list[Any], list[list[int]]]:
        from rllm.engine.rollout.openai_engine import OpenAIEngine

        tokenizer = byte_tokenizer()
        tokenizer.name_or_path = "qwen-of-bytes"  # by which rLLM chooses its parser
        sampled: list[list[int]] = []

        def complete(_path: str, body: dict[str, Any]) -> Any:
            prompt = body["prompt"] if isinstance(body["prompt"], str) else tokenizer.decode(body["prompt"])
            text = model([{"role": "user", "content": prompt.rsplit("<|im_start|>user", 1)[1].split("<|im_end|>")[0]}])
            ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
            sampled.append(ids)
            choice = {"index": 0, "text": text, "finish_reason": "stop", "token_ids": ids}
            scores = {"token_logprobs": [-0.5] * len(ids), "tokens": [], "text_offset": [], "top_logprobs": None}
            usage = {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(ids),
                "total_tokens": len(prompt) + len(ids),
            }
            return {
                "id": "c", "object": "text_completion", "created": 0, "model": "toy", "usage": usage,
                "choices": [{**choice, "logprobs": scores}],
            }  # fmt: skip

        with json_server(complete) as url:
            rollout = OpenAIEngine(
                model="toy",
                tokenizer=tokenizer,
                base_url=f"{url}/v1",
                api_key="none",
                api_retries=1,
                max_prompt_length=20_000,
            )
            return engine_play(rollout, **others), sampled

    return run

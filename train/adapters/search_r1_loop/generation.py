"""Search-R1's ``LLMGenerationManager`` that plays, records and credits our search environment: two changed lines of its trainer.

Read at commit a14dc3a (29 October 2025) of PeterGriffinJin/Search-R1::

    # verl/trainer/ppo/ray_trainer.py: after "from search_r1.llm_agent.generation import LLMGenerationManager, GenerationConfig"
    LLMGenerationManager = playing(LLMGenerationManager, questions="train.jsonl")

    # RayPPOTrainer.fit: instead of "batch = compute_advantage(batch,"
    batch = generation_manager.compute_advantage(batch,

The loop, the tokens, the prompts and the reward function stay theirs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.search_r1_loop.advantage import require_plain_rewards, token_advantages
from creditflow.train.adapters.search_r1_loop.episodes import RecordedBatch, SearchEpisodes
from creditflow.train.adapters.search_r1_loop.questions import QuestionBook
from creditflow.train.commands.arguments.options import bare_env
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import numbers, require_plain
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["ROW", "playing"]

ROW: Final = "creditflow_row"  # the column that leads a row, wherever it goes, back to its episode


def playing(
    manager: type[Any],
    *,
    scheme: str = "gigpo",
    parameters: Mapping[str, Any] | None = None,
    threads: int = 0,
    **options: Any,
) -> type[Any]:
    """A subclass of Search-R1's generation manager.

    Args:
        manager: ``search_r1.llm_agent.generation.LLMGenerationManager``.
        scheme, parameters: arguments of ``credit.make``; any scheme without annotations.
        threads: rows that search at once, for a retrieval server; 0 searches one after another.
        **options: arguments of ``WikiSearchEnv``: ``questions`` with ``corpus``, or ``panel``. With ``questions`` alone passages
            come from the loop's own server (``retriever.url``); ``top_k`` is ``retriever.topk`` unless it is given.

    Raises:
        ConfigError: a scheme that needs annotations, or options that the manager sets itself.
    """
    made = credit.make(scheme, **(parameters or {}))
    require_plain(made)
    if taken := {"dialect", "max_steps"} & set(options):
        raise ConfigError(
            f"{', '.join(sorted(taken))} cannot be given: the loop has its own protocol and limit of turns"
        )

    settings = _Settings(made, dict(options), threads)
    return type("RecordingManager", (_Recording, manager), {"_settings": settings})


class _Settings(NamedTuple):
    """What ``playing`` was given: the scheme, the environment's arguments, rows that search at once."""

    scheme: Scheme
    options: dict[str, Any]
    threads: int


class _Recording:
    """The methods that replace, or go around, those of Search-R1's manager, which is the next class in line."""

    _settings: _Settings
    tokenizer: Any
    config: Any

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._episodes, self._book = _open(self.config, self._settings)
        self._played: RecordedBatch | None = None
        self._spans: list[list[tuple[int, int]]] = []
        self._rollouts = 0

    def run_llm_loop(self, gen_batch: Any, initial_input_ids: Any) -> Any:
        prompts = self.tokenizer.batch_decode(gen_batch.batch["input_ids"], skip_special_tokens=True)
        self._episodes.begin(self._book.find(prompts))
        self._spans, self._played = [[] for _ in prompts], None
        released: Any = super()
        output = released.run_llm_loop(gen_batch, initial_input_ids)
        self._played = self._episodes.end()
        self._rollouts += 1
        output.batch[ROW] = initial_input_ids.new_tensor([[self._rollouts, row] for row in range(len(prompts))])
        return output

    def execute_predictions(
        self, predictions: Any, pad_token: str, active_mask: Any = None, do_search: bool = True
    ) -> tuple[list[str], list[int], list[int], list[int]]:
        del pad_token
        found = self._episodes.execute(predictions, active_mask, do_search=do_search)
        return found.next_obs, found.dones, found.valid_action, found.is_search

    def _update_right_side(self, right_side: Any, cur_responses: Any, next_obs_ids: Any = None) -> Any:
        pad = self.tokenizer.pad_token_id
        written = _lengths(cur_responses, pad)
        shown = [0] * len(written) if next_obs_ids is None else _lengths(next_obs_ids, pad)
        for row in np.flatnonzero(self._episodes.stepped).tolist():
            self._spans[row].append((written[row], shown[row]))
        released: Any = super()
        return released._update_right_side(right_side, cur_responses, next_obs_ids)

    def compute_advantage(self, batch: Any, *_: Any, **__: Any) -> Any:
        """In place of the trainer's function of this name: write ``advantages`` and ``returns`` into the batch."""
        import torch

        if self._played is None or ROW not in batch.batch:
            raise TrajectoryError(
                f"the batch has no column {ROW!r} of a rollout of this manager: call run_llm_loop first"
            )
        require_plain_rewards(batch.batch)
        column, responses = numbers(batch.batch[ROW]).astype(int), batch.batch["responses"]
        if (column[:, 0] != self._rollouts).any():
            raise TrajectoryError("rows of an earlier rollout: credit is computed before the next rollout begins")
        mask = batch.batch["info_mask"][:, -responses.shape[-1] :]
        rows = column[:, 1].tolist()
        advantages = torch.from_numpy(token_advantages(self._played, self._spans, rows, mask, self._settings.scheme))
        batch.batch["advantages"] = advantages.to(mask.device)
        batch.batch["returns"] = batch.batch["advantages"].clone()
        return batch


def _open(config: Any, settings: _Settings) -> tuple[SearchEpisodes, QuestionBook]:
    """The episodes of the loop's configuration, and the tasks that its prompts name; files are read once for all rows."""
    given = {"top_k": config.topk, **settings.options}
    if "questions" in given and not {"corpus", "retriever"} & set(given):
        given["retriever"] = {"url": config.search_url, "path": ""}
    first = bare_env("wikisearch", {**given, "dialect": "search_r1", "max_steps": config.max_turns + 2})

    def make() -> GroupEnv:
        return GroupEnv(lambda: copy.copy(first), size=1, texts=True, policy="lm")

    return SearchEpisodes(make, threads=settings.threads), QuestionBook(first.tasks)


def _lengths(ids: Any, pad: int) -> list[int]:
    """The number of tokens of each row that are no padding."""
    return [int(one) for one in (numbers(ids) != pad).sum(1)]

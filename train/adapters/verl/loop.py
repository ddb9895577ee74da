"""verl's agent loop "creditflow": one episode in one of our environments, on token ids throughout.

verl calls ``run`` once per episode, many at a time in one event loop. An append-only history gives one row, a windowed
one a row per turn, which only verl's v1 trainers take. The episode record (states, actions, rewards,
turn offsets) goes into the extra fields of the output, where the credit step reads it. Sampled tokens have mask 1, prompt and
observation tokens mask 0, and the sampler's log-probabilities are passed through. verl's queue worker gives every output the
reward of the last one, so rewards and their metrics count rows; credit is computed from the record alone.

The environment and the prompting are configured in the file that verl's
``actor_rollout_ref.rollout.agent.agent_loop_config_path`` names, as ``creditflow train --engine verl`` writes it::

    - name: creditflow
      _target_: creditflow.train.adapters.verl.loop.CreditAgentLoop
      env: {name: sokoban, options: {max_steps: 20}}
      prompting: {prompt: think-v1, dialect: think}
      max_new_tokens: 256

Rows of the data set carry the task (``creditflow data build verl`` writes them).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion
from creditflow.agents.base import Decision, TurnTokens
from creditflow.agents.language_model.agent import Conversations, PendingCompletion, decide
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.pretrained import PromptingConfig, open_tokenizer
from creditflow.agents.language_model.tokens import join_tokens
from creditflow.agents.prompts import make_prompt
from creditflow.envs.errors import ConfigError, CreditflowError, TrajectoryError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.adapters.text_episode import EpisodeConfig, metrics_of, task_content
from creditflow.train.adapters.verl.credit import NAME, VERL, check_windowed, credit_settings
from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord, TurnRow
from creditflow.train.rollout.play import episode_rng
from creditflow.train.rollout.running import RunningEpisode
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.settings.reading import plain_section, read_dataclass
from creditflow.wrappers.group_env import member_seed, payload
from creditflow.wrappers.records.pictures import EncodedPicture
from creditflow.wrappers.records.trajectory import Trajectory

VERL.require()

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

__all__ = ["CreditAgentLoop", "make_outputs"]


def make_outputs(
    played: Trajectory,
    task: Mapping[str, Any],
    turns: Sequence[TurnTokens],
    versions: Sequence[Mapping[str, Any]],
    seconds: Mapping[str, float],
    *,
    end: int,
) -> AgentLoopOutput | list[AgentLoopOutput]:
    """The outputs of one episode.

    Args:
        played: the episode.
        task: the task payload if the scheme reads it.
        turns: tokens of the turns.
        versions: weight versions of each completion.
        seconds: time spent, by verl's names.
        end: an end token, for the one masked token of an episode without turns: verl needs a row.
    """
    if not turns:
        nothing = np.array([end], np.int32)
        text = EpisodeRecord.of(replace(played, tokens=None), task).encode()
        return _output(
            played, nothing, nothing, np.zeros(1, np.bool_), np.zeros(1, np.float32), text, versions, seconds
        )
    tokens = join_tokens(turns)
    record = EpisodeRecord.of(replace(played, tokens=tokens), task)
    if not tokens.prompts:
        first = len(turns[0].prompt)
        return _output(
            played,
            tokens.ids[:first],
            tokens.ids[first:],
            tokens.mask[first:],
            tokens.logprobs[first:],
            record.encode(),
            versions,
            seconds,
            pictures=[picture for turn in turns for picture in turn.pictures],
        )
    last = len(turns) - 1
    return [
        _output(
            played,
            turn.prompt,
            turn.completion,
            np.full(len(turn.completion), turn.in_loss),
            turn.logprobs,
            TurnRow(played.trajectory_id, t, record if t == last else None).encode(),
            versions[t : t + 1],
            seconds if t == last else {},
            slice(t, t + 1),
            turn.pictures,
        )
        for t, turn in enumerate(turns)
    ]


def _output(
    played: Trajectory,
    prompt: NDArray[np.int32],
    response: NDArray[np.int32],
    mask: NDArray[np.bool_],
    logprobs: NDArray[np.float32],
    text: str,
    versions: Sequence[Mapping[str, Any]],
    seconds: Mapping[str, float],
    span: slice = slice(None),
    pictures: Sequence[EncodedPicture] = (),
) -> AgentLoopOutput:
    """One row, which holds the turns of ``span`` and shows ``pictures``."""
    return AgentLoopOutput(
        multi_modal_data={"images": _images(pictures)} if pictures else None,
        prompt_ids=prompt.tolist(),
        response_ids=response.tolist(),
        response_mask=mask.astype(int).tolist(),
        response_logprobs=None if np.isnan(logprobs).any() else logprobs.tolist(),
        reward_score=played.episode_return,
        num_turns=2 * len(played.turns),
        metrics=AgentLoopMetrics(**seconds),
        extra_fields={
            FIELD: text,
            "turn_scores": [turn.reward for turn in played.turns[span]],
            "tool_rewards": [],
            "reward_extra_info": metrics_of(played),
            **_version_range(versions),
        },
    )


def _images(pictures: Sequence[EncodedPicture]) -> list[Any]:
    """The pictures as verl and vLLM take them, which encode them themselves."""
    from PIL import Image

    return [Image.fromarray(picture.picture.pixels) for picture in pictures]


def _version_range(versions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Range of weight versions that sampled the row, by which verl drops stale ones."""
    lows = [v["min_global_steps"] for v in versions if v.get("min_global_steps") is not None]
    highs = [v["max_global_steps"] for v in versions if v.get("max_global_steps") is not None]
    return {"min_global_steps": min(lows, default=None), "max_global_steps": max(highs, default=None)}


_log = logging.getLogger(__name__)


@register(NAME)
class CreditAgentLoop(AgentLoopBase):
    """Plays one episode.

    Args:
        env, prompting, budget: sections as in ``EpisodeConfig``.
        max_new_tokens: maximum length of one turn's completion.
        threads: step the environment in a thread, so that waiting (as for a retrieval server) does not block
            other episodes; environments that only compute are faster without.
        failures: folder that all nodes share, where the reason of a failure is written; "" for none. verl itself only reports that
            there are no trajectories.
        **others: arguments that verl passes to every loop.

    Raises:
        ConfigError: an unknown or invalid setting, or a windowed history where verl does not take a row per turn.
    """

    def __init__(
        self,
        *args: Any,
        env: Any = None,
        prompting: Any = None,
        max_new_tokens: int = 256,
        budget: Any = None,
        threads: bool = False,
        failures: str = "",
        **others: Any,
    ) -> None:
        # verl's builders of conversations, which this loop does not use, ask for tokens of the model's family
        super().__init__(*args, **{**others, "hf_model_type": None})
        self.failures = failures
        with self._reported():
            self._configure(env, prompting, budget, max_new_tokens)
        self.threads = threads

    def _configure(self, env: Any, prompting: Any, budget: Any, max_new_tokens: int) -> None:
        sections = {"env": env, "prompting": prompting, "budget": budget}
        configured = {name: plain_section(section) for name, section in sections.items() if section is not None}
        self.play = read_dataclass(
            EpisodeConfig, {**configured, "max_new_tokens": max_new_tokens}, f"agent loop {NAME}"
        )
        if self.play.windowed:
            check_windowed(self.config)
        self.scheme = credit_settings(self.config.algorithm).make()
        prompting = json.dumps(asdict(self.play.prompting), sort_keys=True)
        shown = make_prompt(self.play.prompting.prompt).shows_pictures
        if shown and self.processor is None:
            raise ConfigError("the model's folder has no processor of pictures, or torchvision is not installed")
        model = str(self.config.actor_rollout_ref.model.path) if shown else ""
        self.conversations = _conversations(self.tokenizer, prompting, model)
        self.dialect = make_dialect(self.play.prompting.dialect)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Write the reason of a failure to the folder of failures, and pass it on."""
        try:
            yield
        except Exception as error:
            if self.failures:
                folder = Path(self.failures)
                folder.mkdir(parents=True, exist_ok=True)
                with atomic_writer(folder / f"{uuid4().hex}.txt") as stream:
                    stream.write(f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}")
            raise

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Run one episode.

        Args:
            sampling_params: verl's.
            **row: of the data set, with ``extra_info`` as ``verl.data`` writes it, and verl's ``uid`` and
                ``session_id``.

        Raises:
            DataError: the row names no task.
        """
        with self._reported():
            return await self._run(sampling_params, row)

    async def _run(
        self, sampling_params: dict[str, Any], row: dict[str, Any]
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        start_step = int(row.get("global_steps", 0))
        # for an episode in which nothing is sampled
        versions: list[dict[str, Any]] = [{"min_global_steps": start_step, "max_global_steps": start_step}]
        seconds = {"generate_sequences": 0.0, "tool_calls": 0.0}
        end = min(self.conversations.chat.end_ids)
        started = self._begin(row)
        if isinstance(started, Trajectory):
            task = task_content(row.get("extra_info")) if self.scheme.task_fields else {}
            return make_outputs(started, task, [], versions, seconds, end=end)
        episode = started
        recorder = episode.recorder
        request = uuid4().hex  # one per episode, so that verl's router finds the server that caches its prefix
        while episode.running:
            pending = self.conversations.build_prompt(episode.view)
            remaining = self._remaining_tokens([] if self.play.windowed else episode.tokens, pending)
            if remaining < 1:
                episode.stop("token_limit")
                break
            began = time.perf_counter()
            output = await self._generate(request, pending, remaining, sampling_params)
            seconds["generate_sequences"] += time.perf_counter() - began
            versions = [*(versions if episode.tokens else ()), dict(output.extra_fields)]
            decision = decide(self.conversations, self.dialect, pending, _sampled(output))
            began = time.perf_counter()
            error = await self._step(episode, decision)
            if error is not None:
                _log.warning("%s: %s: %s", recorder.identity["trajectory_id"], type(error).__name__, error)
                break
            seconds["tool_calls"] += time.perf_counter() - began
        task = payload(recorder.base.task, [recorder.base]) if self.scheme.task_fields else {}
        trajectory = recorder.trajectory if self.scheme.texts else _without_texts(recorder.trajectory)
        return make_outputs(trajectory, task, episode.tokens, versions, seconds, end=end)

    def _begin(self, row: dict[str, Any]) -> RunningEpisode | Trajectory:
        """Reset a fresh environment to the row's task; an episode without turns if that fails."""
        task = task_content(row.get("extra_info"))
        uid, session = str(row.get("uid", "")) or uuid4().hex, row.get("session_id")
        replica = 0 if session is None else int(session)
        name = f"{uid}/{uuid4().hex if session is None else replica}"
        texts = self.play.windowed or bool(self.scheme.texts)  # windowed prompts repeat observations
        [recorder] = group_env_factory(self.play.env, 1, texts=texts)().members
        recorder.set_next_episode(group_id=uid, trajectory_id=name, replica=replica)
        seed, task_id = member_seed(0, uid, replica), row["extra_info"].get("task_id")
        try:
            observation, info = recorder.reset(seed=seed, options={"task": dict(task)})
        except CreditflowError:
            raise  # a wrong task or wrong settings would fail every episode
        except Exception as error:
            if not isinstance(task_id, str):  # without a task id there is no episode to mark
                raise
            _log.warning("%s could not begin: %s: %s", name, type(error).__name__, error)
            nowhere = f"{name} #start"  # a state of its own
            return Trajectory(
                name, uid, task_id, (), False, 0.0, "env_error", nowhere, nowhere, seed=seed, replica=replica
            )
        rng = episode_rng(0, 0, info["task_id"], replica)
        return RunningEpisode(recorder, observation, info, rng)

    def _remaining_tokens(self, turns: list[TurnTokens], pending: PendingCompletion) -> int:
        """Number of tokens left for the next completion in the row of these turns; less than 1 ends the episode."""
        limits, read, context = self.rollout_config, len(pending.new), self.play.prompting.max_context
        if context and len(pending.ids) > context - self.play.max_new_tokens:  # as our own agents end an episode
            return 0
        if not turns:
            return int(limits.response_length) if read <= limits.prompt_length else 0
        used = sum(len(turn.prompt) + len(turn.completion) for turn in turns) - len(turns[0].prompt)
        return int(limits.response_length) - used - read

    async def _generate(
        self, request: str, pending: PendingCompletion, remaining: int, sampling_params: dict[str, Any]
    ) -> Any:
        """verl's completion of a prompt, within the tokens that remain; never with the token that stands for pictures."""
        encoder = self.conversations.encoder
        shown = {"image_data": _images(pending.pictures)} if pending.pictures else {}
        return await self.server_manager.generate(
            request_id=request,
            prompt_ids=pending.ids.tolist(),
            **shown,
            sampling_params={
                **({} if encoder is None else {"logit_bias": {encoder.token: -100.0}}),
                **sampling_params,
                "max_tokens": min(remaining, self.play.max_new_tokens),
                "stop_token_ids": sorted(self.conversations.chat.end_ids),
            },
        )

    async def _step(self, episode: RunningEpisode, decision: Decision) -> Exception | None:
        if self.threads:
            return await asyncio.to_thread(episode.step, decision, self.play.budget)
        return episode.step(decision, self.play.budget)


@lru_cache(maxsize=8)
def _conversations(tokenizer: Any, prompting: str, model: str) -> Conversations:
    """Conversations shared by the episodes of a process: verl constructs a loop for each episode.

    Args:
        tokenizer: verl's.
        prompting: the settings as JSON.
        model: folder or name of a model whose prompts show pictures, and whose own tokenizer is taken; "" for others.
    """
    tokenizer = open_tokenizer(model, pictures=True) if model else tokenizer
    return read_dataclass(PromptingConfig, json.loads(prompting)).conversations(tokenizer)


def _sampled(output: Any) -> Completion:
    """Convert verl's completion; missing log-probabilities are nan."""
    ids = np.asarray(output.token_ids, np.int32)
    if not len(ids):
        raise TrajectoryError(f"the server returned no token (stop_reason {output.stop_reason!r}): was it aborted?")
    recorded = output.log_probs
    logprobs = np.full(len(ids), np.nan) if not recorded else np.asarray(recorded, np.float64)
    if len(logprobs) != len(ids):
        raise TrajectoryError(f"the server returned {len(ids)} tokens and {len(logprobs)} log-probabilities")
    return Completion(ids, logprobs.astype(np.float32))


def _without_texts(played: Trajectory) -> Trajectory:
    """The trajectory without the texts that only its prompts needed."""
    return replace(played, turns=tuple(replace(turn, observation="", thought="", response="") for turn in played.turns))

"""An rLLM workflow that plays one of our environments: a step per turn, the episode's record on its trajectory.

A task is a mapping with ``task``, the task's content (``train.adapters.text_episode.panel_tasks`` lists tasks)::

    AgentTrainer(workflow_class=CreditWorkflow, workflow_args={"play": play}, traj_grouping_hook=CreditHook(scheme), …)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.adapters.episode_config import EpisodeConfig
from creditflow.train.adapters.releases import RLLM
from creditflow.train.adapters.rllm.hook import PLAYER, completion_text
from creditflow.train.adapters.task_lists import panel_tasks
from creditflow.train.adapters.text_episode import TextEpisode
from creditflow.wrappers.credit.bridge import FIELD

RLLM.require()

from rllm.types import Episode, Step, Trajectory
from rllm.workflows.workflow import TerminationEvent, TerminationReason, Workflow

__all__ = ["CreditWorkflow", "task_rows"]


class CreditWorkflow(Workflow):
    """Plays one episode.

    Args:
        *args: rLLM's.
        play: environment, prompting and limits.
        **others: rLLM's.

    Raises:
        ConfigError: a windowed history, or a budget of tokens.
    """

    def __init__(self, *args: Any, play: EpisodeConfig, **others: Any) -> None:
        super().__init__(*args, **others)
        self.play = play

    async def run(self, task: dict[str, Any], uid: str, **kwargs: Any) -> Episode:
        """Play the task of a row; ``uid`` is "row's id:number in its group".

        Raises:
            ConfigError: a row's id with a colon, at which rLLM would split it and mix the groups of different tasks.
            DataError: the row names no task.
        """
        if uid.count(":") != 1:
            raise ConfigError(
                f"rLLM splits the ids of episodes at their colon: ids of rows must have none, got {short_repr(uid)}"
            )
        group, _, replica = uid.partition(":")
        episode = TextEpisode(self.play, _content(task), group_id=group, replica=int(replica))
        messages: list[dict[str, Any]] = list(episode.messages)
        steps: list[Step] = []
        reason = TerminationReason.ENV_DONE
        while not episode.done:
            try:
                output = await self.rollout_engine.get_model_response(messages, application_id=uid, **kwargs)
            except TerminationEvent as limit:  # the conversation is too long to go on
                reason = limit.reason
                episode.stop("token_limit")
                break
            text = completion_text(output.reasoning, output.content if output.content is not None else output.text)
            reply = await self.run_in_executor(episode.step, text)
            step = Step.from_model_output(output, messages, action=text)
            step.reward, step.done, step.model_response = reply.reward, reply.done, text
            steps.append(step)
            messages = [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": reply.text}]
        played = episode.trajectory
        if played.stop_reason == "env_limit":
            reason = TerminationReason.MAX_TURNS_EXCEEDED
        metadata = {FIELD: episode.record()}
        trajectory = Trajectory(name=PLAYER, task=task, steps=steps, reward=played.episode_return, metadata=metadata)
        return Episode(
            id=uid,
            task=task,
            trajectories=[trajectory],
            is_correct=played.success,
            termination_reason=reason,
            metrics={"success": float(played.success), "score": played.score, "turns": float(len(played.turns))},
        )


def task_rows(play: EpisodeConfig, *, panel: str = "", count: int = 0) -> list[dict[str, Any]]:
    """The rows of a data set of rLLM, one per task: an id without colons, and the content as JSON text.

    Args:
        play: names the environment.
        panel, count: see ``panel_tasks``.
    """
    tasks = panel_tasks(play.env, panel=panel, count=count)
    return [{"id": task.task_id.replace(":", "-"), "task": json.dumps(dict(task.content))} for task in tasks]


def _content(row: Any) -> Mapping[str, Any]:
    content = row.get("task") if isinstance(row, Mapping) else None
    if isinstance(content, str):
        content = parse_json(content, where="task")
    if not isinstance(content, Mapping):
        raise DataError(f"a row must hold the task's content under 'task' (see task_rows), got {short_repr(row)}")
    return content

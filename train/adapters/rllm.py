"""rLLM: a workflow that plays our environments, and a grouping hook that writes one advantage per sampled token on every step.

rLLM trains on ``Step.advantage`` as it is when ``rllm.algorithm.use_precomputed_advantage`` is true. A task is a mapping with
``task``, the task's content (``task_rows`` writes such rows)::

    AgentTrainer(workflow_class=CreditWorkflow, workflow_args={"play": play}, traj_grouping_hook=CreditHook(scheme), …)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr
from creditflow.train.adapters.logs.messages import split_thought
from creditflow.train.adapters.releases import RLLM
from creditflow.train.adapters.text_episode import (
    EpisodeConfig,
    TextEpisode,
    metrics_of,
    panel_tasks,
    task_content,
    with_thought,
)
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import (
    FIELD,
    Played,
    assign_turns,
    make_episode,
    make_group,
    per_completion,
    read_record,
    require_plain,
    state_text,
)
from creditflow.wrappers.records.group import Group

RLLM.require()

from rllm.trainer.algorithms.transform import _default_traj_grouping_hook
from rllm.types import Episode, Step, Trajectory
from rllm.workflows.workflow import TerminationEvent, TerminationReason, Workflow

__all__ = ["PLAYER", "CreditHook", "CreditWorkflow", "read_recorded", "read_steps", "task_rows"]


PLAYER: Final = "player"  # name of CreditWorkflow's trajectories
_log = logging.getLogger(__name__)


class CreditHook:
    """Groups trajectories as rLLM does and writes their credit.

    Validation runs through the same hook with single episodes, so a group of one is kept, with zero credit.

    Args:
        scheme: credit scheme.
        role: name of the trajectories that are credited; those of other roles keep rLLM's estimator.
        read: the trajectory of an rLLM trajectory; default ``read_recorded``. ``read_steps(…)`` is for other workflows.
        group: groups the episodes; default rLLM's own hook.

    Raises:
        ConfigError: a scheme that reads annotations.
    """

    def __init__(
        self,
        scheme: Scheme,
        *,
        role: str = PLAYER,
        read: Callable[[Any], Played] | None = None,
        group: Callable[..., list[Any]] | None = None,
    ) -> None:
        require_plain(scheme)
        self.scheme, self.role, self._read, self._group = scheme, role, read or read_recorded, group

    def __call__(
        self, episodes: Sequence[Any], transform_config: Any, compact_filtering_config: Any = None
    ) -> list[Any]:
        """The trajectory groups of these episodes, with credit.

        Raises:
            TrajectoryError: a trajectory without record, lost steps, a reward that is not finite.
            ConfigError: a scheme that credits tokens or learns a critic.
        """
        grouped = list(
            (self._group or _default_traj_grouping_hook)(episodes, transform_config, compact_filtering_config)
        )
        mine, groups = list[Any](), list[Group]()
        for group in grouped:
            if any(member.name == self.role for member in group.trajectories):
                mine.append(group)
                played = [self._read(member) for member in group.trajectories]
                groups.append(make_group(group.group_id, played, alone="keep"))
        if alone := sum(len(group) == 1 for group in groups):
            _log.info("%d of %d groups have one episode, whose credit is zero", alone, len(groups))
        written: list[tuple[Any, float]] = []
        for theirs, ours, numbers in zip(mine, groups, assign_turns(groups, self.scheme), strict=True):
            for member, episode, advantages in zip(theirs.trajectories, ours.trajectories, numbers, strict=True):
                written += zip(member.steps, per_completion(episode, advantages, len(member.steps)), strict=True)
        for step, number in written:  # only when the whole batch fits; without ids, one number for the step
            step.advantage = [number] * len(step.response_ids) or number
        return grouped


def read_recorded(trajectory: Any) -> Played:
    """The episode that ``CreditWorkflow`` played.

    Raises:
        TrajectoryError: no record, or one whose completions are not those of the steps.
    """
    played = read_record((trajectory.metadata or {}).get(FIELD), trajectory.uid)
    for t, (turn, step) in enumerate(zip(played[0].turns, trajectory.steps, strict=False)):
        if turn.response not in ("", step.model_response):
            raise TrajectoryError(f"trajectory {trajectory.uid!r}: step {t} has another completion than its record")
    return played


def read_steps(*, success: Callable[[Any], bool | str]) -> Callable[[Any], Played]:
    """A reader of other workflows' trajectories: a state is a step's observation, or the last message that it was shown.

    Args:
        success: whether a trajectory solved its task, or how it ended: a stop reason, where a limit may have cut it.
    """

    def read(trajectory: Any) -> Played:
        played = make_episode(
            trajectory.uid,
            task_id=str(trajectory.task),
            states=[_shown(step) for step in trajectory.steps],
            actions=[
                split_thought(step.model_response)[1] if step.model_response else str(step.action)
                for step in trajectory.steps
            ],
            rewards=[step.reward for step in trajectory.steps],
            ended=success(trajectory),
        )
        return played, {}

    return read


def _shown(step: Any) -> str:
    if step.observation is not None:
        return state_text(step.observation)
    context = [message["content"] for message in step.chat_completions if message["role"] != "assistant"]
    return state_text(context[-1] if context else None)


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
                f"rLLM splits the ids of episodes at their colon: ids of rows must not contain one, got {short_repr(uid)}"
            )
        group, _, replica = uid.partition(":")
        episode = TextEpisode(self.play, task_content(task), group_id=group, replica=int(replica))
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
            text = with_thought(output.reasoning, output.content if output.content is not None else output.text)
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
            metrics=metrics_of(played),
        )


def task_rows(play: EpisodeConfig, *, panel: str = "", count: int = 0) -> list[dict[str, Any]]:
    """The rows of a data set of rLLM, one per task: an id without colons, and the content as JSON text.

    Args:
        play: names the environment.
        panel, count: see ``panel_tasks``.
    """
    tasks = panel_tasks(play.env, panel=panel, count=count)
    return [{"id": task.task_id.replace(":", "-"), "task": json.dumps(dict(task.content))} for task in tasks]

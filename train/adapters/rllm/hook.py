"""rLLM's ``traj_grouping_hook`` that assigns credit: whole groups in, one advantage per sampled token on every step.

rLLM trains on ``Step.advantage`` as it is when ``rllm.algorithm.use_precomputed_advantage`` is true.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import (
    FIELD,
    Played,
    assign_turns,
    make_episode,
    make_group,
    over_tokens,
    per_completion,
    read_record,
    require_plain,
)

__all__ = ["PLAYER", "CreditHook", "completion_text", "read_recorded", "read_steps"]

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
        from rllm.trainer.algorithms.transform import _default_traj_grouping_hook

        grouped = list(
            (self._group or _default_traj_grouping_hook)(episodes, transform_config, compact_filtering_config)
        )
        mine = [one for one in grouped if any(member.name == self.role for member in one.trajectories)]
        groups = [
            make_group(one.group_id, [self._read(member) for member in one.trajectories], alone="keep") for one in mine
        ]
        if alone := sum(len(one) == 1 for one in groups):
            _log.info("%d of %d groups have one episode, whose credit is zero", alone, len(groups))
        written: list[tuple[Any, float, list[float]]] = []
        for theirs, ours, numbers in zip(mine, groups, assign_turns(groups, self.scheme), strict=True):
            for member, played, one in zip(theirs.trajectories, ours.trajectories, numbers, strict=True):
                per_turn = one if len(ours) > 1 else np.zeros(len(one))
                counts = [len(step.response_ids) for step in member.steps]
                spread = per_completion(played, per_turn, len(counts))
                written += zip(member.steps, spread, over_tokens(played, per_turn, counts), strict=True)
        for step, number, values in written:  # only when the whole batch fits; without ids, one number for the step
            step.advantage = values or number
        return grouped


def completion_text(thought: str | None, content: str | None) -> str:
    """A completion as the model wrote it: rLLM's parsers take its reasoning apart."""
    text = content or ""
    return f"<think>{thought}</think>{text}" if thought and "<think>" not in text else text


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


def read_steps(*, success: Callable[[Any], bool]) -> Callable[[Any], Played]:
    """A reader of other workflows' trajectories: a state is a step's observation, or the last message that it was shown.

    Args:
        success: whether a trajectory solved its task.
    """

    def read(trajectory: Any) -> Played:
        played = make_episode(
            trajectory.uid,
            task_id=str(trajectory.task),
            states=[_shown(step) for step in trajectory.steps],
            actions=[step.model_response or str(step.action) for step in trajectory.steps],
            rewards=[step.reward for step in trajectory.steps],
            ended=bool(success(trajectory)),
        )
        return played, {}

    return read


def _shown(step: Any) -> str:
    if step.observation is not None:
        return str(step.observation)
    shown = [message for message in step.chat_completions if message["role"] != "assistant"]
    return str(shown[-1]["content"]) if shown else ""

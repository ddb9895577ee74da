"""Anchors that lead back to the recorded episode, so that rows of a verl-agent batch need no further columns.

verl-agent's loop puts the manager's anchors into the rows (``anchor_obs``), then drops, copies and shuffles rows. An
``Anchor`` is the state's key as text, which the trainer's own estimators compare as usual, and also knows the group,
member and turn that it belongs to. Credit is computed on the recorded groups, whichever rows are left of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.verl_agent.advantage import credit_rows, require_columns
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import GroupedTurns, numbers, require_plain
from creditflow.wrappers.records.group import Group

__all__ = ["Anchor", "PlayedGroup", "compute_recorded_advantages", "recorded_steps"]


@dataclass(slots=True, eq=False)
class PlayedGroup:
    """The episodes of one task in one rollout.

    Attributes:
        name: name of the group.
        over: whether the rollout has ended.
        group: the recorded group once it is over; None if it could not start.
    """

    name: str
    over: bool = False
    group: Group | None = None


class Anchor(str):
    """The key of a state, with the turn that begins in it.

    >>> played = PlayedGroup("task#0")
    >>> anchor = Anchor("s3", played, member=1, turn=4)
    >>> anchor == "s3", anchor.turn, hash(anchor) == hash("s3")
    (True, 4, True)

    Deep copies keep the place; what is pickled is a plain text, because another process has no records.
    """

    played: PlayedGroup
    member: int
    turn: int

    def __new__(cls, key: str, played: PlayedGroup, *, member: int, turn: int) -> Anchor:
        """Attach a place to a key."""
        made = super().__new__(cls, key)
        made.played, made.member, made.turn = played, member, turn
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Anchor:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str.__str__(self),)


def recorded_steps(uid: Any, traj_uid: Any, anchor_obs: Any, active: Any = None) -> GroupedTurns:
    """The recorded groups of a batch and the turn of each row.

    Rows without a recorded turn belong to none: those of finished episodes, and turns in which the environment failed.

    Args:
        uid, traj_uid, anchor_obs, active: (N,), columns of the batch; ``active`` is ``active_masks``.

    Raises:
        TrajectoryError: anchors of another manager, a rollout that has not ended, or names that do not fit the records.
    """
    places: dict[int, int] = {}
    groups: list[Group] = []
    offsets: list[NDArray[np.int64]] = []
    one_to_one = _Names()
    group, turn = np.full(len(uid), -1, np.int64), np.full(len(uid), -1, np.int64)
    alive = np.ones(len(uid), np.bool_) if active is None else numbers(active) != 0.0
    for i, anchor in enumerate(anchor_obs):
        if not isinstance(anchor, Anchor):
            raise TrajectoryError(
                f"row {i}: its anchor is a {type(anchor).__name__} without a record: play with creditflow's environment "
                "manager (environments.make_envs), in the process that computes advantages; for other anchors there is "
                "advantage.compute_advantages"
            )
        played = anchor.played
        if not played.over:
            raise TrajectoryError(f"row {i}: group {played.name!r} is still being played: credit needs whole groups")
        one_to_one.check(i, "uid", str(uid[i]), id(played), played.name)
        one_to_one.check(i, "traj_uid", str(traj_uid[i]), (id(played), anchor.member), f"{played.name}/{anchor.member}")
        if played.group is None or not alive[i]:
            continue
        if id(played) not in places:
            places[id(played)] = len(groups)
            groups.append(played.group)
            offsets.append(played.group.arrays.offsets)
        number = places[id(played)]
        start, stop = offsets[number][anchor.member : anchor.member + 2].tolist()
        if anchor.turn < stop - start:
            group[i], turn[i] = number, start + anchor.turn
    return GroupedTurns(tuple(groups), group, turn)


class _Names:
    """Names of the batch and places of the record, which must correspond one to one."""

    def __init__(self) -> None:
        self._place_of: dict[tuple[str, str], object] = {}
        self._name_of: dict[tuple[str, object], str] = {}

    def check(self, row: int, column: str, name: str, place: object, label: str) -> None:
        """Raise TrajectoryError if the name stands for another place, or the place has another name."""
        known = self._place_of.setdefault((column, name), place) == place
        if not known or self._name_of.setdefault((column, place), name) != name:
            raise TrajectoryError(
                f"row {row}: {column} {name!r} and the recorded {label!r} do not belong together: groups of the batch "
                "are not those that were played (is env.rollout.n the group size of the manager?)"
            )


def compute_recorded_advantages(data: Any, *, scheme: Scheme) -> tuple[Any, Any]:
    """Advantages and returns of a batch that was played in our environment manager.

    Args:
        data: a fork's ``DataProto``, with ``token_level_rewards`` and ``response_mask`` (B, T), and ``uid``,
            ``traj_uid``, ``anchor_obs`` and, if there, ``active_masks`` per row.
        scheme: any that needs no annotations.

    Returns:
        Two (B, T) tensors, as the fork's own estimators return them.

    Raises:
        TrajectoryError: a column is missing, rows without a record, or token rewards that are not the episodes'.
        ConfigError: the scheme needs annotations, credits tokens or learns a critic.
    """
    require_plain(scheme)
    columns = data.non_tensor_batch
    require_columns(columns, "uid", "traj_uid", "anchor_obs")
    grouped = recorded_steps(columns["uid"], columns["traj_uid"], columns["anchor_obs"], columns.get("active_masks"))
    return credit_rows(grouped, scheme, data.batch["token_level_rewards"], data.batch["response_mask"])

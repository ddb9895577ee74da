"""Rows of a verl-agent batch, one row per environment step, as groups of trajectories.

verl-agent and its forks (GiGPO, GraphGPO, RewardFlow, …) make one training row of every step. A row names its group
(``uid``) and its trajectory (``traj_uid``), and shows the state it was taken in (``anchor_obs``); what came next is the
next row of the same trajectory. NumPy only, so that parity with the released code is tested without verl.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.envs.reading.failures import naming
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["StepRows", "Stepped", "anchor_key", "numbers", "require_columns"]

_MAX_STEPS: Final = 2**53  # float64 represents every integer up to here


def require_columns(columns: Mapping[str, Any], *names: str) -> None:
    """Check that a batch has columns.

    Raises:
        TrajectoryError: one is missing.
    """
    if missing := [name for name in names if name not in columns]:
        raise TrajectoryError(
            f"the batch has no {', '.join(missing)}; it has {', '.join(sorted(columns))}. verl-agent's rollout loop "
            "writes these columns: was the batch made by another loop?"
        )


def numbers(values: Any) -> NDArray[np.float64]:
    """A tensor or array as float64; tensors are moved off their device.

    Raises:
        TrajectoryError: the values are not numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TrajectoryError(f"expected an array of numbers, got {short_repr(values)}: {error}") from error


def anchor_key(anchor: Any) -> str:
    """An anchor observation as a key: equal anchors and no others have equal keys.

    Texts are their own keys, so that similarity can compare them; images and nested tuples are written out or hashed.

    >>> anchor_key("You are in a room."), anchor_key((1, 0, 6)), anchor_key(np.array([1, 0, 6]))[:6]
    ('You are in a room.', '[1,0,6]', 'array:')

    Raises:
        TrajectoryError: an anchor of another kind.
    """
    if isinstance(anchor, str):
        return anchor
    if hasattr(anchor, "detach"):
        anchor = anchor.detach().cpu().numpy()
    if isinstance(anchor, np.generic):
        anchor = anchor.item()
    if isinstance(anchor, np.ndarray):
        head = f"{anchor.dtype.str}{anchor.shape}".encode()
        return "array:" + hashlib.blake2b(head + np.ascontiguousarray(anchor).tobytes(), digest_size=16).hexdigest()
    try:
        return json.dumps(anchor, separators=(",", ":"), sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise TrajectoryError(
            f"an anchor observation is a text, an array or plain lists and numbers, got {type(anchor).__name__}: {error}"
        ) from None


def _text(cell: Any) -> str:
    """A name or an action as text."""
    try:
        return str(cell)
    except (ValueError, RecursionError) as error:
        raise TrajectoryError(f"uid, traj_uid and actions hold texts, got {short_repr(cell)}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no plain form")


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """The groups of a batch, and the turn of each row.

    Attributes:
        groups: by ``uid``, in order of first appearance.
        group, turn: int64 (N,): the group of each row and the row's turn among all turns of that group; −1 for rows of
            finished episodes. Copies of a row share their turn.
    """

    groups: tuple[Group, ...]
    group: NDArray[np.int64]
    turn: NDArray[np.int64]

    def spread(self, credits_: Sequence[Credit]) -> NDArray[np.float64]:
        """float64 (N,): the advantage of each row, 0 for rows of finished episodes and turns outside the loss."""
        out = np.zeros(len(self.group))
        for number, credit in enumerate(credits_):
            here = self.group == number
            kept = np.where(credit.flat_loss_mask, credit.flat_advantages, 0.0)
            out[here] = kept[self.turn[here]]
        return out


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StepRows:
    """N rows. Only the first four are needed; forks have most of the others.

    Attributes:
        uid, traj_uid: (N,), group and trajectory of each row.
        anchor_obs: (N,), the state before the step.
        rewards: (N,), the environment's reward of the step (not a discounted return).
        next_obs: (N,), the state after the step, as GraphGPO's fork records it. Without it the last state of a
            trajectory is not known: it counts as a state that no other trajectory visits.
        step: (N,), number of the step in its episode. Without it the rows of a trajectory must stand in the order they
            were played, each once (verl's ``balance_batch`` and ``adjust_batch`` shuffle and copy rows, so write it where the
            episode is played: ``batch.non_tensor_batch["step"] = np.full(batch_size, _step)``). With it, rows may stand
            anywhere, copies of a row count once in all statistics, and steps run from 0 without gaps.
        valid: bool (N,), ``is_action_valid``; default all.
        actions: (N,), texts, for schemes that read them.
        success: bool (N,), the trajectory's; default: its summed reward is positive, and graded by that sum if it lies in
            [0, 1].
        active: bool (N,), ``active_masks``: False for rows of finished episodes.
    """

    uid: Any
    traj_uid: Any
    anchor_obs: Any
    rewards: Any
    next_obs: Any = None
    step: Any = None
    valid: Any = None
    actions: Any = None
    success: Any = None
    active: Any = None

    def stepped(self) -> Stepped:
        """The rows as groups.

        Raises:
            TrajectoryError: columns of unequal lengths; a trajectory in two groups; rows that are not in the order in
                which they were played; missing steps; copies of a row that differ.
        """
        n = len(self.uid)
        for name in self.__slots__:
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise TrajectoryError(f"{name} has {len(column)} rows, uid has {n}")
        active = np.ones(n, np.bool_) if self.active is None else self._column("active") != 0.0
        rewards = self._column("rewards")
        members: dict[str, dict[str, list[int]]] = {}
        owner: dict[str, str] = {}
        for i in np.flatnonzero(active).tolist():
            uid, trajectory = _text(self.uid[i]), _text(self.traj_uid[i])
            if owner.setdefault(trajectory, uid) != uid:
                raise TrajectoryError(
                    f"trajectory {trajectory!r} has rows in the groups {owner[trajectory]!r} and {uid!r}"
                )
            members.setdefault(uid, {}).setdefault(trajectory, []).append(i)
        group, turn = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        groups = []
        for number, (uid, trajectories) in enumerate(members.items()):
            played, start = [], 0
            for name, rows in trajectories.items():
                first, place = self._timeline(name, rows)
                group[rows], turn[rows] = number, start + place
                played.append(self._trajectory(uid, name, first, rewards))
                start += len(first)
            groups.append(Group(tuple(played)))
        return Stepped(tuple(groups), group, turn)

    def _column(self, name: str) -> NDArray[np.float64]:
        """float64 (N,): a column of numbers or flags."""
        with naming(name):
            column = numbers(getattr(self, name))
            if column.ndim != 1:
                raise TrajectoryError(f"expected one number a row, got an array of the shape {column.shape}")
        return column

    def _timeline(self, name: str, rows: list[int]) -> tuple[list[int], NDArray[np.int64]]:
        """One row for every step, in order, and the position of each of ``rows`` in it."""
        if self.step is None:
            return rows, np.arange(len(rows))
        numbered = self._column("step")[rows]
        if not np.array_equal(numbered, np.rint(numbered)) or not (np.abs(numbered) < _MAX_STEPS).all():
            raise TrajectoryError(
                f"trajectory {name!r}: step must hold whole numbers, got {short_repr(numbered.tolist())}"
            )
        steps = numbered.astype(np.int64)
        _, first, place = np.unique(steps, return_index=True, return_inverse=True)
        for i, p in zip(rows, place.tolist(), strict=True):
            one = rows[int(first[p])]
            if i != one and (column := self._difference(i, one)):
                raise TrajectoryError(
                    f"trajectory {name!r} has two different rows of step {self.step[i]}: {column} differs; copies of a "
                    "row must be whole"
                )
        if not np.array_equal(steps[first], np.arange(len(first))):
            raise TrajectoryError(
                f"trajectory {name!r} has rows of the steps {steps[first].tolist()[:20]}: steps are counted from 0 without "
                "gaps, and credit needs every step of an episode; call it before rows are dropped"
            )
        return [rows[i] for i in first.tolist()], place.reshape(-1)

    def _difference(self, i: int, other: int) -> str:
        """The first column in which two rows that should be copies differ; "" if none does."""
        for name, read in (
            ("anchor_obs", anchor_key), ("next_obs", anchor_key), ("rewards", float), ("valid", bool), ("actions", _text),
        ):  # fmt: skip
            column = getattr(self, name)
            if column is not None and read(column[i]) != read(column[other]):
                return name
        return ""

    def _trajectory(self, uid: str, name: str, rows: list[int], rewards: NDArray[np.float64]) -> Trajectory:
        keys = [anchor_key(self.anchor_obs[i]) for i in rows]
        if self.next_obs is None:
            keys.append(f"{name} #last")
        else:
            after = [anchor_key(self.next_obs[i]) for i in rows]
            for t, (here, following) in enumerate(zip(after, keys[1:], strict=False)):
                if here != following:
                    raise TrajectoryError(
                        f"trajectory {name!r}: next_obs of its row {t} is not the anchor of its row {t + 1}; rows were "
                        "shuffled or left out: give step, the number of each row's step in its episode"
                    )
            keys.append(after[-1])
        total = float(rewards[rows].sum())
        won = total > 0.0 if self.success is None else bool(self.success[rows[-1]])
        score = total if self.success is None and 0.0 <= total <= 1.0 else float(won)
        turns = tuple(
            Turn(
                before,
                "" if self.actions is None else _text(self.actions[i]),
                after_,
                reward=float(rewards[i]),
                parsed=self.valid is None or bool(self.valid[i]),
                effective=before != after_,
                text_key=before,
            )
            for i, (before, after_) in zip(rows, pairwise(keys), strict=True)
        )
        return Trajectory(
            name, uid, uid, turns, won, score, "success" if won else "env_limit", keys[-1], final_text_key=keys[-1]
        )

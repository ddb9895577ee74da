"""The record of an episode in a verl batch, as text under one key, and the rows of a batch as episodes.

verl's advantage estimators receive rewards and masks but no states; extra fields of the agent loop's output do reach the
trainer. The loop writes one string there: a line with the turn offsets in the response, and the episode as a line of our
trajectory log (``wrappers/records/jsonl.py``), which is validated when it is read. Tokens are not repeated: ids, mask
and log-probabilities are in verl's own columns.

verl's queue keeps all outputs of one agent loop (``AgentLoopWorkerTQ``), so a loop with a windowed history returns one
row per turn: its window as the prompt, its completion as the response. Each row names its episode and turn, and the
last one carries the episode's record; verl may shuffle, pad and split the rows afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.envs.reading.json_text import decode_json
from creditflow.wrappers.records.jsonl_lines import decode_line, encode_line, int32_list
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["FIELD", "EpisodeRecord", "EpisodeRows", "RowText", "TurnRow", "decode_row", "group_rows"]


FIELD: Final = "creditflow"  # key among the extra fields of the agent loop


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRecord:
    """One episode.

    Attributes:
        trajectory: without tokens.
        turn_offsets: int32 (T+1,); turn t covers response positions ``turn_offsets[t]:turn_offsets[t+1]``, both
            observation and completion. With a windowed history every turn is a row (``TurnRow``), and positions count
            through the responses of all rows, which are completions alone.
        task: the task payload if the scheme reads it, else empty.
    """

    trajectory: Trajectory
    turn_offsets: NDArray[np.int32]
    task: Mapping[str, Any]

    @classmethod
    def of(cls, trajectory: Trajectory, task: Mapping[str, Any] | None = None) -> EpisodeRecord:
        """The record of a finished episode; the first prompt is not part of verl's response, nor any windowed one.

        Raises:
            TrajectoryError: turns without tokens.
        """
        tokens = trajectory.tokens
        if tokens is None or not trajectory.turns:
            if trajectory.turns:
                raise TrajectoryError(f"trajectory {trajectory.trajectory_id!r} has turns but no tokens")
            return cls(replace(trajectory, tokens=None), np.zeros(1, np.int32), task or {})
        first = 0 if tokens.prompts else int(np.argmax(tokens.mask))
        offsets = np.maximum(tokens.turn_offsets - first, 0).astype(np.int32)
        return cls(replace(trajectory, tokens=None), offsets, task or {})

    def encode(self) -> str:
        """Two lines of ASCII text."""
        return json.dumps(self.turn_offsets.tolist()) + "\n" + encode_line(self.trajectory, self.task or None)

    @classmethod
    def decode(cls, text: Any) -> EpisodeRecord:
        """Parse the text of ``encode``.

        Raises:
            TrajectoryError: the text is not a record, or is inconsistent.
        """
        if not isinstance(text, str) or "\n" not in text:
            raise TrajectoryError(
                f"a row has no episode record under {FIELD!r}, but {type(text).__name__}: play with the agent loop "
                "'creditflow' (actor_rollout_ref.rollout.agent.default_agent_loop=creditflow)"
            )
        head, _, line = text.partition("\n")
        try:
            offsets = int32_list(decode_json(head))
        except (ValueError, TypeError) as error:
            raise TrajectoryError(
                f"an episode record begins with its turn offsets, got {short_repr(head[:60])}"
            ) from error
        trajectory, task = decode_line(line, ())
        if len(offsets) != len(trajectory.turns) + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise TrajectoryError(
                f"trajectory {trajectory.trajectory_id!r} has {len(trajectory.turns)} turns at {offsets.tolist()[:8]}…; "
                "expected non-decreasing offsets from 0, one more than there are turns"
            )
        return cls(trajectory, offsets, task or {})


@dataclass(frozen=True, slots=True, eq=False)
class TurnRow:
    """What the row of one turn says of its episode.

    Attributes:
        trajectory_id: the episode, unique within its group.
        turn: index of the turn.
        record: the episode, in the row of its last turn; else None.
    """

    trajectory_id: str
    turn: int
    record: EpisodeRecord | None = None

    def encode(self) -> str:
        """Lines of ASCII text: episode and turn, then the record if there is one."""
        head = json.dumps({"trajectory": self.trajectory_id, "turn": self.turn})
        return head + "\n" + (self.record.encode() if self.record is not None else "")


RowText = EpisodeRecord | TurnRow


def decode_row(text: object) -> RowText:
    """Parse what a row carries: the record of an episode, or one turn's row.

    Raises:
        TrajectoryError: the text is neither.
    """
    if not isinstance(text, str) or not text.startswith("{"):
        return EpisodeRecord.decode(text)
    head, _, rest = text.partition("\n")
    try:
        fields = decode_json(head)
        name, turn = fields["trajectory"], fields["turn"]
        sound = set(fields) == {"trajectory", "turn"} and isinstance(name, str) and type(turn) is int and turn >= 0
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound:
        raise TrajectoryError(f"the row of a turn begins with its trajectory and turn, got {short_repr(head[:60])}")
    return TurnRow(name, turn, EpisodeRecord.decode(rest) if rest else None)


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRows:
    """The rows of one episode.

    Attributes:
        record: the episode.
        rows: indices of its rows: one, or one per turn in the order of turns.
        windowed: whether each row is a turn.
    """

    record: EpisodeRecord
    rows: tuple[int, ...]
    windowed: bool

    def spans(self) -> list[tuple[int, slice, NDArray[np.int32]]]:
        """For every row: its index, the turns that it holds, and their offsets in its response."""
        offsets = self.record.turn_offsets
        if not self.windowed:
            return [(self.rows[0], slice(None), offsets)]
        lengths = np.diff(offsets).tolist()
        return [
            (i, slice(t, t + 1), np.array([0, length], np.int32))
            for t, (i, length) in enumerate(zip(self.rows, lengths, strict=True))
        ]


def group_rows(uids: Sequence[str], rows: Sequence[RowText | None]) -> dict[str, list[EpisodeRows | str]]:
    """Episodes of every group, in order of their first row; for an episode whose rows are not all here, the reason.

    Args:
        uids: name of each row's group, as verl gives it.
        rows: what each row carries; None for rows that pad the batch.

    Raises:
        TrajectoryError: two rows of one turn, two records of one episode, or rows of turns that the record lacks.
    """
    groups: dict[str, list[EpisodeRows | str]] = {}
    turns: dict[tuple[str, str], dict[int, int]] = {}
    places: dict[tuple[str, str], int] = {}
    records: dict[tuple[str, str], EpisodeRecord] = {}
    for i, (uid, row) in enumerate(zip(uids, rows, strict=True)):
        if row is None:
            continue
        members = groups.setdefault(uid, [])
        if isinstance(row, EpisodeRecord):
            members.append(EpisodeRows(row, (i,), windowed=False))
            continue
        name = (uid, row.trajectory_id)
        if name not in places:
            places[name] = len(members)
            members.append("")
        if turns.setdefault(name, {}).setdefault(row.turn, i) != i:
            raise TrajectoryError(f"trajectory {row.trajectory_id!r} has two rows of turn {row.turn}")
        if row.record is not None and records.setdefault(name, row.record) is not row.record:
            raise TrajectoryError(f"trajectory {row.trajectory_id!r} has two rows with a record")
    for name, position in places.items():
        groups[name[0]][position] = _whole(name[1], turns[name], records.get(name))
    return groups


def _whole(name: str, turns: dict[int, int], record: EpisodeRecord | None) -> EpisodeRows | str:
    if record is None:
        return f"trajectory {name!r} lacks the row of its last turn, which carries its record"
    length = len(record.trajectory.turns)
    if max(turns) >= length or record.trajectory.trajectory_id != name:
        raise TrajectoryError(
            f"trajectory {name!r} has a row of turn {max(turns)}, its record is of {record.trajectory.trajectory_id!r} "
            f"with {length} turns"
        )
    if missing := sorted(set(range(length)) - set(turns)):
        return f"trajectory {name!r} lacks the rows of its turns {missing[:8]}"
    return EpisodeRows(record, tuple(turns[t] for t in range(length)), windowed=True)

"""The record of an episode in a verl batch, as text under one key, which the credit step reads.

verl's advantage estimators receive rewards and masks but no states; extra fields of the agent loop's output do reach the
trainer. The loop writes one string there: a line with the turn offsets in the response, and the episode as a line of our
trajectory log (``wrappers/records/jsonl.py``), which is validated when it is read. Tokens are not repeated: ids, mask
and log-probabilities are in verl's own columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.envs.reading.json_text import decode_json
from creditflow.wrappers.records.jsonl_lines import decode_line, encode_line
from creditflow.wrappers.records.jsonl_values import int32_list
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["FIELD", "EpisodeRecord"]

FIELD: Final = "creditflow"  # key among the extra fields of the agent loop


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRecord:
    """One episode.

    Attributes:
        trajectory: without tokens.
        turn_offsets: int32 (T+1,); turn t covers response positions ``turn_offsets[t]:turn_offsets[t+1]``, both
            observation and completion. With a windowed history every turn is a row (``rows.py``), and positions count
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

r"""What an episode leaves in verl's batch for the credit step: its record, as text, under one key.

verl's advantage estimators see rewards and masks, never states; fields of its agent loop's output do reach the trainer.
So the loop writes one text there: a line with the places of the turns in the response, and the episode as a line of our
trajectory log (``wrappers/records/jsonl.py``), which is checked value by value when it is read. Tokens are not repeated: ids,
mask and log-probabilities travel in verl's own columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.envs.reading.json_text import decode_json
from creditflow.wrappers.records.jsonl_lines import decode_line, encode_line
from creditflow.wrappers.records.jsonl_values import int32_list
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["FIELD", "EpisodeRecord"]

FIELD: Final = "creditflow"  # the name among the agent loop's extra fields


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRecord:
    """One episode.

    Attributes:
        trajectory: without tokens.
        turn_offsets: int32 (T+1,); turn t owns response positions ``turn_offsets[t]:turn_offsets[t+1]``, what it read
            and what it wrote.
        task: the payload, if the scheme reads it; else empty.
    """

    trajectory: Trajectory
    turn_offsets: NDArray[np.int32]
    task: Mapping[str, Any]

    @classmethod
    def of(cls, trajectory: Trajectory, task: Mapping[str, Any] | None = None) -> EpisodeRecord:
        """The record of a played episode; the first prompt is not part of verl's response.

        Raises:
            TrajectoryError: turns without tokens, or a windowed history (one prompt per turn).
        """
        tokens = trajectory.tokens
        if tokens is None or not trajectory.turns:
            if trajectory.turns:
                raise TrajectoryError(f"trajectory {trajectory.trajectory_id!r} has turns but no tokens")
            return cls(replace(trajectory, tokens=None), np.zeros(1, np.int32), task or {})
        if tokens.prompts:
            raise TrajectoryError("verl's loop plays one row per episode: use an append-only history")
        first = int(np.argmax(tokens.mask))
        offsets = np.maximum(tokens.turn_offsets - first, 0).astype(np.int32)
        return cls(replace(trajectory, tokens=None), offsets, task or {})

    def encode(self) -> str:
        """Two lines of ASCII text."""
        return json.dumps(self.turn_offsets.tolist()) + "\n" + encode_line(self.trajectory, self.task or None)

    @classmethod
    def decode(cls, text: Any) -> EpisodeRecord:
        """What ``encode`` wrote.

        Raises:
            TrajectoryError: it is something else, or does not fit together.
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
                f"an episode record begins with the places of its turns, got {head[:60]!r}"
            ) from error
        trajectory, task = decode_line(line, ())
        if len(offsets) != len(trajectory.turns) + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise TrajectoryError(
                f"trajectory {trajectory.trajectory_id!r} has {len(trajectory.turns)} turns at {offsets.tolist()[:8]}…; "
                "expected one rising place more than turns, from 0"
            )
        return cls(trajectory, offsets, task or {})

"""verl's dumps of rollouts and of validation: ``trainer.rollout_data_dir`` and ``trainer.validation_data_dir``, STEP.jsonl.

A row has ``input`` and ``output`` (decoded without special tokens), ``score``, ``step``, perhaps ``gts``, and what the reward
function returns; the trainer of ``verl/trainer/ppo/v1`` adds ``uid``, "SAMPLE_ROLLOUT_OUTPUT". Messages and tokens are not in
the file: turns are cut out of the text (``text_turns``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from creditflow.train.adapters.logs.episodes import Episode, ImportSettings
from creditflow.train.adapters.logs.messages import text_turns
from creditflow.train.adapters.logs.rows import (
    MISSING,
    Row,
    RowError,
    Rows,
    Tally,
    at_path,
    each_row,
    number,
    own_name,
    text,
)

__all__ = ["verl_episodes"]

_UID: Final = re.compile(r"(.+)_(\d+)_(\d+)", re.DOTALL)


def verl_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a dump."""
    return each_row(rows, tally, lambda where, row: _episode(where, row, settings, tally))


def _episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    prompt, output = text(row, "input"), text(row, "output")
    name = settings.reward or "score"
    reward = number(at_path(row, name), name)
    turns, after = text_turns(prompt, output, settings.turns, tally)
    step = row.get("step", "")
    if not isinstance(step, str | int):
        raise RowError("'step' is no whole number", repr(type(step).__name__))
    return Episode(
        where, prompt, [step, *_sample(row)], tuple(turns), reward, row, after,
        values={} if (recorded := at_path(row, "advantage")) is MISSING else {"advantage.recorded": number(recorded, "advantage")},
        id=own_name(row.get("uid")),
    )  # fmt: skip


def _sample(row: Row) -> list[Any]:
    """Sample name at the start of a ``uid``, or [] if there is none."""
    uid = row.get("uid")
    if not isinstance(uid, str):
        return []
    match = _UID.fullmatch(uid)
    if match is not None and match[3] != "0":
        raise RowError(
            "a further output of a rollout, of which the file does not say how it follows the first", uid[:100]
        )
    return [match[1] if match else uid]

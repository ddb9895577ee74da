"""The metrics of a run: ``metrics.jsonl``, lines of text on standard output, optionally TensorBoard and Weights & Biases.

A checkpoint stores the number of records at its time. A resumed run drops the later ones before it writes new ones, so the
file holds every record once.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from creditflow.envs.errors import DataError, MissingExtraError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import naming
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.reading.limits import MAX_ROWS_FILE
from creditflow.envs.reading.streams import read_text
from creditflow.train.policy.checkpoint import PHASES, Progress, records_at
from creditflow.train.settings.schema import LogConfig

__all__ = ["MetricsLogger", "open_logger", "read_metrics"]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file; an incomplete last line is skipped.

    Raises:
        DataError: another line is not a record.
    """
    if not path.is_file():
        return []
    records = []
    lines = read_text(path, MAX_ROWS_FILE, "ascii").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            if line:
                with naming(f"{path}: line {number}"):
                    records.append(_record(parse_json(line, where=f"{path}: line {number}")))
        except DataError as error:
            if number < len(lines):
                raise DataError(f"{error}; not a metrics record") from error
    return records


def _record(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or data.get("phase") not in PHASES or type(data.get("step")) is not int:
        raise DataError("a record has a phase (sft or rl) and an integer step")
    return data


class MetricsLogger:
    """Writes metrics and lines of text.

    Args:
        folder: the run folder.
        after: progress of a resumed run; records beyond it are dropped.
        records: number of records at that time; None if its checkpoint does not contain it.
        tensorboard: also write events to ``folder/tensorboard``.
        wandb: also log to this project; "" for none.
        stream: where lines of text are printed; default standard output.
    """

    def __init__(
        self,
        folder: Path,
        *,
        after: Progress | None = None,
        records: int | None = None,
        tensorboard: bool = False,
        wandb: str = "",
        stream: TextIO | None = None,
    ) -> None:
        self.path = folder / "metrics.jsonl"
        self._stream = stream
        folder.mkdir(parents=True, exist_ok=True)
        records_before = [r for r in read_metrics(self.path) if after and not after < Progress(r["phase"], r["step"])][
            :records
        ]
        with atomic_writer(self.path) as out:
            out.writelines(json.dumps(record) + "\n" for record in records_before)
        self.records = len(records_before)
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)  # events of dropped records cannot be removed
        self._writer = _tensorboard(folder) if tensorboard else None
        for record in records_before:
            self._show(record)
        self._wandb = _wandb(folder, wandb) if wandb else None

    def write(self, phase: str, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Append a record ``{"phase", "step", "kind", …}``; NaN and infinities are written as null."""
        record = {"phase": phase, "step": step, "kind": kind, **{k: _plain(v) for k, v in values.items()}}
        with self.path.open("a", encoding="ascii", newline="\n") as out:
            out.write(json.dumps(record) + "\n")
        self.records += 1
        self._show(record)
        if self._wandb is not None:
            self._wandb.log({f"{phase}/{kind}/{name}": value for name, value in _numbers(record).items()})

    def _show(self, record: Mapping[str, Any]) -> None:
        """Write a record's numbers as TensorBoard events, if TensorBoard is enabled."""
        if self._writer is not None:
            for name, value in _numbers(record).items():
                self._writer.add_scalar(f"{record['phase']}/{record['kind']}/{name}", value, record["step"])

    def print(self, text: str) -> None:
        """Print a line."""
        print(text, file=self._stream or sys.stdout, flush=True)

    def close(self) -> None:
        """Close the TensorBoard and Weights & Biases writers."""
        if self._writer is not None:
            self._writer.close()
        if self._wandb is not None:
            self._wandb.finish()


def open_logger(
    folder: Path, config: LogConfig, progress: Progress, checkpoint: Path | None, stream: TextIO | None
) -> MetricsLogger:
    """The logger of a new run, or of one resumed from a checkpoint."""
    return MetricsLogger(
        folder,
        after=progress if checkpoint else None,
        records=records_at(checkpoint) if checkpoint else None,
        tensorboard=config.tensorboard,
        wandb=config.wandb,
        stream=stream,
    )


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    return {k: v for k, v in record.items() if isinstance(v, int | float) and k != "step"}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "item"):
        return _plain(value.item())
    return value


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("tensorboard", "train-log") from error
    return SummaryWriter(str(folder / "tensorboard"))


def _wandb(folder: Path, project: str) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingExtraError("wandb", "train-log") from error
    return wandb.init(project=project, name=folder.name, dir=str(folder))

"""The work with our trainer."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.peer.clock import GENERATION, REST, Clock
from benchmarks.peer.work import Work

from creditflow.train.policy.samples import Row
from creditflow.train.trainer import Trainer

__all__ = ["run_ours"]


class TimedTrainer(Trainer):
    """Our trainer with a clock."""

    clock: Clock
    counts: list[dict[str, int]]

    def _train_iteration(self, iteration: int) -> None:
        super()._train_iteration(iteration)
        self.clock.finish()

    def _update(self, rows: Sequence[Row], *others: Any) -> dict[str, float]:
        self.counts.append(
            {
                "rows": len(rows),
                "tokens": sum(map(len, rows)),
                "sampled": sum(len(row.target) for row in rows),
                "without_signal": sum(not row.advantage.any() for row in rows),
            }
        )
        return super()._update(rows, *others)


def run_ours(work: Work, start: Path, folder: Path) -> tuple[Clock, list[dict[str, int]]]:
    """Train; returns the times of the iterations, and the rows, tokens and sampled tokens of each."""
    trainer = TimedTrainer(work.settings(start, folder / "run"), stream=io.StringIO())
    trainer.clock, trainer.counts = Clock(), []
    take, generate = trainer.rollouts.take, trainer.backend.generate
    with (
        patch.object(trainer.rollouts, "take", trainer.clock.timed(REST, take)),
        patch.object(trainer.backend, "generate", trainer.clock.timed(GENERATION, generate)),
    ):
        trainer.clock.start()
        trainer.run()
    return trainer.clock, trainer.counts

"""OpenEnv's Task API: the tasks of a server by split and index, in their published order."""

from __future__ import annotations

from typing import Any, Final

from creditflow.train.adapters.openenv.served import Served

__all__ = ["MAX_LISTED", "TaskApi"]

MAX_LISTED: Final = 1000


class TaskApi:
    """Methods that OpenEnv looks for on an environment. Endless sources raise ``NotImplementedError``, which it answers with 501."""

    _served: Served

    def list_splits(self) -> list[str]:
        """Return the splits of the tasks."""
        return list(self._served.splits())

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks in a split."""
        return len(self._served.split_rows(split))

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return the first tasks of a split, at most ``MAX_LISTED``."""
        return self.get_task_range(split)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one task.

        Raises:
            IndexError: no such task.
        """
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(index)
        return self.get_task_range(split, index, index + 1)[0]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return the tasks ``start`` to ``stop`` (not included), at most ``MAX_LISTED``: id, split, index, strata."""
        rows = self._served.split_rows(split)
        numbers = range(len(rows))[start:stop][:MAX_LISTED]
        return [
            {"task_id": rows[i].task_id, "split": split, "index": i, "strata": dict(rows[i].strata)} for i in numbers
        ]

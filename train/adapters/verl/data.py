"""Tasks as rows of a data set for verl, each with its content, so that any node can play it.

``python -m creditflow.train.commands.programs.verl_data`` writes one as a Parquet file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from creditflow.envs.errors import MissingExtraError
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.tasks import Task

__all__ = ["rows_of", "write_parquet"]


def rows_of(env: str, tasks: Sequence[Task], *, agent_loop: str = "creditflow") -> list[dict[str, Any]]:
    """One row per task, with the columns that verl's data set reads.

    >>> [row] = rows_of("sokoban", [Task("sokoban1:ab", "sokoban1:ab", {"level": "#@$.#"})])
    >>> row["data_source"], row["extra_info"]["task"]
    ('creditflow/sokoban', '{"level": "#@$.#"}')
    """
    return [
        {
            "data_source": f"creditflow/{env}",
            "agent_name": agent_loop,
            "prompt": [{"role": "user", "content": task.task_id}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "extra_info": {"index": i, "task_id": task.task_id, "task": json.dumps(dict(task.content))},
        }
        for i, task in enumerate(tasks)
    ]


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows; the file appears only when it is complete.

    Raises:
        MissingExtraError: pyarrow, a dependency of verl, is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "verl") from error
    with atomic_path(path) as partial:
        pq.write_table(pa.Table.from_pylist(list(rows)), partial)

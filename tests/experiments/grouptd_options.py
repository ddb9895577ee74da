"""Which options of ``grouptd`` suit keys that merge states, never repeat, or are acted on at random? Writes ``tests/evidence/choice/options.json``.

    PYTHONPATH=src python tests/experiments/grouptd_options.py

Learning curves with one policy for many tasks, with the sizes of ``creditflow bench --preset confirmation`` and other tasks: areas of
exact success by layout seed. About eight minutes on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.learning.learner import KLUpdate
from creditflow.train.bench.presets import PRESETS, SharedWork
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.bench.shared.cells import SharedCell, start_of
from creditflow.train.bench.shared.learning import learn_shared
from creditflow.train.bench.shared.tasks import SHARED_KINDS
from creditflow.train.bench.studies import Study

TARGET = Path(__file__).parents[1] / "evidence" / "choice" / "options.json"
SEED = 41
# merged keys (two kinds), random moves (two), keys that never repeat (two), keys without conflicts
KINDS = ("sokoban-boxes", "alias", "slip", "trapdoors", "sokoban-fresh", "fresh", "pits")
METHODS = ("grpo", "grouptd", "grouptd_relative_8", "grouptd_relative_det", "grouptd_relative_share", "grouptd_8")


def study(kind: str, work: SharedWork, seed: int) -> Study:
    """Areas under the learning curves of all methods on one kind of task; one row per layout seed."""
    cell = SharedCell(kind)
    area: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    held_out: dict[str, list[list[float]]] = {name: [] for name in METHODS}
    for unit in range(work.units):
        tasks, policy = start_of(cell, work, seed, unit)
        trained = len(tasks) - work.held_out
        found = learn_shared(
            policy, [task.mdp for task in tasks], range(trained), range(trained, len(tasks)), METHODS,
            np.random.default_rng([seed, unit, SHARED_KINDS.index(kind)]), sampling=cell.sampling,
            update=KLUpdate(work.kl), updates=work.updates, every=work.every,
        )  # fmt: skip
        for name in METHODS:
            area[name].append([round(found.curves[name].area, 6)])
            held_out[name].append([round(found.curves[name].held_out_area, 6)])
    return Study("shared policy", kind, cell.keys, cell.batch, cell.size, "", {"area": area, "held_out_area": held_out})


def main() -> None:
    """Measure every kind and write the file."""
    work, studies = PRESETS["confirmation"].shared, list[dict[str, Any]]()
    for kind in KINDS:
        print(kind, file=sys.stderr, flush=True)
        studies.append(study(kind, work, SEED).to_json())
    command = {"command": "python tests/experiments/grouptd_options.py"}
    with atomic_writer(TARGET) as stream:
        json.dump({"provenance": provenance([], SEED) | command, "studies": studies}, stream, indent=1)
        stream.write("\n")


if __name__ == "__main__":
    main()

"""Train by the command, send it a signal after a number of changes of the file system, and resume it.

python killed_training.py OUT MOMENTS FIRST RESUME SIGNAL: FIRST and RESUME are JSON lists of arguments of ``creditflow``.
Both run in children that are forked from this process, which has imported everything and computed nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from helpers.processes.killed_command import forked, killed_at

from creditflow.train.cli import main


def rounds(out: Path, moments: Sequence[int], first: list[str], resume: list[str], sent: int) -> None:
    for moment in moments:
        place = out.with_name(f"{out.name}-{moment}")
        errors = Path(os.environ.get("KILLED_LOG", os.devnull))
        command = [a.replace("{}", str(place)) for a in first]
        status, _ = forked(killed_at(moment, sent, command, str(place)), errors, sent)
        codes = [status]
        if moment:
            arguments = resume if (place / "config.yaml").is_file() else first
            command = [a.replace("{}", str(place)) for a in arguments]
            codes.append(forked(partial(main, command), errors)[0])
        counted = place.with_suffix(".count")
        changes = int(counted.read_text(encoding="ascii")) if counted.is_file() else -1
        print(json.dumps({"moment": moment, "codes": codes, "folder": str(place), "changes": changes}), flush=True)


if __name__ == "__main__":
    import torch
    import transformers  # noqa: F401 - once, for all children

    import creditflow.train.annotate.success.training
    import creditflow.train.trainer  # noqa: F401 - as above

    torch.set_num_threads(1)
    rounds(
        Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4]), int(sys.argv[5])
    )

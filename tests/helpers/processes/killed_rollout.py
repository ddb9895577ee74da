"""A rollout that is killed (SIGKILL, no clean-up) after it has received N groups: python killed_rollout.py N ARGUMENTS."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from unittest.mock import patch

from creditflow.train.commands import rollout
from creditflow.train.rollout.workers.play import read_group
from creditflow.wrappers.records.group import Group


def main(after: int, arguments: list[str]) -> None:
    got = 0

    def counted(text: str) -> Group:
        nonlocal got
        if got == after:
            os.kill(os.getpid(), signal.SIGKILL)
        got += 1
        return read_group(text)

    parser = argparse.ArgumentParser()
    rollout.add_arguments(parser)
    with patch.object(rollout, "read_group", counted):
        rollout.run(parser.parse_args(arguments))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

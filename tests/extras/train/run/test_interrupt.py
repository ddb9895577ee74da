"""Ctrl-C in a run saves what is finished and prints the command that continues; a child process gets the signal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from creditflow.train.settings.reading import write_yaml

ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(__file__).parents[4] / "src"), "PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
}  # fmt: skip


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "creditflow.train", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)


@pytest.mark.parametrize(("line", "checkpoint"), [("SFT step 1/", "sft-"), ("iteration 1/", "rl-")])
def test_the_signal_ends_a_run_after_its_step_and_the_printed_command_finishes_it(
    line: str, checkpoint: str, config: dict[str, Any], tmp_path: Path
) -> None:
    config["env"]["options"]["max_steps"] = 2
    config["sft"] |= {"episodes": 6, "steps": 10}
    config["rollout"] |= {"tasks": 1, "group_size": 2}
    config["update"]["iterations"] = 30
    config["evaluation"] = {}
    config["checkpoint"] = {"every": 1000, "keep": 2}
    config["out"] = str(tmp_path / "a run")
    write_yaml(tmp_path / "config.yaml", config)
    printed = []
    with started("train", str(tmp_path / "config.yaml")) as run:
        assert run.stdout is not None
        for text in run.stdout:
            printed.append(text)
            if line in text:
                run.send_signal(signal.SIGINT)
    assert run.returncode == 130, "".join(printed)
    assert any("press Ctrl-C again" in text for text in printed)
    assert not any("Traceback" in text for text in printed)
    [said] = [text for text in printed if "continue with: " in text]
    [saved] = [folder.name for folder in (tmp_path / "a run/checkpoints").iterdir() if folder.name in said]
    assert saved.startswith(checkpoint)
    assert int(saved.rpartition("-")[2]) > 0
    program, *words = shlex.split(said.partition("continue with: ")[2])
    assert program == "creditflow"
    again = started(*words)
    output, _ = again.communicate()
    assert again.returncode == 0, output
    assert f"from {saved}" in output
    assert (tmp_path / "a run/model").is_dir()

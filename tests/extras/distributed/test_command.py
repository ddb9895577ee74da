"""The command under torchrun: one output, one run folder, and an error that ends all processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers.shared_data import ROOT

from creditflow.train.run.metrics_log import read_metrics

TORCHRUN = (
    "-m",
    "torch.distributed.run",
    "--nproc-per-node",
    "2",
    "--rdzv-backend",
    "c10d",
    "--rdzv-endpoint",
    "localhost:0",
)


def torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *TORCHRUN, "-m", "creditflow.train", "train", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=400)


def test_a_run_of_two_processes_and_a_folder_that_has_one_already(config: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config | {"distributed": {"shard": True}}), encoding="ascii")
    done = torchrun(str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("iteration 2/2") == 1
    assert "in each of 2 ranks" in done.stdout
    run = Path(config["out"])
    assert [r["step"] for r in read_metrics(run / "metrics.jsonl") if r["kind"] == "iteration"] == [1, 2]
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoints", "config.yaml", "metrics.jsonl", "model", "run.json", "tokenizer",
    ]  # fmt: skip
    assert not list(tmp_path.glob("*.lock"))
    again = torchrun(str(file))
    assert again.returncode != 0
    assert "--force replaces it, --resume continues it" in again.stderr

"""Launched training: two processes do what one does, and accelerate reads the launch files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import creditflow

pytestmark = pytest.mark.trl
SIZE = 4  # episodes per group
SCRIPT = Path(__file__).with_name("launched.py")
CONFIGS = Path(creditflow.__file__).parent / "train" / "adapters" / "trl"
SOURCE = Path(creditflow.__file__).parents[1]


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
ACCELERATE = (
    "-m", "accelerate.commands.launch", "--config_file", str(CONFIGS / "accelerate_ddp.yaml"), "--num_processes=2",
)  # fmt: skip


@pytest.fixture(scope="module")
def launched(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Runs ``launched.py`` on a model by a launcher and checks each process's prompts; returns the saved weights."""
    from safetensors.numpy import load_file

    def launch(model: Path, processes: int, *launcher: str) -> dict[str, Any]:
        out = tmp_path_factory.mktemp("launched")
        words = [str(model), settings.env.options["levels"], str(out), str(2 * SIZE // processes)]
        done = subprocess.run(
            [sys.executable, *launcher, str(SCRIPT), *words],
            capture_output=True, text=True, timeout=240, check=False, env=os.environ | {"PYTHONPATH": str(SOURCE)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        played = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("prompts-*.json"))]
        assert [len(set(batch)) for rank in played for batch in rank] == [2 // processes] * 2 * processes
        return dict(load_file(out / "model.safetensors"))

    return launch


@pytest.fixture(scope="module")
def alone(launched: Callable[..., dict[str, Any]], request: pytest.FixtureRequest) -> Callable[[str], dict[str, Any]]:
    """The weights saved by a run of one process, by the name of the model."""
    from safetensors.numpy import load_file

    @cache
    def run(model: str) -> dict[str, Any]:
        folder: Path = request.getfixturevalue(model)
        weights, before = launched(folder, 1), load_file(folder / "model.safetensors")
        assert max(np.abs(weights[name] - before[name]).max() for name in before) > 1e-3
        return weights

    return run


@pytest.mark.parametrize(
    ("model", "launcher"),
    [("warm", TORCHRUN), ("warm", ACCELERATE), ("windowed_warm", TORCHRUN)],
    ids=["torchrun", "accelerate", "windowed"],
)
def test_two_processes_play_whole_groups_and_train_as_one_does(
    model: str,
    launcher: tuple[str, ...],
    launched: Callable[..., dict[str, Any]],
    alone: Callable[[str], dict[str, Any]],
    request: pytest.FixtureRequest,
) -> None:
    together = launched(request.getfixturevalue(model), 2, *launcher)
    for name, value in alone(model).items():
        np.testing.assert_allclose(together[name], value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("name", "kind"), [("ddp", "MULTI_GPU"), ("fsdp2", "FSDP")])
def test_accelerate_reads_the_launch_files(name: str, kind: str) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    path = str(CONFIGS / f"accelerate_{name}.yaml")
    assert load_config_from_file(path).distributed_type == kind
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(["--config_file", path, "script.py"]))
    assert (arguments.multi_gpu, arguments.use_fsdp) == (name == "ddp", name == "fsdp2")
    if name == "fsdp2":
        assert (arguments.fsdp_version, arguments.fsdp_reshard_after_forward) == (2, True)

"""The records that the trainer's logger writes to TensorBoard and Weights & Biases, read back from their files."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from creditflow.train.policy.checkpoint import Progress
from creditflow.train.run.metrics_log import MetricsLogger, read_metrics
from creditflow.train.trainer import Trainer

VALUES = {"loss": 0.25, "success": 1, "scheme": "gigpo", "broken": float("nan")}


def numbers(folder: Path) -> dict[str, list[float]]:
    """Every number of ``metrics.jsonl``, by the name it is logged under."""
    found: dict[str, list[float]] = {}
    for record in read_metrics(folder / "metrics.jsonl"):
        for name, value in record.items():
            if isinstance(value, int | float) and name != "step":
                found.setdefault(f"{record['phase']}/{record['kind']}/{name}", []).append(float(value))
    return found


@pytest.mark.loggers
@pytest.mark.filterwarnings("default")  # tensorboard's own imports warn
def test_tensorboard_reads_every_number_of_a_run(trainer_of: Callable[..., Trainer], config: dict[str, Any]) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install -e '.[train-log]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = trainer_of(config, "log.tensorboard=true")
    run.run()
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    wanted = numbers(run.folder)
    assert sorted(events.Tags()["scalars"]) == sorted(wanted)
    assert len(wanted) > 20
    for name, values in wanted.items():
        assert [event.value for event in events.Scalars(name)] == pytest.approx(values, rel=1e-6), name


@pytest.mark.loggers
@pytest.mark.filterwarnings("default")  # tensorboard's own imports warn
def test_tensorboard_shows_every_record_of_a_resumed_run_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install -e '.[train-log]'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    first = MetricsLogger(tmp_path, tensorboard=True)
    for step in range(5):
        first.write("rl", step, "iteration", VALUES | {"loss": step / 4})
    first.close()
    second = MetricsLogger(tmp_path, after=Progress("rl", 2), records=3, tensorboard=True)
    second.write("rl", 3, "iteration", VALUES | {"loss": 9.0})
    second.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    shown = [(event.step, event.value) for event in events.Scalars("rl/iteration/loss")]
    assert shown == [(0, 0.0), (1, 0.25), (2, 0.5), (3, 9.0)]
    assert numbers(tmp_path)["rl/iteration/loss"] == [0.0, 0.25, 0.5, 9.0]


def frames(data: bytes) -> Iterator[bytes]:
    """The records of a run file: LevelDB's log framing in blocks of 32 KiB, behind seven bytes that name the format."""
    assert data[:4] == b":W&B"
    at, begun = 7, b""
    while at + 7 <= len(data):
        if (left := 2**15 - at % 2**15) < 7:  # too short for another frame's header: zeros
            at += left
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        if at + 7 + length > len(data):  # still being written
            return
        begun += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield begun
            begun = b""


def histories(data: bytes) -> list[dict[str, Any]]:
    """The rows of a run file, without what wandb adds to them."""
    from wandb.proto.wandb_internal_pb2 import Record

    kept = []
    for frame in frames(data):
        record = Record.FromString(frame)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            kept.append({name: value for name, value in items.items() if not name.startswith("_")})
    return kept


@pytest.mark.loggers
@pytest.mark.filterwarnings("default")  # wandb's own imports warn
def test_weights_and_biases_keeps_every_number_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: pip install -e '.[train-log]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name.lower()))
    logger = MetricsLogger(tmp_path / "run", wandb="toy")
    for step in range(300):
        logger.write("rl", step, "iteration", {**VALUES, "loss": step / 4})
    logger.close()
    (path,) = (tmp_path / "run").glob("wandb/offline-run-*/*.wandb")
    wanted = [{"rl/iteration/loss": step / 4, "rl/iteration/success": 1} for step in range(300)]
    # a process of wandb's own writes the file, possibly after finish() has returned
    deadline = time.monotonic() + 60.0
    while len(kept := histories(path.read_bytes())) < len(wanted) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert kept == wanted

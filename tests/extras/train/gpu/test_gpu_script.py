"""The GPU script on a CPU at toy size: killed at several moments, and continued; its ladder and its recipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gpu.ladder import ROWS, run_ladder
from gpu.pieces import OutOfTimeError
from gpu.run import main
from helpers.shared_data import ROOT

SCRIPT = ROOT / "tests" / "gpu" / "run.py"
NAMES = {"sampler-dynamic", "sampler-bfloat16", "packed-padded", "split", "chunks", "autocast",
         "nucleus", "turn-ratio", "first-ratio"}  # fmt: skip


def started(out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), "--dry-run", "--out", str(out), "--resume", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


def test_a_script_killed_at_several_moments_is_continued_to_the_end(tmp_path: Path) -> None:
    seen: list[str] = []
    for lines in (1, 4):  # lines about pieces before the kill
        script = started(tmp_path, "--parts", "equality")
        assert script.stdout is not None
        left = lines
        for line in script.stdout:
            if line.startswith("equality/") and "done already" not in line:
                seen.append(line.partition(":")[0])
                left -= 1
            if not left:
                break
        script.send_signal(signal.SIGKILL)
        script.wait()
        script.stdout.close()
    stored = json.loads((tmp_path / "gpu.json").read_text(encoding="ascii"))["checks"]
    assert set(seen) <= set(stored)  # what was printed is stored
    last = started(tmp_path, "--parts", "equality")
    out, _ = last.communicate()
    assert last.returncode == 0, out
    after = json.loads((tmp_path / "gpu.json").read_text(encoding="ascii"))
    assert {name.removeprefix("equality/") for name in after["checks"]} >= NAMES
    assert {name: after["checks"][name] for name in stored} == stored  # and is not done again
    assert after["not_reached"] == []


def test_a_run_is_continued_on_the_same_kind_of_machine_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--dry-run", "--parts", "equality", "--minutes", "0", "--out", str(tmp_path), "--resume"]
    assert main(arguments) == 0
    path = tmp_path / "gpu.json"
    data = json.loads(path.read_text(encoding="ascii"))
    assert data["not_reached"]
    assert main(arguments) == 0
    for field, value in (("device", "NVIDIA H100"), ("torch", "2.11.0"), ("set", ["seed=1"])):
        path.write_text(json.dumps(data | {"about": data["about"] | {field: value}}), encoding="ascii")
        capsys.readouterr()
        assert main(arguments) != 0
        assert f"  {field}: stored" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["My notes", "[]", "{}", '{"about": 1}', '{"about": {}}'])
def test_a_file_that_is_no_result_is_rejected_and_keeps_every_byte(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(content)
    assert main(["--dry-run", "--parts", "equality", "--minutes", "0", "--out", str(tmp_path), "--resume"]) == 3
    assert str(path) in capsys.readouterr().err
    assert {found.name: found.read_text() for found in tmp_path.iterdir()} == {"gpu.json": content}


def test_runs_of_the_ladder_that_the_time_leaves_out_are_made_by_a_second_call(tmp_path: Path) -> None:
    rows = tmp_path / ROWS
    with pytest.raises(OutOfTimeError, match="--resume"):
        run_ladder(rows, "cpu", 1, True, 1.0)
    assert run_ladder(rows, "cpu", 2, True, 600.0) == {"runs": 2}
    stored = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    held_out = {row["job"][3]: row["held_out"] for row in stored}
    assert held_out["grpo"][0] == held_out["grouptd"][0] < held_out["grouptd"][-1]  # one start, which is improved


def test_iterations_of_a_recipe_are_measured_beside_the_memory_table(tmp_path: Path) -> None:
    assert main(["--dry-run", "--parts", "recipe", "--out", str(tmp_path), "--set", "update.iterations=3"]) == 0
    log = (tmp_path / "runs" / "recipe" / "run" / "metrics.jsonl").read_text(encoding="utf-8")
    assert log.count('"kind":"iteration"') == 3 or log.count('"kind": "iteration"') == 3  # not the two of the toy
    measured = json.loads((tmp_path / "gpu.json").read_text(encoding="ascii"))["checks"]["recipe/qwen2.5-1.5b"]
    assert measured["table_gb"] > 16 * measured["parameters"] / 1e9  # weights, gradients and two moments in float32
    shares = [value for name, value in measured.items() if name.startswith("speed_share_")]
    assert 0.9 < sum(shares) < 1.1
    assert measured["speed_sampled_tokens"] > 0.0 < measured["seconds_update"]


def test_the_recipes_model_has_the_parameters_of_qwen() -> None:
    import torch
    from gpu.recipe import SIZES
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from creditflow.train.run.estimate import ModelSizes, known_sizes

    with torch.device("meta"):
        sizes = ModelSizes.of(Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)))
    known = known_sizes("Qwen/Qwen2.5-1.5B-Instruct")
    assert sizes is not None and known is not None
    assert sizes.parameters == known.parameters == 1_543_714_304

"""``creditflow train --engine verl`` on a CPU: verl's own trainer starts, saves, is resumed, and leaves a model that is played.

A model that SFT brought to some success is trained for a few steps: too few to learn anything, enough to lose everything if
the prompts, the tokenizer or the weights on the way to the sampler or to the folder were not those of the run.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import page_blocks
from helpers.shared_data import ROOT

pytestmark = pytest.mark.verl_train
pytest.importorskip("verl", reason="verl is not installed: pip install -e '.[verl]'")

QUICKSTART = Path(__file__).parents[3] / "train" / "configs" / "quickstart.yaml"
PANEL = ("evaluation.limit=24", "evaluation.samples=2", "evaluation.final_panel=")
PLAYED = ("symbols=ascii", 'separator=""', "max_steps=20")  # the environment's options in the quickstart
SECONDS = 420  # of a command: far more than it takes on a busy core
ON_VERL = (
    "sft.episodes=0", "verl.gpus=1", "prompting.max_context=96", "update.optimizer.schedule=constant",
    "update.optimizer.warmup_fraction=0", "update.loss.aggregation=token_mean", "update.minibatches=1",
    "update.minibatch_size=64", "update.minibatch_unit=turn", "update.iterations=2", "update.old_logprobs=trainer",
    "rollout.tasks=4", "rollout.group_size=6", "evaluation.limit=12", "evaluation.samples=2", "evaluation.every=0",
    "checkpoint.every=1", "credit={scheme: graphgpo}",
)  # fmt: skip


@pytest.fixture(autouse=True, scope="session")
def verl_on_a_cpu() -> Iterator[None]:
    """The platform, engine and sampler of ``helpers.servers.verl_cpu`` in every process that a test starts."""
    variables = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]), "VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "helpers.servers.verl_cpu",
        "OMP_NUM_THREADS": "1",
        "RAY_prestart_worker_first_driver": "0",  # else Ray starts a process per CPU, of which few are used
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def creditflow(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "creditflow.train", *arguments)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program; one that hangs is killed with the trainer that it started, and fails."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def train(*arguments: str, settings: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    sets = [part for setting in settings for part in ("--set", setting)]
    return creditflow("train", *arguments, *sets)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the quickstart after SFT."""
    out = tmp_path_factory.mktemp("sft") / "run"
    succeeded(train(str(QUICKSTART), settings=("update.iterations=0", f"out={out}", *PANEL)))
    return out / "model"


@pytest.fixture(scope="session")
def trained(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two iterations, a row per turn, with verl's trainer."""
    out = tmp_path_factory.mktemp("verl") / "run"
    settings = (f"model.path={start}", f"out={out}", *ON_VERL)
    succeeded(train(str(QUICKSTART), "--engine", "verl", settings=settings))
    return out


def metrics(run: Path, number: int) -> dict[int, dict[str, Any]]:
    """verl's metrics of the run's Nth start, by iteration; 0 is the validation before training."""
    text = (run / "verl" / f"metrics-{number}.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return {row["step"]: row["data"] for row in rows}


def success_of(model: Path) -> float:
    """Sampled success on the quickstart's validation levels, with the settings that the folder carries."""
    options = [part for setting in PLAYED for part in ("--env-set", setting)]
    panel = ("--panel", "small-v1:valid", "--limit", "24")
    done = creditflow("eval", "--agent", f"hf:{model}", "--env", "sokoban", *options, *panel, "--json")
    return float(json.loads(succeeded(done))["sampled"])


def test_verls_trainer_takes_whole_steps_with_our_credit(trained: Path) -> None:
    rows = metrics(trained, 1)
    assert sorted(rows) == [0, 1, 2]
    for step in (1, 2):
        assert math.isfinite(rows[step]["actor/grad_norm"])
        assert 0.0 <= rows[step]["creditflow/success"] <= 1.0
    assert any(rows[step]["actor/grad_norm"] > 0.0 for step in (1, 2))
    # the sampler's weights are the trainer's, also after the first update
    assert all(rows[step]["training/rollout_probs_diff_max"] < 1e-4 for step in (1, 2))


def test_validation_before_training_plays_the_starting_model_as_it_was_prompted(trained: Path) -> None:
    assert metrics(trained, 1)[0]["val-aux/creditflow/sokoban/success/mean@2"] > 0.0


def test_the_merged_model_has_the_prompts_and_the_tokenizer_of_the_run(start: Path, trained: Path) -> None:
    from creditflow.agents.language_model.pretrained import AGENT_FILE, open_tokenizer, read_agent_file

    model = trained / "model"
    assert read_agent_file(model / AGENT_FILE)[0].prompt == "around-v1"
    ours, merged = open_tokenizer(start), open_tokenizer(model)
    text = "".join(map(chr, range(32, 127))) + "up @u2r1 $u1 .d3 #"
    assert merged.encode(text) == ours.encode(text)
    assert merged.chat_template == ours.chat_template


def test_the_merged_weights_are_the_checkpoints_and_not_the_starting_ones(start: Path, trained: Path) -> None:
    import torch
    from safetensors.torch import load_file

    before, after = load_file(start / "model.safetensors"), load_file(trained / "model" / "model.safetensors")
    change = [(before[name].float() - after[name].float()).abs().max().item() for name in after]
    assert max(change) > 1e-4
    assert max(change) < 0.1  # two steps of 4e-4, rounded to bfloat16
    assert all(torch.isfinite(value).all() for value in after.values())


def test_the_merged_model_succeeds_where_the_start_does(start: Path, trained: Path) -> None:
    assert success_of(start) > 0.0
    assert success_of(trained / "model") > 0.0


def test_any_checkpoint_is_exported(trained: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    for step in (1, 2):
        done = creditflow("model", "export", str(trained), "--at", str(step), "--out", str(tmp_path / f"at-{step}"))
        assert f"at-{step}" in succeeded(done)
    first, second, model = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "at-1", tmp_path / "at-2", trained / "model")
    )
    assert all(second[name].equal(model[name]) for name in model)
    assert not all(first[name].equal(model[name]) for name in model)
    missing = creditflow("model", "export", str(trained), "--at", "7", "--out", str(tmp_path / "at-7"))
    assert missing.returncode == 3
    assert "no checkpoint of iteration 7; there are [1, 2]" in missing.stderr


def test_the_rehearsal_of_the_page_on_a_node_of_gpus_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_blocks, "LIMIT", SECONDS)
    page = (ROOT / "train" / "adapters" / "SCALING.md").read_text(encoding="utf-8")
    assert page_blocks.run_page(page, tmp_path, "verl_train") == 6
    run = tmp_path / "runs" / "rehearsal"
    assert sorted(metrics(run, 1)) == [0, 1, 2]
    assert max(metrics(run, 2)) == 3


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """The run folder in another place."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def test_a_resumed_run_continues_after_the_last_iteration(copied: Path) -> None:
    out = succeeded(train("--resume", str(copied), settings=("update.iterations=3",)))
    assert "continues after iteration 2 of 3" in out
    assert sorted(metrics(copied, 1)) == [0, 1, 2]
    assert [step for step in metrics(copied, 2) if step > 2] == [3]
    tracker = copied / "checkpoints" / "latest_checkpointed_iteration.txt"
    assert tracker.read_text(encoding="ascii") == "3"
    assert (copied / "model" / "creditflow_agent.json").is_file()


def test_a_failing_loop_is_reported_by_its_own_reason(copied: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = copied / "verl" / "train.parquet"
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["extra_info"]["task"] = json.dumps({"level": "no level"})
    pq.write_table(pa.Table.from_pylist(rows), path)
    done = train("--resume", str(copied), settings=("update.iterations=3",))
    assert done.returncode == 2, done.stderr[-4000:]
    [line] = [line for line in done.stderr.splitlines() if "because an episode failed" in line]
    assert "Error: " in line


def test_an_append_only_run_with_a_reference_trains_on_two_workers(start: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = (
        f"model.path={start}", f"out={out}", *ON_VERL[:1], "verl.gpus=2", "prompting.history=append",
        "prompting.max_context=320", "rollout.max_turns=6", "credit={scheme: grpo}", "update.minibatches=2", "update.iterations=1",
        "update.optimizer.schedule=cosine", "update.optimizer.warmup_fraction=0", "update.loss.kl_weight=0.01",
        "rollout.tasks=4", "rollout.group_size=6", "evaluation.panel=", "checkpoint.every=1",
        "evaluation.final_panel=",
    )  # fmt: skip
    succeeded(train(str(QUICKSTART), "--engine", "verl", settings=settings))
    [row] = metrics(out, 1).values()
    assert math.isfinite(row["actor/grad_norm"])
    assert row["actor/kl_loss"] >= 0.0
    assert (out / "model" / "model.safetensors").is_file()


def test_missing_gpus_are_an_error_and_not_a_wait_without_end(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    others = (setting for setting in ON_VERL if not setting.startswith("verl.gpus"))
    settings = (*others, f"model.path={start}", f"out={tmp_path / 'run'}", "device=auto", "verl.gpus=2")
    done = train(str(QUICKSTART), "--engine", "verl", settings=settings)
    assert done.returncode == 2
    assert "verl.gpus is 2, and torch sees 0" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_cpu_without_a_platform_for_it_is_an_error(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERL_PLATFORM")
    settings = (*ON_VERL, f"model.path={start}", f"out={tmp_path / 'run'}")
    done = train(str(QUICKSTART), "--engine", "verl", settings=settings)
    assert done.returncode == 2
    assert "VERL_USE_EXTERNAL_MODULES=helpers.servers.verl_cpu" in done.stderr

"""The commands with vLLM, each in a process of its own: training samples with it, evaluation queries its server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.vllm_server import serving

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[3]
SMALL = (
    "tasks.count=200", "rollout.tasks=8", "rollout.group_size=4",
    "evaluation.panel=", "evaluation.final_panel=", "checkpoint.every=1",
)  # fmt: skip


ENV = ("--env-set", "max_steps=20", "--env-set", "symbols=ascii", "--env-set", "separator=")  # as in the run


def creditflow(*arguments: str, code: int = 0) -> str:
    """Run a command; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "creditflow.train", *arguments], cwd=ROOT, timeout=300, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == code, done.stdout[-3000:]
    return done.stdout


SEVERAL = """
import gc
import numpy as np
from helpers.models.vllm_model import made_model
from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.trained import VllmTrainedBackend
request = GenerationRequest(0, np.arange(5, 50, dtype=np.int32), np.full(4, 0.5))
held = []
for number in range(4):  # the second follows a dropped one, the third stands beside the second, which goes then
    held[:1] = [] if number != 2 else held[:1]
    held.append(VllmTrainedBackend(made_model("qwen2", True), dtype="float32", config=VllmConfig(kv_gib=0.1)))
    if number == 2:
        del held[0]
    gc.collect()
    held[-1].sync()
    print(len(held), len(held[-1].generate([request], Sampling(max_new_tokens=4), frozenset())[0].ids))
"""


def test_engines_start_and_stop_without_stopping_others() -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", SEVERAL], timeout=300, text=True, check=False, capture_output=True,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[-5:-1] == ["1 4"] * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three iterations that sample with vLLM; it starts from a model that was trained with transformers."""
    start, out = tmp_path_factory.mktemp("start"), tmp_path_factory.mktemp("run")
    train(start, "sft.episodes=150", "sft.steps=60", "update.iterations=0")
    train(out, f"model.path={start / 'model'}", "sft.steps=0", "generation.backend=vllm", "update.iterations=3")
    return out


def train(out: Path, *more: str) -> str:
    changes = [word for one in (*SMALL, *more, f"out={out}") for word in ("--set", one)]
    return creditflow("train", "train/configs/quickstart.yaml", *changes)


def iterations(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="ascii").splitlines()]
    return [row for row in rows if "push_difference" in row]


def test_a_run_samples_with_vllm_from_the_trainers_distribution(run: Path) -> None:
    rows = iterations(run)
    assert len(rows) == 3
    assert all(row["push_difference"] < 1e-4 and row["sampler_mismatch_max"] < 1e-4 for row in rows)
    assert all(row["completion_tokens"] > 0 for row in rows)


@pytest.mark.lora
def test_a_lora_run_samples_with_vllm_from_the_merged_weights(run: Path, tmp_path: Path) -> None:
    train(
        tmp_path / "lora", f"model.path={run / 'model'}", "sft.steps=0", "generation.backend=vllm", "model.lora.rank=4",
        "update.optimizer.lr=0.01", "update.iterations=2",
    )  # fmt: skip
    rows = iterations(tmp_path / "lora")
    assert len(rows) == 2
    assert all(row["push_difference"] < 1e-4 and row["sampler_mismatch_max"] < 1e-4 for row in rows)
    assert rows[0]["grad_norm"] > 0.0  # so the second iteration samples from an adapter that is not zero


def test_a_run_resumes_from_its_checkpoint(run: Path, tmp_path: Path) -> None:
    interrupted = tmp_path / "run"
    shutil.copytree(run, interrupted)
    for written_later in ("checkpoints/rl-0000003", "model"):
        shutil.rmtree(interrupted / written_later)
    printed = creditflow("train", "--resume", str(interrupted))
    assert "iteration 3/3" in printed
    assert "iteration 2/3" not in printed
    assert len(iterations(interrupted)) == 3


def test_a_server_a_folder_and_transformers_play_the_same_greedy_episodes(run: Path, tmp_path: Path) -> None:
    from creditflow.wrappers.records.jsonl import read_jsonl

    model, logs = run / "model", {}
    with serving(model) as url:
        for agent in (f"hf:{model}", f"vllm:{model}", f"openai:{url}#{model}"):
            log = tmp_path / f"{agent.partition(':')[0]}.jsonl"
            creditflow("eval", "--agent", agent, "--panel", "small-v1:valid", "--limit", "6", "--samples", "1", *ENV,
                       "--out", str(log))  # fmt: skip
            logs[log.stem] = [one for one in read_jsonl(log) if one.replica == 0]
        printed = creditflow("eval", "--agent", f"openai:{url}#nothing", "--panel", "small-v1:valid", code=2)
        assert "unknown model at" in printed
        log = tmp_path / "warm.jsonl"
        printed = creditflow("eval", "--agent", f"openai:{url}#{model}", "--panel", "small-v1:valid", "--limit", "2",
                          "--samples", "1", "--temperature", "0.7", *ENV, "--out", str(log))  # fmt: skip
        assert "processed_logprobs" in printed, "a server with raw log-probabilities must be noticed"
        assert all((one.tokens is None) is not (one.replica == 0) for one in read_jsonl(log))
    assert len(logs["hf"]) == 6
    for kind in ("vllm", "openai"):
        for one, other in zip(logs["hf"], logs[kind], strict=True):
            assert one.tokens is not None
            assert other.tokens is not None
            assert np.array_equal(one.tokens.ids, other.tokens.ids)
            assert all(map(np.array_equal, one.tokens.prompts, other.tokens.prompts))
            assert np.allclose(one.tokens.logprobs, other.tokens.logprobs, atol=1e-4, rtol=0)
            assert one.success == other.success

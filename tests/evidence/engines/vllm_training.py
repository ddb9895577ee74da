"""Training with vLLM as the sampler, and a trained model behind vLLM's server: two parts of ``vllm_engine.py``."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
CONFIG = "train/configs/quickstart.yaml"
PANEL = "small-v1:test"
ENV = ("--env-set", "max_steps=20", "--env-set", "symbols=ascii", "--env-set", "separator=")  # as in CONFIG


def creditflow(*arguments: str, seconds: int = 900) -> list[str]:
    """Run a command in a process of its own, as users do; returns the arguments."""
    print("creditflow", *arguments, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "creditflow.train", *arguments], check=True, timeout=seconds, cwd=ROOT)
    return list(arguments)


def success_rates(log: Path) -> tuple[list[str], Any, Any]:
    """Tasks in order, and for each the greedy success and the mean success of sampled episodes."""
    from creditflow.wrappers.records.jsonl import read_jsonl

    greedy: dict[str, float] = {}
    sampled: dict[str, list[float]] = {}
    for one in read_jsonl(log):
        if one.group_id.endswith("#0"):
            greedy[one.task_id] = float(one.success)
        else:
            sampled.setdefault(one.task_id, []).append(float(one.success))
    names = sorted(greedy)
    return names, np.array([greedy[n] for n in names]), np.array([np.mean(sampled[n]) for n in names])


def over_tasks(values: Any) -> dict[str, float]:
    """Mean and 95 % interval, tasks being the independent units (normal approximation)."""
    half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    mean = float(values.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half, "tasks": len(values)}


def training_part(folder: Path, iterations: int, seed: int) -> dict[str, Any]:
    """Train with SFT, keep the weights, train with RL, and evaluate both on the held-out panel."""
    run, sft = folder / f"run{seed}", folder / f"sft{seed}"
    quiet = ("--set", "evaluation.panel=", "--set", "evaluation.final_panel=")
    commands = [
        creditflow(
            "train", CONFIG, "--set", f"out={run}", "--set", f"seed={seed}", "--set", "update.iterations=0", *quiet
        )
    ]
    shutil.copytree(run / "model", sft)
    began = time.perf_counter()
    commands.append(
        creditflow(
            "train",
            "--resume",
            str(run),
            "--set",
            "generation.backend=vllm",
            "rollout.asynchronous=false",
            "--set",
            f"update.iterations={iterations}",
        )
    )
    seconds = time.perf_counter() - began
    results = {}
    for name, model in (("before", sft), ("after", run / "model")):
        log = folder / f"{name}{seed}.jsonl"
        commands.append(creditflow("eval", "--agent", f"hf:{model}", "--panel", PANEL, *ENV, "--out", str(log)))
        results[name] = success_rates(log)
    assert results["before"][0] == results["after"][0]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="ascii").splitlines()]
    played = [row for row in rows if "push_difference" in row]
    return {
        "commands": [_shown(one, folder) for one in commands],
        "seed": seed,
        "iterations": len(played),
        "rl_seconds": seconds,
        "sampled": {name: over_tasks(table[2]) for name, table in results.items()}
        | {"after - before": over_tasks(results["after"][2] - results["before"][2])},
        "greedy": {name: over_tasks(table[1]) for name, table in results.items()}
        | {"after - before": over_tasks(results["after"][1] - results["before"][1])},
        "largest push_difference": max(row["push_difference"] for row in played),
        "largest sampler mismatch": max(row["sampler_mismatch_max"] for row in played),
        "median push_seconds": float(np.median([row["push_seconds"] for row in played])),
        "median rollout seconds": float(np.median([row["seconds_rollout"] for row in played])),
    }


def _shown(arguments: list[str], folder: Path) -> str:
    return " ".join(["creditflow", *(one.replace(str(folder), "DIR") for one in arguments)])


@contextmanager
def serving(model: Path, *options: str) -> Iterator[str]:
    """vLLM's server on a model folder; yields its base URL."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environment = os.environ | {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    # not `vllm serve`: that script looks for a distribution called vllm, which the build for CPUs is not
    server = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--host", "127.0.0.1",
         "--port", str(port), "--dtype", "float32", "--enforce-eager", "--block-size", "32", *options],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while not _is_ready(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"vLLM's server did not start (exit status {server.poll()})")
            time.sleep(1)
        yield f"{url}/v1"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def _is_ready(port: int) -> bool:
    """Whether the server reports that it is healthy."""
    import http.client

    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def served_part(model: Path, folder: Path, limit: int) -> dict[str, Any]:
    """The same greedy episodes through three backends, compared token by token."""
    from creditflow.wrappers.records.jsonl import read_jsonl

    logs, commands = {}, []
    with serving(model, "--logprobs-mode", "processed_logprobs") as url:
        for agent in (f"hf:{model}", f"vllm:{model}", f"openai:{url}#{model}"):
            kind = agent.partition(":")[0]
            log = folder / f"{kind}.jsonl"
            arguments = ("eval", "--agent", agent, "--panel", PANEL, *ENV, "--limit", str(limit), "--samples", "1")
            commands.append(_shown(creditflow(*arguments, "--out", str(log)), folder).replace(url, "URL"))
            logs[kind] = {one.task_id: one for one in read_jsonl(log) if one.group_id.endswith("#0")}
    out: dict[str, Any] = {"commands": commands, "greedy episodes": len(logs["hf"])}
    for kind in ("vllm", "openai"):
        same, largest = 0, 0.0
        for task, one in logs["hf"].items():
            ours, theirs = one.tokens, logs[kind][task].tokens
            assert ours is not None
            assert theirs is not None
            equal = np.array_equal(ours.ids, theirs.ids) and all(map(np.array_equal, ours.prompts, theirs.prompts))
            same += equal
            if equal:
                largest = max(largest, float(np.abs(ours.logprobs - theirs.logprobs).max()))
        out[f"{kind}: equal to hf token by token"] = same
        out[f"{kind}: largest log-probability difference"] = largest
    return out

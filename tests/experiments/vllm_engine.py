"""Writes ``tests/evidence/vllm.json``: what vLLM on a CPU does in this package, measured.

    .venv-vllm/bin/python tests/experiments/vllm_engine.py --out tests/evidence/vllm.json

engine: log-probabilities against a plain forward pass, tokens a second beside the transformers backend (alternating, in
one process), seconds of a push, and how far the sampler is off when a push goes wrong in one of three ways.
training: ``creditflow train`` warms up with transformers, then learns with vLLM sampling; held-out success before and
after with the same draws, an interval over tasks for every seed.
served: the trained model behind vLLM's server, played through ``openai:``; greedy episodes token by token against
``hf:`` and ``vllm:``.

The tier's environment has what this needs (``.ci/venv vllm train``). About a quarter of an hour; every part is a process of its
own, and the file is rewritten after each, so a cut run is still a result.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.train.commands.arguments.parser import CommandParser

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "train/configs/quickstart.yaml"
PANEL = "small-v1:test"
ENV = ("--set", "max_steps=20", "--set", "symbols=ascii", "--set", "separator=")  # as in CONFIG
PROMPTS, LENGTH, TOKENS = 64, 100, 128


# -- the engine --------------------------------------------------------------------------------------------------------
def engine_part() -> dict[str, Any]:
    """Agreement, speed, pushes; for tied and untied embeddings."""
    import torch

    from creditflow.agents.backends.base import GenerationRequest, Sampling
    from creditflow.agents.backends.transformers_backend import TransformersBackend
    from creditflow.agents.backends.vllm.config import VllmConfig
    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend
    from creditflow.train.policy.scratch import ScratchConfig, build_model, build_tokenizer, parameter_count

    torch.set_num_threads(1)
    out: dict[str, Any] = {}
    for name, tied in (("tied", True), ("untied", False)):
        config = ScratchConfig(hidden=128, layers=4, vocabulary=320, tied=tied, init=0.08)
        model = build_model(config, build_tokenizer(["up down left right"] * 4, config), seed=1)
        began = time.perf_counter()
        backend = VllmTrainedBackend(model, dtype="float32", config=VllmConfig(kv_gib=0.5))
        started = time.perf_counter() - began
        pushes = []
        for number in range(5):
            _shift(model, number)
            backend.sync(f"push-{number}")
            pushes.append(dict(backend.sync_numbers))
        rng = np.random.default_rng(0)
        requests = [
            GenerationRequest(i, rng.integers(5, 260, LENGTH).astype(np.int32), rng.random(TOKENS))
            for i in range(PROMPTS)
        ]
        differences = {}
        for temperature in (1.0, 0.6):
            answers = backend.generate(requests, Sampling(max_new_tokens=TOKENS, temperature=temperature), frozenset())
            off = np.concatenate(
                [_off(model, request.ids, one, temperature) for request, one in zip(requests, answers, strict=True)]
            )
            differences[f"temperature {temperature}"] = {
                "max": float(off.max()), "mean": float(off.mean()), "tokens": len(off),
            }  # fmt: skip
        speeds = _speeds(
            {"transformers": TransformersBackend(model), "vllm": backend}, requests, Sampling(max_new_tokens=TOKENS)
        )
        out[name] = {
            "parameters": parameter_count(model),
            "start_seconds": started,
            "logprob_difference": differences,
            "tokens_per_second": speeds,
            "speed_ratio": speeds["vllm"] / speeds["transformers"],
            "pushes": pushes,
            "wrong_pushes": _wrong(model, backend),
        }
    return out


def _shift(model: Any, seed: int) -> None:
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.01)


def _off(model: Any, ids: Any, answer: Any, temperature: float) -> Any:
    """float64 (n,): distance of each sampled token's log-probability from a float32 forward pass."""
    import torch

    whole = torch.from_numpy(np.concatenate([ids, answer.ids]).astype(np.int64))
    with torch.no_grad():
        table = torch.log_softmax(model(input_ids=whole[None]).logits[0, len(ids) - 1 : -1] / temperature, -1)
    own = table[torch.arange(len(answer.ids)), whole[len(ids) :]].numpy()
    return np.abs(own.astype(np.float64) - answer.logprobs)


def _speeds(backends: dict[str, Any], requests: list[Any], sampling: Any) -> dict[str, float]:
    """Median sampled tokens a second over five rounds, the backends taking turns, caches emptied before each call."""
    seen: dict[str, list[float]] = {name: [] for name in backends}
    for _ in range(5):
        for name, backend in backends.items():
            backend.sync("again")
            began = time.perf_counter()
            answers = backend.generate(requests, sampling, frozenset())
            seen[name].append(sum(len(one.ids) for one in answers) / (time.perf_counter() - began))
    return {name: float(np.median(values)) for name, values in seen.items()}


def _wrong(model: Any, backend: Any) -> dict[str, float]:
    """The probe's difference after pushes that are made to fail; above the tolerance each would have ended the run."""
    from creditflow.agents.backends.base import WeightPushError
    from creditflow.agents.backends.vllm import worker as vllm_worker
    from creditflow.agents.backends.vllm.trained import tensors_in

    def differs(place: Any, name: str, instead: Callable[..., Any]) -> float:
        whole = getattr(place, name)
        _shift(model, 99)
        setattr(place, name, instead)
        try:
            backend.sync("wrong")
        except WeightPushError:
            pass
        finally:
            setattr(place, name, whole)
        number = float(backend.sync_numbers["push_difference"])
        backend.sync("right again")
        return number

    return {
        "weights not sent": differs(backend.engine, "load", tensors_in),
        "prefix cache kept": differs(backend.engine, "forget", lambda: True),
        "output layer not packed again": differs(vllm_worker, "_repack_tied_head", lambda model: None),
    }


# -- training and serving ----------------------------------------------------------------------------------------------
def creditflow(*arguments: str, seconds: int = 900) -> list[str]:
    """Run a command in a process of its own, as users do; returns the arguments."""
    print("creditflow", *arguments, file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "creditflow.train", *arguments], check=True, timeout=seconds, cwd=ROOT)
    return list(arguments)


def shares(log: Path) -> tuple[list[str], Any, Any]:
    """Tasks in order, and of each the greedy success and the mean sampled success."""
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
    """Warm up, keep the weights, learn, and play the held-out panel with both."""
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
            "--set",
            f"update.iterations={iterations}",
        )
    )
    seconds = time.perf_counter() - began
    tables = {}
    for name, model in (("before", sft), ("after", run / "model")):
        log = folder / f"{name}{seed}.jsonl"
        commands.append(creditflow("eval", "--agent", f"hf:{model}", "--panel", PANEL, *ENV, "--out", str(log)))
        tables[name] = shares(log)
    assert tables["before"][0] == tables["after"][0]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="ascii").splitlines()]
    played = [row for row in rows if "push_difference" in row]
    return {
        "commands": [_shown(one, folder) for one in commands],
        "seed": seed,
        "iterations": len(played),
        "rl_seconds": seconds,
        "sampled": {name: over_tasks(table[2]) for name, table in tables.items()}
        | {"after - before": over_tasks(tables["after"][2] - tables["before"][2])},
        "greedy": {name: over_tasks(table[1]) for name, table in tables.items()}
        | {"after - before": over_tasks(tables["after"][1] - tables["before"][1])},
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
        while not _answers(port):
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


def _answers(port: int) -> bool:
    import http.client

    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False


def served_part(model: Path, folder: Path, limit: int) -> dict[str, Any]:
    """The same greedy episodes through three backends, token by token."""
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
        same, off = 0, 0.0
        for task, one in logs["hf"].items():
            ours, theirs = one.tokens, logs[kind][task].tokens
            assert ours is not None
            assert theirs is not None
            equal = np.array_equal(ours.ids, theirs.ids) and all(map(np.array_equal, ours.prompts, theirs.prompts))
            same += equal
            off = max(off, float(np.abs(ours.logprobs - theirs.logprobs).max())) if equal else off
        out[f"{kind}: equal to hf token by token"] = same
        out[f"{kind}: largest log-probability difference"] = off
    return out


# -- the file ----------------------------------------------------------------------------------------------------------
def about() -> dict[str, Any]:
    """Command, commit, versions, machine."""
    from importlib.metadata import version

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = ("vllm-cpu", "torch", "transformers", "tokenizers", "numpy")
    return {
        "what": "vLLM on a CPU as the sampler: agreement, pushes, speed; reinforcement learning; a served model",
        "command": "python tests/experiments/vllm_engine.py --out tests/evidence/vllm.json",
        "commit": commit.stdout.strip(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores shared with other work, one thread",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
    }


def main() -> int:
    """Measure and write."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--out", default="tests/evidence/vllm.json", metavar="FILE")
    parser.add_argument("--iterations", type=int, default=24, help="of reinforcement learning (default 24)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of training (default 0 1)")
    parser.add_argument("--limit", type=int, default=64, help="tasks of the served part (default 64)")
    parser.add_argument("--engine-only", action="store_true", help="print that part alone, as JSON")
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    if args.engine_only:
        print(json.dumps(engine_part()))
        return 0
    from creditflow.envs.files.atomic import atomic_writer

    data = about()

    def write() -> None:
        with atomic_writer(Path(args.out)) as stream:
            stream.write(json.dumps(data, indent=1) + "\n")

    done = subprocess.run(
        [sys.executable, __file__, "--engine-only"], check=True, timeout=600, stdout=subprocess.PIPE, text=True
    )
    data["engine"] = json.loads(done.stdout.splitlines()[-1])
    write()
    with tempfile.TemporaryDirectory(prefix="creditflow-") as place:
        folder = Path(place)
        data["training"] = []
        for seed in args.seeds:
            data["training"].append(training_part(folder, args.iterations, seed))
            write()
        data["served"] = served_part(folder / f"run{args.seeds[-1]}" / "model", folder, args.limit)
        write()
    return 0


if __name__ == "__main__":
    sys.exit(main())

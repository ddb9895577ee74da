"""Folders of models and checkpoints of training runs, damaged or hostile."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import mutate_json
from fuzz.target import Target

_MADE: dict[str, Path] = {}


def _sizes() -> Any:
    from creditflow.train.policy.network.scratch import ScratchConfig

    return ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=128, vocabulary=280, positions=96, init=0.1
    )


@lru_cache(maxsize=1)
def _made() -> tuple[Any, Any]:
    """Return a small untrained model and its tokenizer."""
    import torch

    from creditflow.train.policy.network.scratch import build_model, build_tokenizer

    torch.set_num_threads(1)  # children are forked: no pool of threads may exist before
    tokenizer = build_tokenizer(["find ash birch cedar elm look seen"] * 4, _sizes())
    return build_model(_sizes(), tokenizer, seed=1, device=torch.device("cpu")), tokenizer


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _samples(name: str, write: Callable[[Path], None]) -> Callable[[Path], Sequence[bytes]]:
    """Return a function that writes the folder and returns one sample, a plan that changes nothing."""

    def make(place: Path) -> Sequence[bytes]:
        write(place / name)
        _MADE[name] = place / name
        return [json.dumps({"file": ""}).encode("ascii")]

    return make


def _mutate(name: str) -> Callable[[np.random.Generator, Sequence[bytes]], bytes]:
    """Return a mutator that damages or removes one file of the folder; of tensors mostly the header."""

    def mutate(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
        path = pick(rng, _files(_MADE[name]))
        data = path.read_bytes()
        if path.suffix == ".json":
            new = mutate_json(rng, [data])
        elif path.suffix == ".safetensors" and below(rng, 4):
            (size,) = struct.unpack("<Q", data[:8])
            head = mutate_json(rng, [data[8 : 8 + size].rstrip()])
            new = struct.pack("<Q", len(head)) + head + data[8 + size :]
        else:
            new = mutate_bytes(rng, [data])
        plan = {"file": str(path.relative_to(_MADE[name])), "to": new.decode("latin-1"), "gone": below(rng, 12) == 0}
        return json.dumps(plan).encode("ascii")

    return mutate


def _traps(*files: str) -> Callable[[], Sequence[bytes]]:
    texts = [
        "[" * 200_000,
        "9" * 5000,
        "null",
        "[]",
        "{}",
        "",
        "\xff\xfe",
        '{"model_type": 5}',
        '{"model_type": "nothing"}',
    ]
    heads = [b"\xff" * 8, struct.pack("<Q", 1 << 40), struct.pack("<Q", 2) + b"{}", b"", struct.pack("<Q", 4) + b"[1] "]

    def make() -> Sequence[bytes]:
        plans = [{"file": name, "to": text, "gone": False} for name in files for text in texts if name.endswith("json")]
        plans += [
            {"file": name, "to": head.decode("latin-1"), "gone": False}
            for name in files
            for head in heads
            if name.endswith("tensors")
        ]
        return [
            json.dumps(plan).encode("ascii")
            for plan in [*plans, *({"file": name, "to": "", "gone": True} for name in files)]
        ]

    return make


def _apply(name: str, case: bytes, folder: Path) -> Path:
    """Copy the folder with the damage of the case."""
    target = folder / name
    shutil.copytree(_MADE[name], target)
    plan = json.loads(case)
    if plan["file"]:
        path = target / plan["file"]
        if plan["gone"]:
            path.unlink()
        else:
            path.write_bytes(plan["to"].encode("latin-1"))
    return target


# -- a model's folder ------------------------------------------------------------------------------------------------
def _write_model(path: Path) -> None:
    from creditflow.agents.backends.base import Sampling
    from creditflow.agents.language_model.pretrained import AGENT_FILE, PromptingConfig, write_agent_file

    model, tokenizer = _made()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    write_agent_file(path / AGENT_FILE, PromptingConfig(prompt="places-v1", dialect="bare"), Sampling(max_new_tokens=4))


def _read_model(case: bytes, folder: Path) -> None:
    import torch

    from creditflow.agents.language_model.pretrained import make_hf_agent

    torch.set_num_threads(1)
    make_hf_agent(str(_apply("model", case, folder)), device="cpu")


# -- a success model's folder ----------------------------------------------------------------------------------------
def _write_success(path: Path) -> None:
    import torch

    from creditflow.train.annotate.success.encoding import Encoder, TextConfig
    from creditflow.train.annotate.success.model import SuccessModel, save_success

    backbone, tokenizer = _made()
    model = SuccessModel(backbone)
    with torch.no_grad():
        model.score.weight.normal_(generator=torch.Generator().manual_seed(0))
    save_success(path, model, tokenizer, "paper", Encoder(tokenizer, TextConfig(), 96))


def _read_success(case: bytes, folder: Path) -> None:
    import torch

    from creditflow.train.annotate.success.model import open_success

    torch.set_num_threads(1)
    open_success(_apply("success", case, folder), device="cpu")


# -- a checkpoint ----------------------------------------------------------------------------------------------------
def _trained() -> tuple[Any, Any]:
    """Return a model after one optimiser step, and its optimiser."""
    import copy

    import torch

    model = copy.deepcopy(_made()[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(input_ids=torch.tensor([[1, 2, 3]])).logits.sum().backward()
    optimizer.step()
    return model, optimizer


def _write_checkpoint(path: Path) -> None:
    from creditflow.train.policy.checkpoint import Progress, save_checkpoint

    save_checkpoint(path, Progress("rl", 3), *_trained())


def _read_checkpoint(case: bytes, folder: Path) -> None:
    import torch

    from creditflow.train.policy.checkpoint import latest_checkpoint, load_checkpoint

    torch.set_num_threads(1)
    found = latest_checkpoint(_apply("run", case, folder))
    assert found is not None
    load_checkpoint(found, *_trained())


# -- a GGUF file -----------------------------------------------------------------------------------------------------
def _read_gguf(case: bytes, folder: Path) -> None:
    from creditflow.agents.models.gguf.reading import open_gguf

    path = folder / "model.gguf"
    path.write_bytes(case)
    file = open_gguf(path)
    for name in file.tensors:
        file.array(name)


def _gguf_traps() -> Sequence[bytes]:
    """Return headers with counts, lengths and dimensions far beyond the file, and long lists of short texts."""
    from helpers.models.gguf_files import gguf_bytes, tiny_gguf

    data, huge = tiny_gguf(), struct.pack("<Q", 2**62)
    traps = [data[:at] + huge + data[at + 8 :] for at in (8, 16, 24)]
    traps += [gguf_bytes({"a": 1}, {"x": ((2**31, 2**31, 2**31), "F32", b"")}), gguf_bytes({"a": ["x"] * 10**6}, {})]
    return traps


def _gguf_samples(_: Path) -> Sequence[bytes]:
    from helpers.models.gguf_files import tiny_gguf

    return [tiny_gguf(kind) for kind in ("F32", "Q4_0", "Q4_1", "Q8_0", "BF16")]


def _target(
    name: str, write: Callable[[Path], None], read: Callable[[bytes, Path], None], cases: int, *traps: str
) -> Target:
    return Target(
        name=f"models/{name}", read=read, seeds=_samples(name, write), mutate=_mutate(name), traps=_traps(*traps), cases=cases,
        needs=("torch", "transformers"), seconds=20.0, megabytes=4096, place=name,
    )  # fmt: skip


TARGETS = (
    Target(
        name="models/gguf", read=_read_gguf, seeds=_gguf_samples, mutate=mutate_bytes, traps=_gguf_traps, place="model.gguf",
    ),
    _target(
        "model", _write_model, _read_model, 60,
        "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors",
        "creditflow_agent.json",
    ),
    _target("success", _write_success, _read_success, 40, "config.json", "creditflow_success.json", "score.safetensors"),
    _target(
        "run", _write_checkpoint, _read_checkpoint, 80,
        "rl-0000003/state.json", "rl-0000003/weights.safetensors", "rl-0000003/optimiser.safetensors",
    ),
)  # fmt: skip

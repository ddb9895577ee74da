"""Settings: YAML and JSON files, overrides on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import load_mapping, read_dataclass, to_plain_data, write_yaml
from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import freeze, mutate_json
from fuzz.target import MismatchError, Target

RECIPES = Path(__file__).parents[3] / "train" / "configs"
ODDITIES = (
    "2026-01-01", "2026-01-01 10:00:00", "!!set {a, b}", "!!binary aGVsbG8=", "!!omap [a: 1]", "!!python/object:os.system x",
    "!!timestamp 2026-01-01", "!!float .nan", ".inf", "-.inf", "9" * 5000, "0x" + "f" * 9000, "1:30:00", "<<: *x", "&x [*x]",
    "{? [a]: 1}", "{? {a: 1} : 1}", "*nowhere", "!!int x", "!!bool 3", "!!null x", "? |", "[" * 2000, "{a: " * 500, "yes", "~",
    "!!pairs [a: 1]", "!<tag:x> 1", "%YAML 9.9", "---\na: 1\n---\nb: 2", "\t- x", "!!float 1_0e5", "!!binary ***",
    "{[1, 2]: 3}", "!!map [1]", "!!seq {a: 1}", "!!str {a: 1}", "!!timestamp x", "2026-99-99", "1e5", "{<<: 5}", "{<<: [1]}",
)  # fmt: skip


def _laughs(levels: int) -> bytes:
    """Return a "billion laughs" document: nested aliases that expand to 9 ** levels values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines).encode("ascii")


def _yaml_traps() -> Sequence[bytes]:
    merges = "\n".join(f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}], k{i}: 1}}" for i in range(1, 9))
    return [
        _laughs(9),
        _laughs(9).replace(b"a8:", b"seed:"),
        b"a: &a [*a]\nseed: *a",
        f"m0: &m0 {{k: 1}}\n{merges}".encode(),
        b"seed: " + b"[" * 100_000,
        b"? " * 5000,
        b"seed: " + b"9" * 200_000,
        b"x: " + b"a" * 40_000_000,
        *(f"seed: {one}\n".encode() for one in ODDITIES),
        *(f"{one}: 1\n".encode() for one in ODDITIES),
        *(f"update: {{iterations: {one}}}\n".encode() for one in ODDITIES),
        *(f"{one}\n".encode() for one in ODDITIES),
    ]


def _mutate_yaml(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    """Replace values or lines of a recipe by unusual YAML, or damage bytes."""
    if below(rng, 3) == 0:
        return mutate_bytes(rng, samples)
    lines = pick(rng, samples).decode().split("\n")
    for _ in range(1 + below(rng, 3)):
        at = below(rng, len(lines))
        key, sign, _ = lines[at].partition(":")
        lines[at] = f"{key}: {pick(rng, ODDITIES)}" if sign else pick(rng, ODDITIES)
    return "\n".join(lines).encode()


def _config() -> type[Any]:
    """Return the class of a training run's settings."""
    from creditflow.train.settings.schema import TrainConfig

    return TrainConfig


def _load(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        try:
            found = load_mapping(path)
        except CreditflowError as error:
            if name not in str(error):
                raise MismatchError(f"no place in {error!s:.200}") from error
            raise
        settings = read_dataclass(_config(), apply_overrides(found, []))
        if name.endswith(".yaml"):
            write_yaml(folder / "again.yaml", to_plain_data(settings))
            if read_dataclass(_config(), load_mapping(folder / "again.yaml")) != settings:
                raise MismatchError("settings change when they are written and read again")

    return read


def _recipes(place: Path) -> Sequence[bytes]:
    """Return one of our recipes, and small settings as a run writes them."""
    write_yaml(place / "small.yaml", SMALL)
    return [(RECIPES / "gigpo_sokoban.yaml").read_bytes(), *[(place / "small.yaml").read_bytes()] * 4]


SMALL = {
    "out": "runs/x", "seed": 8, "env": {"name": "sokoban", "options": {"max_steps": 5}},
    "model": {"scratch": {"hidden": 64, "layers": 2}}, "credit": {"scheme": "gigpo"}, "update": {"iterations": 3},
    "rollout": {"tasks": 2, "group_size": 4},
}  # fmt: skip
OVERRIDES = (b"update.optimizer.lr=1e-6", b"seed=3", b"env.name=sokoban", b"credit.parameters={a: 1}")


def _override(data: bytes, _: Path) -> None:
    text = data.decode("utf-8", "replace")
    apply_overrides(SMALL, [text])
    read_dataclass(_config(), apply_overrides(SMALL, [text]))


def _setting(data: bytes, _: Path) -> None:
    apply_overrides({}, [data.decode("utf-8", "replace")])


TARGETS = (
    Target(
        name="configs/yaml", read=_load("config.yaml"), seeds=_recipes, mutate=_mutate_yaml, traps=_yaml_traps, cases=40,
        needs=("yaml",), seconds=10.0,
    ),
    Target(
        name="configs/json", read=_load("config.json"), seeds=lambda _: [freeze(SMALL)], mutate=mutate_json, cases=120,
        traps=lambda: [b'{"a":' * 100_000, b'{"seed":' + b"9" * 5000 + b"}", b'{"seed":1,"seed":2}'],
    ),
    Target(
        name="configs/overrides", read=_override, seeds=lambda _: OVERRIDES, mutate=mutate_bytes, cases=120,
        traps=lambda: [f"{key}={one}".encode() for one in ODDITIES for key in ("seed", "env.options", "x")],
    ),
    Target(
        name="configs/key-value", read=_setting, seeds=lambda _: [b"discount=0.9", b"key=text", b'x={"a": [1]}'],
        mutate=mutate_bytes, cases=150, traps=lambda: [b"x=" + b"9" * 5000, b"x=" + b"[" * 100_000, b"x=NaN"],
    ),
)  # fmt: skip

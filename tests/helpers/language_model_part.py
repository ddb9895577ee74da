"""Results of the suite of language models, made by hand: two families, three seeds, four tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["language_model_document", "language_model_part"]

GAINS = {"grpo": 0.0, "gigpo": 0.1, "rloo": 0.02, "stateless": 0.05, "oracle_adv": 0.2}
UNKNOWN = 0.15
CORRUPTED = ("flipped(oracle_adv)", "shuffled(oracle_adv)")


def language_model_part(
    methods: Sequence[str] = tuple(GAINS), families: Sequence[str] = ("pits", "sokoban")
) -> dict[str, Any]:
    """``document["language_models"]``.

    Args:
        methods: trained methods, the baseline first; those that ``GAINS`` does not name are better than every scheme.
        families: names of the families of tasks.
    """
    return {
        "preset": "lm",
        "baseline": methods[0],
        "settings": {},
        "families": {name: _family(methods, np.random.default_rng(i)) for i, name in enumerate(families)},
    }


def language_model_document(part: dict[str, Any]) -> dict[str, Any]:
    """A document with these results of language models alone."""
    return {
        "provenance": {"command": "creditflow bench --preset lm"},
        "amounts": {"learning": {"tasks": 8, "size": 4}},
        "suites": [],
        "predictions": None,
        "sanity": [],
        "language_models": part,
    }


def _family(methods: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    base = rng.uniform(0.2, 0.4, 4)
    starts = [_point(base, rng) for _ in range(3)]
    runs = {
        name: [
            [
                {
                    "iteration": at,
                    "turns": 100 * at,
                    **(_point(base + at / 40 * (0.1 + GAINS.get(name, UNKNOWN)), rng) if at else start),
                }
                for at in (0, 20, 40)
            ]
            for start in starts
        ]
        for name in methods
    }
    floors = [
        {
            "imitation": {kind: _point(base + 0.3, rng) | {"steps": 30 + i} for kind in ("same", "clean")},
            "best": _point(base + 0.1, rng) | {"temperature": 0.2 + 0.1 * i},
            "matched": {"grpo": _point(base + 0.05, rng) | {"temperature": 0.5}},
        }
        for i in range(3)
    ]
    return {"start": starts, "runs": runs, "floors": floors, "one_step": [_one_step(methods, rng) for _ in range(3)]}


def _point(success: np.ndarray[Any, Any], rng: np.random.Generator) -> dict[str, Any]:
    values = success + rng.normal(0.0, 0.01, 4)
    one = {"sampled": values.tolist(), "greedy": (values + 0.1).tolist(), "entropy": 0.5 + rng.normal(0.0, 0.01)}
    return {"held_out": one, "train": one}


def _one_step(methods: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {"gradient": {"sgd": [0.03, 0.02], "adam": [0.05, 0.03]}}
    for name in (*methods, *CORRUPTED):
        sign = -1.0 if name.startswith("flipped(") else 1.0
        gain = sign * (0.01 + 0.05 * GAINS.get(name, UNKNOWN)) + rng.normal(0.0, 1e-3)
        found[name] = {
            "cos_mean": sign * 0.99 if "shuffled" not in name else 0.1,
            "cos_batch": sign * 0.5 if "shuffled" not in name else 0.1,
            "bias2": abs(rng.normal(0.0, 0.01)),
            "variance": 2.0,
            "sgd": [gain, gain / 2],
            "adam": [2 * gain, gain],
        }
    return found

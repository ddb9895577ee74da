"""The page on PiCA's fair test quotes the stored figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.train.statistics import crossed_mean, crossed_strata_mean

FOLDER = Path(__file__).parent
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8").replace("−", "-")
NUMBER = r"([+-]?\d*\.?\d+)"


def stored(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def intervals(value: Any) -> Iterator[tuple[float, ...]]:
    """All (value, low, high) in a file, as lists of three and as named ends."""
    if isinstance(value, dict):
        middle = value.get("mean", value.get("difference"))
        if middle is not None and "low" in value:
            yield middle, value["low"], value["high"]
        value = list(value.values())
    if isinstance(value, list):
        if len(value) == 3 and all(isinstance(one, float) for one in value):
            yield tuple(value)
        for one in value:
            yield from intervals(one)


def differences_of_runs() -> list[Any]:
    """PiCA minus each rival, float64 (starts, seeds)."""
    runs = {name: np.array(rows) for name, rows in stored("proof.json")["significance"]["runs"].items()}
    return [runs["F1 + penalty + PiCA"] - runs[name] for name in ("F1", "F1 + penalty")]


def test_every_interval_on_the_page_is_stored_or_follows_from_stored_runs() -> None:
    gaps = differences_of_runs()
    means = [crossed_strata_mean([row[:, None] for row in gap]) for gap in gaps] + [crossed_mean(gap.T) for gap in gaps]
    derived = [(mean.mean, *mean.interval) for mean in means]
    known = [one for name in ("fair.json", "downstream.json", "proof.json") for one in intervals(stored(name))]
    known += derived
    quoted = re.findall(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]", PAGE)
    assert len(quoted) > 60
    for texts in quoted:
        sizes = [0.51 * 10.0 ** -len(text.partition(".")[2]) for text in texts]
        assert any(
            all(abs(float(text) - x) <= size for text, x, size in zip(texts, one, sizes, strict=True)) for one in known
        ), texts


def test_the_page_gives_the_differences_of_runs_by_start() -> None:
    first, second = (
        ", ".join(f"{x:+.3f}".replace("0.", ".") for x in gap.mean(axis=1)) for gap in differences_of_runs()
    )
    assert f"{first} and {second}." in " ".join(PAGE.split())


def test_the_page_says_which_linear_model_validation_data_would_have_chosen() -> None:
    found = stored("fair.json")
    linear = found["linear"]
    assert found["best_linear"] == "bag"
    figures = [f"{linear[kind][what]:.3f}".lstrip("0") for what in ("auc", "loss") for kind in ("bag", "pairs")]
    said = "AUC {} and {}, log loss {} and {}; recency alone .746".format(*figures)
    assert said in " ".join(PAGE.split())
    assert f"{linear['recency']['auc']:.3f}" == "0.746"

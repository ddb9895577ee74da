"""Rules that a working benchmark cannot break; when one breaks, the figures are wrong, not surprising."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.bench.study import paired

__all__ = ["BenchBrokenError", "broken_rules", "exceptions", "require_sane"]

ERRORS = 2.0  # standard errors by which exact advantage may seem to be beaten


class BenchBrokenError(CreditflowError, AssertionError):
    """A control came out as it cannot; the message names cell and rule."""


def broken_rules(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the controls of a study; empty if nothing.

    1. Exact advantage has the best one-batch cosine, averaged over the cells. (Not in every cell: where nearly every
       rollout succeeds, a biased direction of little variance can be ahead; see ``exceptions``.)
    2. Flipped exact advantage makes the policy worse, in every cell.
    3. Shuffled credit gains less than the credit itself, averaged over the cells: for exact advantage and for every X
       of a column ``shuffled(X)``.
    """
    measured = [cell for cell in cells if cell["offline"]]
    if not measured:
        return []
    broken = [
        f"{_name(cell)}: flipped exact advantage gains {cell['offline']['flipped(oracle_adv)']['gain']:.3f}"
        for cell in measured
        if not cell["offline"]["flipped(oracle_adv)"]["gain"] < 0.0
    ]
    columns = list(measured[0]["offline"])
    cosine = {name: _average(measured, name, "cos_batch") for name in columns}
    gain = {name: _average(measured, name, "gain") for name in columns}
    broken += [
        f"all cells: {name} has a one-batch cosine of {cosine[name]:.3f}, exact advantage {cosine['oracle_adv']:.3f}"
        for name in columns
        if cosine[name] > cosine["oracle_adv"]
    ]
    for name in columns:
        whole = name.removeprefix("shuffled(").removesuffix(")")
        if name.startswith("shuffled(") and not gain[name] < gain[whole]:
            broken.append(f"all cells: {name} gains {gain[name]:.3f}, {whole} itself only {gain[whole]:.3f}")
    return broken


def exceptions(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Cells in which a column's one-batch cosine is above exact advantage's by two standard errors, paired by task."""
    found = []
    for cell in cells:
        for name, row in cell["offline"].items():
            best = cell["offline"]["oracle_adv"]["cos_batch_by_task"]
            mean, error = paired(row["cos_batch_by_task"], best)
            if name != "oracle_adv" and len(best) > 1 and mean > ERRORS * error + 1e-3:
                found.append(f"{_name(cell)}: {name} {mean:+.3f}")
    return found


def _name(cell: Mapping[str, Any]) -> str:
    return f"{cell['kind']}, J0 {cell['success']}, G {cell['size']}"


def _average(cells: Sequence[Mapping[str, Any]], column: str, metric: str) -> float:
    return float(np.mean([cell["offline"][column][metric] for cell in cells]))


def require_sane(cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise when a rule is broken.

    Raises:
        BenchBrokenError: names every broken rule.
    """
    broken = broken_rules(cells)
    if broken:
        raise BenchBrokenError("the benchmark is broken, its figures mean nothing:\n" + "\n".join(broken))

"""Rules that a working benchmark cannot break; when one breaks, the figures are wrong, not surprising."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.bench.study import paired

__all__ = ["BenchBrokenError", "broken_rules", "require_sane"]

ERRORS = 2.0  # standard errors by which exact advantage may seem to be beaten


class BenchBrokenError(CreditflowError, AssertionError):
    """A control came out as it cannot; the message names cell and rule."""


def broken_rules(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with the controls of a study; empty if nothing.

    1. Exact advantage has the best one-batch cosine in every cell (within two standard errors, paired by task).
    2. Flipped exact advantage makes the policy worse.
    3. Shuffled credit is worse than the credit itself, over all cells together: exact advantage and every X of a
       column ``shuffled(X)``.
    """
    broken = []
    for cell in cells:
        rows = cell["offline"]
        if not rows:
            continue
        name = f"{cell['kind']}, J0 {cell['success']}, G {cell['size']}"
        best = rows["oracle_adv"]["cos_batch_by_task"]
        for column, row in rows.items():
            mean, error = paired(row["cos_batch_by_task"], best)
            if column != "oracle_adv" and len(best) > 1 and mean > ERRORS * error + 1e-3:
                broken.append(f"{name}: {column} has a one-batch cosine {mean:.3f} above exact advantage")
        if not rows["flipped(oracle_adv)"]["gain"] < 0.0:
            broken.append(f"{name}: flipped exact advantage gains {rows['flipped(oracle_adv)']['gain']:.3f}")
    measured = [cell["offline"] for cell in cells if cell["offline"]]
    for column in measured[0] if measured else ():
        if not column.startswith("shuffled("):
            continue
        whole = column[len("shuffled(") : -1]
        spoilt, plain = (float(np.mean([rows[x]["gain"] for rows in measured])) for x in (column, whole))
        if not spoilt < plain:
            broken.append(f"all cells: {column} gains {spoilt:.3f}, {whole} itself only {plain:.3f}")
    return broken


def require_sane(cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise when a rule is broken.

    Raises:
        BenchBrokenError: names every broken rule.
    """
    broken = broken_rules(cells)
    if broken:
        raise BenchBrokenError("the benchmark is broken, its figures mean nothing:\n" + "\n".join(broken))

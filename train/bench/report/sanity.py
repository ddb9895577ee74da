"""Rules that a working benchmark cannot break; when one breaks, the figures are wrong, not surprising."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.bench.report.statistics import paired
from creditflow.train.bench.report.summary import columns_of

__all__ = ["ERRORS", "BenchBrokenError", "Rule", "exceptions", "require_sane", "sanity_rules"]

ERRORS = 2.0  # standard errors by which exact advantage may seem to be beaten


class BenchBrokenError(CreditflowError, AssertionError):
    """A control came out as it cannot; the message names suite and rule."""


class Rule(NamedTuple):
    """One rule on one suite.

    Attributes:
        suite: name.
        rule: what must hold.
        holds: whether it does.
        observed: the figures.
    """

    suite: str
    rule: str
    holds: bool
    observed: str


def sanity_rules(document: Mapping[str, Any]) -> list[Rule]:
    """Every rule on every suite of a document, judged anew from its figures.

    With exact values:

    1. Exact advantage has the best one-batch cosine (M1), averaged over the cells. (Not in every cell: where nearly
       every rollout succeeds, a biased direction of little variance can be ahead; see ``exceptions``.)
    2. Flipped exact advantage makes the policy worse (M2), in every cell.
    3. Shuffled credit gains less (M2) than the credit itself, averaged over the cells: for exact advantage and for
       every X of a column ``shuffled(X)``.

    Without: flipped credit teaches less than the credit itself, and shuffled credit not clearly more.

    Everywhere: all columns start from the same success.
    """
    rules: list[Rule] = []
    for suite in document["suites"]:
        rules += _exact_rules(suite) if "cells" in suite else _played_rules(suite)
    return rules


def _exact_rules(suite: Mapping[str, Any]) -> Iterator[Rule]:
    name, cells = suite["name"], [cell for cell in suite["cells"] if cell["offline"]]
    columns = columns_of(cells) if cells else []
    statement = "the controls were measured"
    needed = {"oracle_adv", "flipped(oracle_adv)", "shuffled(oracle_adv)"}
    yield Rule(name, statement, needed <= set(columns), f"{len(cells)} cells, {len(columns)} columns")
    if not needed <= set(columns):
        return
    cosine = {column: _average(cells, column, "cos_batch") for column in columns}
    second = max((c for c in columns if c != "oracle_adv"), key=cosine.__getitem__)
    yield Rule(
        name,
        "exact advantage has the best one-batch cosine",
        cosine["oracle_adv"] > cosine[second],
        f"oracle_adv {cosine['oracle_adv']:.3f}, next {second} {cosine[second]:.3f}",
    )
    flipped = {_name(cell): cell["offline"]["flipped(oracle_adv)"]["gain"] for cell in cells}
    worst = max(flipped, key=flipped.__getitem__)
    yield Rule(
        name,
        "flipped exact advantage makes the policy worse, in every cell",
        flipped[worst] < 0.0,
        f"gains {flipped[worst]:+.3f} at most ({worst})",
    )
    for column in columns:
        if column.startswith("shuffled("):
            whole = column[9:-1]
            own, spoilt = (_average(cells, c, "gain") for c in (whole, column))
            yield Rule(
                name,
                f"{column} gains less than {whole}"
                + ("" if "oracle" in whole else f" (else the bench or {whole} is wrong)"),
                spoilt < own,
                f"{spoilt:.3f} against {own:.3f}",
            )
    apart = [_name(cell) for cell in cells if cell["curves"] and not _one_start(cell)]
    yield Rule(name, "all learning curves of a cell start at one success", not apart, ", ".join(apart) or "they do")


def _played_rules(suite: Mapping[str, Any]) -> Iterator[Rule]:
    name, rows = suite["name"], suite["rows"]
    firsts = {row["first"] for row in rows.values()}
    yield Rule(
        name,
        "all columns start from the same rollouts",
        len(firsts) == 1,
        ", ".join(f"{x:.3f}" for x in sorted(firsts)),
    )
    for column, row in rows.items():
        whole = column[column.find("(") + 1 : -1]
        if whole not in rows:
            continue
        area, own = row["area"][0], rows[whole]["area"][0]
        shown = f"area {area:.3f} against {own:.3f}"
        if column.startswith("flipped("):
            idle = len({*row["curve"], *rows[whole]["curve"]}) == 1  # nothing was learned by anybody
            yield Rule(name, f"{column} learns less than {whole}", area < own or idle, shown)
        else:
            # success is sampled here: an area may be ahead by chance, not outside both intervals
            holds = row["area"][0] <= own or row["gain"][1] <= rows[whole]["gain"][2]
            yield Rule(name, f"{column} does not learn clearly more than {whole}", holds, shown)


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
    return f"{cell['kind']} J0 {cell['success']} G {cell['size']}"


def _average(cells: Sequence[Mapping[str, Any]], column: str, metric: str) -> float:
    return float(np.mean([cell["offline"][column][metric] for cell in cells]))


def _one_start(cell: Mapping[str, Any]) -> bool:
    starts = [curve["points"][0] for curve in cell["curves"].values()]
    return bool(max(starts) - min(starts) < 1e-3)


def require_sane(document: Mapping[str, Any]) -> None:
    """Raise when a rule is broken.

    Raises:
        BenchBrokenError: names every broken rule.
    """
    broken = [f"{r.suite}: not true that {r.rule}: {r.observed}" for r in sanity_rules(document) if not r.holds]
    if broken:
        raise BenchBrokenError("the benchmark is broken, its figures mean nothing:\n" + "\n".join(broken))

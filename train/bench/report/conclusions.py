"""The conclusions of a run in a few sentences: sanity checks, the best schemes, and which metric predicts learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline

__all__ = ["conclusions", "suite_description"]

MAX_TIED_NAMES = 4  # in a sentence


def conclusions(document: Mapping[str, Any]) -> list[str]:
    """Sentences, the most important first."""
    checks = sanity_checks(document)
    failed = [check for check in checks if not check.passed]
    if failed:
        sentences = [f"{len(failed)} of {len(checks)} sanity checks FAILED: do not use these results."]
    else:
        sentences = [f"All {len(checks)} sanity checks passed."]
    for suite in document["suites"]:
        sentences += _exact_conclusions(suite) if "cells" in suite else _played_conclusions(suite)
    if document["predictions"]:
        hits = [p["hit"] for p in document["predictions"]["checked"]]
        sentences.append(
            f"Of the preregistered predictions {hits.count(True)} came true and {hits.count(False)} did not"
            + (f"; {hits.count(None)} were not tested." if None in hits else ".")
        )
    return sentences


def _exact_conclusions(suite: Mapping[str, Any]) -> list[str]:
    summary = Summary(suite["cells"])
    schemes = [n for n in suite["schemes"] if n in summary.methods]
    if not schemes:
        return [f"{suite['name']}: no scheme is defined here."]
    gains = {name: summary.gain(name) for name in schemes}
    best = max(schemes, key=lambda name: gains[name].mean)
    tied = [n for n in schemes if n != best and not summary.gain(best, over=n).low > 0.0]
    sentences = [
        f"{suite['name']}: {best} gives the best single step, {gains[best].text(2)} of the exact gradient's gain"
        + _compared(gains, best)
        + _not_separated(tied)
        + "."
    ]
    if any(name in summary.learned for name in schemes):
        sentences += _learning_conclusions(suite, summary, [n for n in schemes if n in summary.learned])
    return sentences


def _learning_conclusions(suite: Mapping[str, Any], summary: Summary, schemes: Sequence[str]) -> list[str]:
    areas = {name: summary.area(name) for name in schemes}
    top = max(schemes, key=lambda name: areas[name].mean)
    tied = [n for n in schemes if n != top and not summary.area(top, over=n).low > 0.0]
    base = baseline(schemes)
    lead = summary.area(top, over=base) if top != base else None
    sentences = [
        f"{suite['name']}: {top} learns fastest, with a mean success rate of {areas[top].text(2)} over the turn budget"
        + (f", {100 * lead.mean:+.1f} percentage points compared with {base}" if lead else "")
        + _not_separated(tied)
        + "."
    ]
    distinct = {metric: value["plain"] for metric, value in suite["correlations"].items() if value["plain"] is not None}
    aliased = suite["correlations"]["gain"]["alias"]
    if distinct.get("gain") is not None:
        sentences.append(
            f"{suite['name']}: the gain of a single step (M2) predicts how well methods learn with a rank correlation of "
            f"{distinct['gain']:.2f}, concordance with shortest paths (M4 on Q*) with "
            f"{distinct.get('concordance_optimal') or 0.0:.2f}"
            + (f"; where text keys alias states, M2 does with {aliased:.2f}." if aliased is not None else ".")
        )
    return sentences


def _played_conclusions(suite: Mapping[str, Any]) -> list[str]:
    rows = {n: suite["rows"][n] for n in suite["schemes"] if n in suite["rows"]}
    if not rows:
        return [f"{suite['name']}: no scheme is defined here."]
    top = max(rows, key=lambda name: rows[name]["area"][0])
    base = baseline(list(rows))
    lead = Estimate(*rows[top]["gain"])
    if top == base or not lead.low > 0.0:
        return [f"{suite['name']}: no scheme learns clearly faster than {base} (no exact values)."]
    return [
        f"{suite['name']}: {top} learns fastest; its area under the learning curve exceeds that of {base} by "
        f"{lead.text(sign='+')} (no exact values)."
    ]


def _compared(gains: Mapping[str, Estimate], best: str) -> str:
    base = baseline(list(gains))
    return f" ({base}: {gains[base].mean:.2f})" if base != best else ""


def _not_separated(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_TIED_NAMES} more" if len(names) > MAX_TIED_NAMES else ""
    return f"; not clearly ahead of {', '.join(names[:MAX_TIED_NAMES])}{more}" if names else ""


def suite_description(suite: Mapping[str, Any]) -> str:
    """What a suite consists of, in a sentence or two."""
    log = suite["log"]
    recorded = (
        f"The recorded log has {log['trajectories']} rollouts with {log['turns']} turns, {log['success']:.0%} of the rollouts "
        f"successful; the expert solves {suite['expert']:.0%} of the tasks."
        if log
        else "No log was recorded."
    )
    if "cells" not in suite:
        return f"{suite['tasks']} tasks of at most {suite['horizon']} turns, played through the environment. {recorded}"
    cells = suite["cells"]
    successes = ", ".join(f"{x:g}" for x in sorted({c["success"] for c in cells}))
    sizes = ", ".join(str(g) for g in sorted({c["size"] for c in cells}))
    parts = []
    for kind in dict.fromkeys(c["kind"] for c in cells):
        of_kind = [c for c in cells if c["kind"] == kind]
        states, dead = (sum(c[key] for c in of_kind) / len(of_kind) for key in ("states", "dead_state_fraction"))
        parts.append(f"{kind} ({states:.0f} states, {dead:.0%} dead)")
    fewest, most = min(c["tasks"] for c in cells), max(c["tasks"] for c in cells)
    tasks = f"{most}" if fewest == most else f"{fewest} to {most}"
    return (
        f"{len(cells)} cells. Kinds of task: {', '.join(parts)}. Initial success rates: {successes}. Group sizes: {sizes}. "
        f"{tasks} tasks per cell, at most {suite['horizon']} turns. Values are exact. {recorded}"
    )

"""The document in a few sentences: is the bench sane, which scheme improves and teaches most, what predicts learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.report.sanity import sanity_rules
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline

__all__ = ["suite_facts", "verdict"]

MOST_TIED = 4  # names in a sentence


def verdict(document: Mapping[str, Any]) -> list[str]:
    """Sentences, the most important first."""
    rules = sanity_rules(document)
    broken = [rule for rule in rules if not rule.holds]
    if broken:
        said = [f"BROKEN: {len(broken)} of {len(rules)} sanity rules do not hold. Do not trust a figure below."]
    else:
        said = [f"The bench is sane: all {len(rules)} rules about its controls hold."]
    for suite in document["suites"]:
        said += _exact_verdict(suite) if "cells" in suite else _played_verdict(suite)
    if document["predictions"]:
        hits = [p["hit"] for p in document["predictions"]["judged"]]
        said.append(
            f"Of the predictions written down beforehand {hits.count(True)} came true, {hits.count(False)} did not"
            + (f", {hits.count(None)} were not tested." if None in hits else ".")
        )
    return said


def _exact_verdict(suite: Mapping[str, Any]) -> list[str]:
    found = Summary(suite["cells"])
    schemes = [n for n in suite["schemes"] if n in found.columns]
    if not schemes:
        return [f"{suite['name']}: no scheme is defined here."]
    gains = {name: found.gain(name) for name in schemes}
    best = max(schemes, key=lambda name: gains[name].mean)
    tied = [n for n in schemes if n != best and not found.gain(best, over=n).low > 0.0]
    said = [
        f"{suite['name']}: {best} gives the best single step: {gains[best].text(2)} of what the exact gradient "
        f"gains" + _against(gains, best) + _tie(tied) + "."
    ]
    learned = [n for n in schemes if n in found.learned]
    if learned:
        areas = {name: found.area(name) for name in learned}
        top = max(learned, key=lambda name: areas[name].mean)
        tied = [n for n in learned if n != top and not found.area(top, over=n).low > 0.0]
        base = baseline(learned)
        lead = found.area(top, over=base) if top != base else None
        said.append(
            f"{suite['name']}: {top} learns fastest: mean success {areas[top].text(2)} over the budget"
            + (f", {100 * lead.mean:+.1f} points over {base}" if lead else "")
            + _tie(tied)
            + "."
        )
        known = {m: v["plain"] for m, v in suite["correlations"].items() if v["plain"] is not None}
        aliased = suite["correlations"]["gain"]["alias"]
        if known.get("gain") is not None:
            said.append(
                f"{suite['name']}: the single step (M2) predicts the order of learning, over schemes and controls, with a "
                f"rank correlation of {known['gain']:.2f}; agreement with shortest paths (M4 on Q*) with "
                f"{known.get('agree_efficiency') or 0.0:.2f}"
                + (f". Where text keys merge states, M2 has {aliased:.2f}." if aliased is not None else ".")
            )
    return said


def _played_verdict(suite: Mapping[str, Any]) -> list[str]:
    rows = {n: suite["rows"][n] for n in suite["schemes"] if n in suite["rows"]}
    if not rows:
        return [f"{suite['name']}: no scheme is defined here."]
    top = max(rows, key=lambda name: rows[name]["area"][0])
    base = baseline(list(rows))
    lead = Estimate(*rows[top]["gain"])
    if top == base or not lead.low > 0.0:
        return [f"{suite['name']}: no scheme is clearly above {base} (played, no exact values)."]
    return [
        f"{suite['name']}: {top} learns fastest: {lead.text(sign='+')} of area over {base} (played, no exact values)."
    ]


def _against(gains: Mapping[str, Estimate], best: str) -> str:
    base = baseline(list(gains))
    return f" ({base}: {gains[base].mean:.2f})" if base != best else ""


def _tie(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_TIED} more" if len(names) > MOST_TIED else ""
    return f"; not separated from {', '.join(names[:MOST_TIED])}{more}" if names else ""


def suite_facts(suite: Mapping[str, Any]) -> str:
    """What a suite is made of, in a sentence or two."""
    log = suite["log"]
    recorded = (
        f"the recorded log has {log['trajectories']} rollouts with {log['turns']} turns, {log['success']:.0%} successful; "
        f"the expert solves {suite['expert']:.0%}."
        if log
        else "no log was recorded."
    )
    if "cells" not in suite:
        return f"{suite['tasks']} tasks of at most {suite['horizon']} turns, played through the environment; {recorded}"
    cells = suite["cells"]
    starts = ", ".join(f"{x:g}" for x in sorted({c["success"] for c in cells}))
    sizes = ", ".join(str(g) for g in sorted({c["size"] for c in cells}))
    parts = []
    for kind in dict.fromkeys(c["kind"] for c in cells):
        mine = [c for c in cells if c["kind"] == kind]
        states, dead = (sum(c[key] for c in mine) / len(mine) for key in ("states", "dead_share"))
        parts.append(f"{kind} ({states:.0f} states, {dead:.0%} dead)")
    fewest, most = min(c["tasks"] for c in cells), max(c["tasks"] for c in cells)
    tasks = f"{most}" if fewest == most else f"{fewest} to {most}"
    return (
        f"{len(cells)} cells: {', '.join(parts)}; initial success {starts}; group size {sizes}; {tasks} tasks a cell; at "
        f"most {suite['horizon']} turns. Values are exact; {recorded}"
    )

"""The results of an audit as plain text."""

from __future__ import annotations

from collections import defaultdict
from textwrap import indent

import numpy as np

from creditflow.train.analyses.audit import Audit
from creditflow.train.analyses.audit_advice import warnings
from creditflow.train.text_table import text_table

__all__ = ["audit_text"]


def audit_text(a: Audit) -> str:
    """The audit as plain text."""

    def percent(x: float) -> str:
        return "–" if np.isnan(x) else f"{x:.0%}"

    def number(x: float, form: str = ".1f") -> str:
        return "–" if np.isnan(x) else format(x, form)

    lines = [
        f"{a.groups} groups, {a.trajectories} rollouts, {a.turns} turns",
        "",
        "Outcomes",
        f"  success {percent(a.success)}, mean score {a.score:.3f}{' (graded)' if a.graded_scores else ''}",
        f"  groups: all failed {percent(a.all_failed)}, all succeeded {percent(a.all_succeeded)}, equal scores "
        f"{percent(a.tied_groups)}",
        f"  turns per rollout: {number(a.length)} (successes {number(a.length_succeeded)}, failures "
        f"{number(a.length_failed)}); truncated {percent(a.truncated)}",
        f"  length and score within groups: r = {number(a.length_correlation, '+.2f')}",
        "",
        "Actions",
        f"  not parsed: {percent(a.unparsed)}",
        f"  not admissible: {percent(a.inadmissible)}",
        f"  without effect: {percent(a.ineffective)}",
        f"  in a state that the rollout had visited before: {percent(a.revisits)}",
        f"  groups whose scores differ only by penalties: {percent(a.penalty_decides)}",
        "",
        "States",
    ]
    measures = {
        "distinct, over groups": "states",
        "turns in states seen once": "singletons",
        "turns with two actions": "comparable",
        "turns in conflicted keys": "conflicted",
        "explained by the previous state": "explained",
        "turns that reach a success": "connected",
    }
    rows = [["", "by state", "by text"]]
    for title, name in measures.items():
        values = [getattr(keys, name) if keys is not None else float("nan") for keys in (a.state, a.text)]
        rows.append([title, *(str(value) if isinstance(value, int) else percent(value) for value in values)])
    lines += [
        indent(text_table(rows), "  "),
        f"  text keys shared by several states: {percent(a.aliased)} of the turns; states with several text keys: {percent(a.fragmented)}",
        "",
        "Schemes",
    ]
    rows = [["", "turns with credit", "with step credit", "dead groups"]]
    for name, row in a.coverage.items():
        if not row.note:
            rows.append([name, *(percent(x) for x in (row.coverage, row.step_coverage, row.dead_groups))])
    lines.append(indent(text_table(rows), "  "))
    undefined = defaultdict(list)
    for name, row in a.coverage.items():
        if row.note:
            undefined[row.note.rpartition(": ")[2]].append(name)  # the reason, after the name of the group
    if undefined:
        lines.append("  not applicable to this log:")
        lines += [f"    {', '.join(names)}: {reason}" for reason, names in sorted(undefined.items())]
    if warned := warnings(a):
        lines += ["", "Warnings", *(f"  - {warning}" for warning in warned)]
    return "\n".join(lines)

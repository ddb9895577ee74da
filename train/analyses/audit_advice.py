"""Conclusions from an audit: the scheme to use, warnings, which schemes assign little credit and why, and all as text."""

from __future__ import annotations

from collections import defaultdict
from textwrap import indent
from typing import Final

import numpy as np

from creditflow.train.analyses.audit import Audit
from creditflow.train.text_table import counted, text_table
from creditflow.wrappers.credit.registry import lookup

__all__ = ["EVIDENCE", "audit_text", "evidence_text", "recommendation_text", "recommended", "warnings"]

# tests/evidence: settings and protocol
EVIDENCE: Final = (
    "We ran 96 settings twice, with different tasks. grouptd was within 2 points of the best scheme in 94 and 93 of them, and no "
    "published scheme in half as many.",
    "With update steps of equal KL divergence it leads graphgpo by 3.4 points. With Adam it does not lead.",
)
FEW_CONFLICTS = 0.01  # fraction of turns up to which conflicts are no reason to change a scheme
HALF = 0.5
MOSTLY_EXPLAINED = 0.5
LOW_COVERAGE = 0.2  # coverage below which a scheme is warned about


def recommended(found: Audit) -> tuple[str, str]:
    """The scheme for a log by the table of the README, from what the audit counted: its name and the reason.

    Returns:
        "grouptd" where states repeat, "blend" where they rarely do, "" where most groups have one rollout.
    """
    state = found.state
    if found.singleton_groups > HALF:
        return "", (
            f"{found.singleton_groups:.0%} of the groups have a single rollout, but schemes compare the rollouts of a group: play every task "
            "several times (--group-size 8), or name the group of each rollout when you import the log"
        )
    if state.singletons > HALF:
        return "blend", (
            f"{state.singletons:.0%} of the turns are in states visited only once, so there are no returns to pool. First look for a "
            "coarser state key, with which grouptd is the better choice"
        )
    if state.conflicted <= FEW_CONFLICTS:
        return "grouptd", "in a given state the same action always had the same result, so the state keys look exact"
    conflicts = f"the same action had different results in {state.conflicted:.0%} of the turns, and the previous state"
    if state.explained > MOSTLY_EXPLAINED:
        return "grouptd", (
            f"{conflicts} mostly determines which: the key hides something. By default grouptd tests for such keys"
        )
    return "grouptd", (
        f"{conflicts} does not determine which: either the environment is random, or the key merges states and a finer one would help"
    )


def recommendation_text(scheme: str, reason: str) -> str:
    """The recommended scheme as plain text, to stand first.

    Args:
        scheme: its name; "" recommends none.
        reason: why this one.
    """
    lines = [
        f"Recommended scheme: {scheme or 'none'}{', with its defaults' if scheme else ''}",
        *([f"  creditflow credit --scheme {scheme} LOG"] if scheme else []),
        f"  {reason[0].upper()}{reason[1:]}.",
    ]
    return "\n".join(lines)


def evidence_text() -> str:
    """What the recommendation rests on, as plain text, to stand last."""
    return "\n".join(["Why grouptd?", *(f"  {sentence}" for sentence in EVIDENCE)])


def warnings(found: Audit) -> list[str]:
    """Warnings about training on the log."""
    out = []
    if found.singleton_groups:
        out.append(
            f"{found.singleton_groups:.0%} of the groups have a single rollout, which gets no credit from schemes that compare within groups"
        )
    if found.tied_groups > 0.5:
        out.append(
            f"{found.tied_groups:.0%} of the groups have equal scores (all rollouts failed in {found.all_failed:.0%}, all "
            f"succeeded in {found.all_succeeded:.0%}): their outcome advantages are 0; choose tasks that the policy solves "
            "sometimes, but not always"
        )
    if found.penalty_decides > 0.1:
        out.append(
            f"in {found.penalty_decides:.0%} of the groups only a penalty for invalid turns distinguishes the rollouts: "
            "divided by the standard deviation, it becomes the entire signal; use outcome_scale='none' and step_scale='none'"
        )
    if found.state.comparable < LOW_COVERAGE:
        out.append(
            f"only {found.state.comparable:.0%} of the turns are in states where two different actions were tried: "
            "schemes that compare steps (gigpo, graphgpo, rewardflow) have little to compare"
        )
    if abs(found.length_correlation) > 0.3:
        side = "shorter" if found.length_correlation < 0.0 else "longer"
        out.append(
            f"{side} rollouts score higher within groups (r = {found.length_correlation:+.2f}): averaging the loss over "
            "all tokens gives long rollouts more weight; see the scheme's loss aggregation"
        )
    if found.truncated > 0.2:
        out.append(
            f"{found.truncated:.0%} of the rollouts were cut off by a limit: do not treat their last states as failures"
        )
    for name, of_scheme in found.coverage.items():
        if of_scheme.coverage < LOW_COVERAGE:  # nan, where the scheme is not defined, is not below
            out.append(f"{name} assigns credit to only {of_scheme.coverage:.0%} of the turns; {_why(name, found)}")
    return out


def _why(name: str, found: Audit) -> str:
    needs = lookup(name).credit_needs
    if needs == "unequal outcomes":
        return f"it uses only differences in outcome, and {found.tied_groups:.0%} of the groups have none"
    singletons = f"{found.state.singletons:.0%} of the turns are in states visited once"
    if needs == "repeated states":
        return f"{singletons}, {found.tied_groups:.0%} of the groups have equal scores"
    if needs == "a success":
        return f"it needs a success in the group, and {found.all_failed:.0%} of the groups have none"
    return f"{singletons}, and {found.all_failed:.0%} of the groups have no success"


def audit_text(a: Audit) -> str:
    """The audit as plain text."""

    def percent(x: float) -> str:
        return "–" if np.isnan(x) else f"{x:.0%}"

    def number(x: float, form: str = ".1f") -> str:
        return "–" if np.isnan(x) else format(x, form)

    lines = [
        f"{counted(a.groups, 'group')}, {counted(a.trajectories, 'rollout')}, {counted(a.turns, 'turn')}",
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
        f"  distinct keys, all groups: {a.state.states}",
        f"  turns in states seen once: {percent(a.state.singletons)}",
        f"  turns in states with two actions: {percent(a.state.comparable)}",
        f"  turns in conflicted keys: {percent(a.state.conflicted)}",
        f"  explained by the previous state: {percent(a.state.explained)}",
        f"  turns that can reach a success: {percent(a.state.connected)}",
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

"""What follows from an audit: warnings, which schemes are blind and why, which variant of ``grouptd`` the log supports."""

from __future__ import annotations

from typing import Any

import numpy as np

from creditflow.train.analyses.audit import Audit

__all__ = ["audit_text", "supported_variant", "warnings"]

FEW_CONFLICTS = 0.01  # share of turns below which conflicts are no reason to change a scheme
MANY_SINGLETONS = 0.5
BLIND = 0.2  # coverage below which a scheme counts as blind


def supported_variant(found: Audit) -> tuple[dict[str, Any], str]:
    """Options of ``grouptd`` that the log's keys support, and the reason."""
    state, text = found.state, found.text
    if state.conflicted <= FEW_CONFLICTS:
        if text is not None and text.conflicted > FEW_CONFLICTS:
            return {"key": "state", "deterministic": True}, (
                f"state keys never contradict themselves, text keys do in {text.conflicted:.0%} of the turns: compare by "
                "state; a method that only has the texts should use td_lambda=0.8 or add_outcome=True"
            )
        if state.singletons > MANY_SINGLETONS:
            return {"prior": "share", "prior_weight": 1.0, "td_lambda": 0.3}, (
                f"{state.singletons:.0%} of the turns are in states met once: hardly anything can be pooled, and a prior "
                "by distance is a guess; more rollouts a group, or coarser keys, would help more than any scheme"
            )
        return {"deterministic": True}, "one action always had one result: keys are Markov as far as the log can tell"
    if state.explained > 0.9:
        return {"deterministic": True}, (
            f"one action had different results in {state.conflicted:.0%} of the turns, and the state before tells which: "
            "the key hides something; if the environment is known to be random, take td_lambda=0.8 instead"
        )
    return {"td_lambda": 0.8}, (
        f"one action had different results in {state.conflicted:.0%} of the turns and the state before does not tell "
        "which: chance, or a key that hides more than one step; td_lambda=0.8 is right in both cases. If the environment "
        "is known to be random and its keys complete, the defaults learn faster"
    )


def warnings(found: Audit) -> list[str]:
    """What to know before training on the log."""
    out = []
    if found.lone:
        out.append(f"{found.lone:.0%} of the groups have one rollout: every group-relative scheme gives it nothing")
    if found.tied > 0.5:
        out.append(
            f"{found.tied:.0%} of the groups have equal scores (nobody succeeded in {found.all_failed:.0%}, everybody in "
            f"{found.all_succeeded:.0%}): outcome credit is 0 there; choose tasks nearer to the policy's level"
        )
    if found.penalty_decides > 0.1:
        out.append(
            f"in {found.penalty_decides:.0%} of the groups only a penalty for invalid turns would separate the rollouts: "
            "divided by the deviation it becomes the whole signal; use penalty_at='advantage'"
        )
    if found.aliased > FEW_CONFLICTS:
        out.append(
            f"{found.aliased:.0%} of the turns have a text that stands for several states: schemes with key='text' leak "
            "value between them, and more data does not help"
        )
    if found.fragmented > FEW_CONFLICTS:
        out.append(
            f"{found.fragmented:.0%} of the turns are in states that have several texts: text keys pool less than could "
            "be pooled; CanonicalState may help"
        )
    if found.state.comparable < BLIND:
        out.append(
            f"only {found.state.comparable:.0%} of the turns are in states where two different actions were tried: "
            "step-level comparison (gigpo, graphgpo, rewardflow) has little to compare"
        )
    if abs(found.length_correlation) > 0.3:
        side = "shorter" if found.length_correlation < 0.0 else "longer"
        out.append(
            f"{side} rollouts score higher within groups (r = {found.length_correlation:+.2f}): averaging the loss over "
            "all tokens weighs long rollouts more; see the scheme's aggregation"
        )
    if found.limited > 0.2:
        out.append(
            f"{found.limited:.0%} of the rollouts were cut by a limit: their last states say nothing about failure"
        )
    for name, sight in found.sight.items():
        if sight.note:
            out.append(f"{name}: {sight.note}")
        elif sight.coverage < BLIND:
            out.append(f"{name} is blind: credit on {sight.coverage:.0%} of the turns; {_why(name, found)}")
    return out


def _why(name: str, found: Audit) -> str:
    if name in ("grpo", "rloo"):
        return f"it lives on differences in outcome, and {found.tied:.0%} of the groups have none"
    if name == "gigpo":
        return (
            f"{found.state.singletons:.0%} of the turns are in states met once, {found.tied:.0%} of the groups are tied"
        )
    return f"it needs a success in the group, and {found.all_failed:.0%} of the groups have none"


def audit_text(a: Audit) -> str:
    """The audit as plain text."""

    def share(x: float) -> str:
        return "–" if np.isnan(x) else f"{x:.0%}"

    def number(x: float) -> str:
        return "–" if np.isnan(x) else f"{x:.1f}"

    lines = [
        f"{a.groups} groups, {a.trajectories} rollouts, {a.turns} turns",
        "",
        "Outcomes",
        f"  success {share(a.success)}, mean score {a.score:.3f}{' (graded)' if a.graded else ''}",
        f"  groups: nobody succeeded {share(a.all_failed)}, everybody {share(a.all_succeeded)}, equal scores "
        f"{share(a.tied)}",
        f"  turns a rollout: {number(a.length)} (successes {number(a.length_succeeded)}, failures "
        f"{number(a.length_failed)}); cut by a limit {share(a.limited)}",
        f"  length and score within groups: r = {a.length_correlation:+.2f}",
        "",
        "Actions",
        f"  not parsed {share(a.unparsed)}, not admissible {share(a.inadmissible)}, no effect {share(a.ineffective)}, "
        f"in a state acted in before {share(a.revisits)}",
        f"  groups where only a penalty would decide {share(a.penalty_decides)}",
        "",
        "States                       by state   by text",
    ]
    rows = {
        "distinct, over groups": "states",
        "turns in states met once": "singletons",
        "turns with two actions": "comparable",
        "turns in conflicted keys": "conflicted",
        "  told by the state before": "explained",
        "turns that reach a success": "connected",
    }
    for title, name in rows.items():
        cells = []
        for keys in (a.state, a.text):
            value = getattr(keys, name) if keys is not None else float("nan")
            cells.append(str(value) if isinstance(value, int) else share(value))
        lines.append(f"  {title:26} {cells[0]:>8} {cells[1]:>9}")
    lines += [
        f"  one text, several states: {share(a.aliased)} of the turns; one state, several texts: {share(a.fragmented)}",
        "",
        "Schemes                  turns with credit   with step credit   groups without",
    ]
    for name, sight in a.sight.items():
        cells = [share(x) for x in (sight.coverage, sight.step_coverage, sight.dead_groups)]
        lines.append(f"  {name:22} {cells[0]:>17} {cells[1]:>18} {cells[2]:>16}")
    variant, reason = supported_variant(a)
    options = ", ".join(f"{key}={value!r}" for key, value in variant.items())
    lines += ["", f"grouptd: {options}", f"  {reason}"]
    if warned := warnings(a):
        lines += ["", "Warnings", *(f"  - {warning}" for warning in warned)]
    return "\n".join(lines)

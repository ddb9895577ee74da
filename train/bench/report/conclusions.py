"""The conclusions of a run in a few sentences: sanity checks, the best schemes, and which metric predicts learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.language_model.suite.report import language_model_conclusions
from creditflow.train.bench.report.contrasts import Leader, against, leader_of, played_measure, table_measure
from creditflow.train.bench.report.correlations import correlation_estimate
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline
from creditflow.train.bench.report.tables.shared import methods_in, over_seeds, standard_studies
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import ClusteredMean

__all__ = ["conclusions", "prediction_conclusion", "suite_conclusions", "suite_description"]

MAX_TIED_NAMES = 4  # in a sentence


def conclusions(document: Mapping[str, Any]) -> list[str]:
    """The conclusions as sentences, the most important first."""
    checks = sanity_checks(document)
    failed = [check for check in checks if not check.passed]
    if failed:
        sentences = [f"{len(failed)} of {len(checks)} sanity checks FAILED: do not use these results."]
    else:
        sentences = [f"All {len(checks)} sanity checks passed."] if checks else []
    for suite in document["suites"]:
        sentences += suite_conclusions(suite)
    if "language_models" in document:
        sentences += language_model_conclusions(document["language_models"])
    predicted = prediction_conclusion(document)
    return [*sentences, predicted] if predicted else sentences


def suite_conclusions(suite: Mapping[str, Any]) -> list[str]:
    """The conclusions of one suite."""
    if "cells" in suite:
        return _exact_conclusions(suite)
    if "variations" in suite:
        return _shared_conclusions(suite)
    return _played_conclusions(suite) if "rows" in suite else []


def prediction_conclusion(document: Mapping[str, Any]) -> str:
    """How many of the preregistered predictions came true; "" without any."""
    if not document["predictions"]:
        return ""
    checked = document["predictions"]["checked"]
    hits, still_open = [p["hit"] for p in checked], sum(p.get("outcome") == "open" for p in checked)
    untested = hits.count(None) - still_open
    return (
        f"Of the preregistered predictions {hits.count(True)} came true and {hits.count(False)} did not"
        + (f"; {still_open} are open" if still_open else "")
        + (f"; {untested} were not tested." if untested else ".")
    )


def _exact_conclusions(suite: Mapping[str, Any]) -> list[str]:
    summary = Summary(suite["cells"])
    schemes = [n for n in suite["schemes"] if n in summary.methods]
    if not schemes:
        return [f"{suite['name']}: no scheme is defined here."]
    best = leader_of(schemes, table_measure(summary, "gain"))
    base = baseline(schemes)
    sentences = [
        f"{suite['name']}: {best.name} gives the best single step, {best.mean.text(2)} of the exact gradient's gain"
        + (f" ({base}: {summary.gain(base).text(2)})" if base != best.name else "")
        + _not_separated(best, base)
        + "."
    ]
    if any(name in summary.learned for name in schemes):
        sentences += _learning_conclusions(suite, summary, [n for n in schemes if n in summary.learned])
    return sentences


def _learning_conclusions(suite: Mapping[str, Any], summary: Summary, schemes: Sequence[str]) -> list[str]:
    measure, base = table_measure(summary, "area"), baseline(schemes)
    top = leader_of(schemes, measure)
    lead = measure(top.name, base) if top.name != base else None
    sentences = [
        f"{suite['name']}: {top.name} learns fastest, with a mean success during training of {top.mean.text(2)}"
        + (f", {_points(lead)} percentage points compared with {base}" if lead else "")
        + _not_separated(top, base)
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


def _shared_conclusions(suite: Mapping[str, Any]) -> list[str]:
    every = [Study.from_json(row) for row in suite["studies"]]
    studies = standard_studies(every)
    schemes = [
        name for name in suite["schemes"] if name in methods_in(studies, "area")
    ]  # variants too, if they take part
    if not schemes:
        return [f"{suite['name']}: no scheme is defined here."]
    sentences, base = [], baseline(schemes)
    for endpoint, where in (("area", "the training tasks"), ("held_out_area", "held-out tasks")):
        measure = over_seeds(studies, endpoint)
        top = leader_of(schemes, measure)
        lead = (
            f", {_points(measure(top.name, base))} percentage points compared with {base}" if top.name != base else ""
        )
        sentences.append(
            f"{suite['name']}: with one policy for many tasks {top.name} learns fastest on {where}, with a mean success during training of "
            f"{top.mean.text(2)}{lead}" + _not_separated(top, base) + "."
        )
    correlation = correlation_estimate(every, "gain", suite["correlations"].get("gain"))
    if correlation is not None:
        sentences.append(
            f"{suite['name']}: the gain of a single step (M2) predicts how well methods learn with a rank correlation of "
            f"{correlation.text(2)}."
        )
    return sentences


def _played_conclusions(suite: Mapping[str, Any]) -> list[str]:
    rows = {n: suite["rows"][n] for n in suite["schemes"] if n in suite["rows"]}
    if not rows:
        return [f"{suite['name']}: no scheme is defined here."]
    base, measure = baseline(list(rows)), played_measure(rows)
    top, contrasts = leader_of(list(rows), measure), against(base, list(rows), measure)
    faster = [name for name, one in contrasts.items() if one.separates and one.difference.mean > 0.0]
    if not faster:
        return [f"{suite['name']}: no scheme learns clearly faster than {base} (no exact values)."]
    shown = top.name if top.name in faster else max(faster, key=lambda name: contrasts[name].difference.mean)
    first = (
        f"{top.name} learns fastest; its"
        if shown == top.name
        else f"{shown} learns clearly faster than {base}, {top.name} does not; the former's"
    )
    return [
        f"{suite['name']}: {first} mean success during training exceeds that of {base} by "
        f"{Estimate.of(contrasts[shown].difference).text(sign='+')}"
        + (_not_separated(top, base) if shown == top.name else "")
        + " (no exact values)."
    ]


def _points(difference: ClusteredMean) -> str:
    return Estimate.of(difference).times(100).text(1, "+")


def _not_separated(leader: Leader, base: str) -> str:
    """The schemes that may be as good as the leader; the baseline, with which the sentence compares it, is not one of them."""
    tied = [name for name in leader.tied if name != base]
    if not tied:
        return ""
    more = len(tied) - MAX_TIED_NAMES
    others = f" and {more} other" + ("s" if more > 1 else "") if more > 0 else ""
    return f"; not distinguishable from {', '.join(tied[:MAX_TIED_NAMES])}{others}"


def suite_description(suite: Mapping[str, Any]) -> str:
    """Describe a suite in one or two sentences."""
    log = suite["log"]
    recorded = (
        f"The recorded log has {log['trajectories']} rollouts with {log['turns']} turns, {log['success']:.0%} of the rollouts "
        f"successful; the expert solves {suite['expert']:.0%} of the tasks."
        if log
        else "No log was recorded."
    )
    if "variations" in suite:
        return _shared_description(suite)
    if "studies" in suite:
        return f"Learning with parameters that tasks share; number of studies: {len(suite['studies'])}. {recorded}"
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


def _shared_description(suite: Mapping[str, Any]) -> str:
    tasks, studies = suite["tasks"], [Study.from_json(row) for row in suite["studies"]]
    return (
        f"One policy over features of the state is shared by {tasks['train']} training tasks and {tasks['held_out']} held-out tasks of one "
        f"kind, under {tasks['seeds']} layout seeds with different tasks. Kinds: {', '.join(suite['kinds'])}. {len(studies)} studies with learning curves, "
        f"{len(suite['variations'])} of single steps only. Values are exact; the loss is the trainer's."
    )

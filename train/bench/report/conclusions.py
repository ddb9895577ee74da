"""The conclusions of a run in a few sentences: sanity checks, the best schemes, and which metric predicts learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.language_model.suite.report import language_model_conclusions
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import standard_settings
from creditflow.train.bench.report.tidy import Results, baseline, correlation_estimate, results_of
from creditflow.train.bench.report.verdicts import Leader, against, leader_of

__all__ = ["conclusions", "prediction_conclusion", "suite_conclusions", "suite_description"]

MAX_TIED_NAMES = 4  # in a sentence


def conclusions(document: Mapping[str, Any]) -> list[str]:
    """The conclusions as sentences, the most important first."""
    checks = sanity_checks(document)
    failed = [check for check in checks if not check.passed]
    sentences = []
    if failed:
        sentences.append(f"{len(failed)} of {len(checks)} sanity checks FAILED: do not use these results.")
    elif checks:
        sentences.append(f"All {len(checks)} sanity checks passed.")
    for suite in document["suites"]:
        sentences += suite_conclusions(suite)
    if "language_models" in document:
        sentences += language_model_conclusions(document["language_models"])
    predicted = prediction_conclusion(document)
    return [*sentences, predicted] if predicted else sentences


def suite_conclusions(suite: Mapping[str, Any]) -> list[str]:
    """The conclusions of one suite."""
    if "studies" in suite and "variations" not in suite:
        return []
    results = results_of(suite)
    endpoint = "gain" if results.samples == "tasks" else "area"
    if results.samples == "seeds":
        results = standard_settings(results)
    schemes = [
        name for name in suite["schemes"] if name in results.methods(endpoint)
    ]  # variants too, if they take part
    if not schemes:
        return [f"{suite['name']}: no scheme is defined here."]
    if results.samples == "both":
        return [_played_conclusion(suite["name"], results, schemes)]
    sentences = (
        _exact_conclusions(results, schemes) if results.samples == "tasks" else _shared_conclusions(results, schemes)
    )
    return [f"{suite['name']}: {sentence}" for sentence in [*sentences, *_correlation_conclusions(suite)]]


def prediction_conclusion(document: Mapping[str, Any]) -> str:
    """How many of the preregistered predictions came true; "" if there are none."""
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


def _exact_conclusions(results: Results, schemes: Sequence[str]) -> list[str]:
    best, base = leader_of(schemes, results.measure("gain")), baseline(schemes)
    compared = f" ({base}: {results.estimate('gain', base).text(2)})" if base != best.name else ""
    sentences = [
        f"{best.name} gives the best single step, {best.mean.text(2)} of the exact gradient's gain{compared}"
        f"{_not_separated(best, base)}."
    ]
    learned = [name for name in schemes if name in results.methods("area")]
    if learned:
        sentences.append(_fastest(results, "area", learned, "{} learns fastest"))
    return sentences


def _shared_conclusions(results: Results, schemes: Sequence[str]) -> list[str]:
    return [
        _fastest(results, endpoint, schemes, "with one policy for many tasks {} learns fastest on " + tasks)
        for endpoint, tasks in (("area", "the training tasks"), ("held_out_area", "held-out tasks"))
    ]


def _fastest(results: Results, endpoint: str, schemes: Sequence[str], clause: str) -> str:
    """Which scheme learns fastest, by how much, and which ones may be as good."""
    top, base = leader_of(schemes, results.measure(endpoint)), baseline(schemes)
    lead = ""
    if top.name != base:
        points = results.estimate(endpoint, top.name, base).times(100).text(1, "+")
        lead = f", {points} percentage points compared with {base}"
    mean = f"with a mean success during training of {top.mean.text(2)}"
    return f"{clause.format(top.name)}, {mean}{lead}{_not_separated(top, base)}."


def _correlation_conclusions(suite: Mapping[str, Any]) -> list[str]:
    """How well the metrics of single steps predict learning, where both were measured."""
    correlations = suite["correlations"]
    predicts = "the gain of a single step (M2) predicts how well methods learn with a rank correlation of"
    if "variations" in suite:
        estimate = correlation_estimate(results_of(suite), "gain", correlations.get("gain"))
        return [] if estimate is None else [f"{predicts} {estimate.text(2)}."]
    gain, concordance, aliased = (
        correlations["gain"]["plain"],
        correlations["concordance_optimal"]["plain"] or 0.0,
        correlations["gain"]["alias"],
    )
    if gain is None:
        return []
    where_aliased = "" if aliased is None else f". Where text keys alias states, the gain does with {aliased:.2f}"
    return [f"{predicts} {gain:.2f}, concordance with shortest paths (M4 on Q*) with {concordance:.2f}{where_aliased}."]


def _played_conclusion(suite: str, results: Results, schemes: Sequence[str]) -> str:
    base, measure = baseline(schemes), results.measure("area")
    top, contrasts = leader_of(schemes, measure), against(base, schemes, measure)
    faster = [name for name, lead in contrasts.items() if lead.separates and lead.difference.mean > 0.0]
    if not faster:
        return f"{suite}: no scheme learns clearly faster than {base} (no exact values)."
    if top.name in faster:
        name, clause, tied = top.name, f"{top.name} learns fastest; its", _not_separated(top, base)
    else:
        name, tied = max(faster, key=lambda scheme: contrasts[scheme].difference.mean), ""
        clause = f"{name} learns clearly faster than {base}, {top.name} does not; the former's"
    difference = Estimate.of(contrasts[name].difference).text(sign="+")
    return f"{suite}: {clause} mean success during training exceeds that of {base} by {difference}{tied} (no exact values)."


def _not_separated(leader: Leader, base: str) -> str:
    """The schemes that may be as good as the leader; the baseline, with which the sentence compares it, is not one of them."""
    tied = [name for name in leader.tied if name != base]
    if not tied:
        return ""
    more = len(tied) - MAX_TIED_NAMES
    rest = f" and {more} other" + ("s" if more > 1 else "") if more > 0 else ""
    return f", but may be no better than {', '.join(tied[:MAX_TIED_NAMES])}{rest}"


def suite_description(suite: Mapping[str, Any]) -> str:
    """Describe a suite in one or two sentences."""
    log = suite["log"]
    recorded = "No log was recorded."
    if log:
        recorded = (
            f"The recorded log has {log['trajectories']} rollouts with {log['turns']} turns, {log['success']:.0%} of the "
            f"rollouts successful; the expert solves {suite['expert']:.0%} of the tasks."
        )
    if "variations" in suite:
        return _shared_description(suite)
    if "studies" in suite:
        return f"Learning with parameters that tasks share; number of studies: {len(suite['studies'])}. {recorded}"
    if "cells" not in suite:
        return f"{suite['tasks']} tasks of at most {suite['horizon']} turns, played through the environment. {recorded}"
    cells, results = suite["cells"], results_of(suite)
    successes = ", ".join(f"{success:g}" for success in sorted(results.by("success")))
    sizes = ", ".join(map(str, sorted(results.by("size"))))
    kinds = [
        f"{kind} ({of_kind.fact('states'):.0f} states, {of_kind.fact('dead_state_fraction'):.0%} dead)"
        for kind, of_kind in results.by("kind").items()
    ]
    fewest, most = min(cell["tasks"] for cell in cells), max(cell["tasks"] for cell in cells)
    tasks = f"{most}" if fewest == most else f"{fewest} to {most}"
    return (
        f"{len(cells)} cells. Kinds of task: {', '.join(kinds)}. Initial success rates: {successes}. Group sizes: {sizes}. "
        f"{tasks} tasks per cell, at most {suite['horizon']} turns. Values are exact. {recorded}"
    )


def _shared_description(suite: Mapping[str, Any]) -> str:
    tasks = suite["tasks"]
    return (
        f"One policy over features of the state is shared by {tasks['train']} training tasks and {tasks['held_out']} held-out tasks of one "
        f"kind, under {tasks['seeds']} layout seeds with different tasks. Kinds: {', '.join(suite['kinds'])}. {len(suite['studies'])} studies with learning curves, "
        f"{len(suite['variations'])} of single steps only. Values are exact; the loss is the trainer's."
    )

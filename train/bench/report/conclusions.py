"""The conclusions of a run in a few sentences: sanity checks, the best schemes, and which metric predicts learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.tidy import correlation_estimate, results_of
from creditflow.train.bench.report.verdicts import verdict_sentences

__all__ = ["conclusions", "suite_conclusions", "suite_description"]


def conclusions(document: Mapping[str, Any]) -> list[str]:
    """The conclusions as sentences, the most important first."""
    checks = sanity_checks(document)
    failed = [check for check in checks if not check.passed]
    sentences = []
    if failed:
        sentences.append(f"{len(failed)} of {len(checks)} sanity checks FAILED: do not use these results.")
    elif checks:
        sentences.append(f"All {len(checks)} sanity checks passed.")
    sentences += verdict_sentences(document)
    for suite in document["suites"]:
        sentences += suite_conclusions(suite)
    return sentences


def suite_conclusions(suite: Mapping[str, Any]) -> list[str]:
    """What a suite's single steps say about learning, where both were measured."""
    if "correlations" not in suite:
        return []
    return [f"{suite['name']}: {sentence}" for sentence in _correlation_conclusions(suite)]


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


def suite_description(suite: Mapping[str, Any]) -> str:
    """Describe a suite in one or two sentences."""
    log = suite["log"]
    recorded = "No log was recorded."
    if log:
        recorded = (
            f"The recorded log has {log['trajectories']} rollouts with {log['turns']} turns, {log['success']:.0%} of the "
            f"rollouts successful{_expert(suite['expert'])}."
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


def _expert(success: float | None) -> str:
    return "" if success is None else f"; the expert solves {success:.0%} of the tasks"


def _shared_description(suite: Mapping[str, Any]) -> str:
    tasks = suite["tasks"]
    return (
        f"One policy over features of the state is shared by {tasks['train']} training tasks and {tasks['held_out']} held-out tasks of one "
        f"kind, under {tasks['seeds']} layout seeds with different tasks. Kinds: {', '.join(suite['kinds'])}. {len(suite['studies'])} studies with learning curves, "
        f"{len(suite['variations'])} of single steps only. Values are exact; the loss is the trainer's."
    )

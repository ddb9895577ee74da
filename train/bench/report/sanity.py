"""Sanity checks: if one fails, the benchmark is wrong, whatever its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.bench.language_model.suite.sanity import language_model_checks
from creditflow.train.bench.methods import base_method
from creditflow.train.bench.report.contrasts import Measure, study_measure
from creditflow.train.bench.report.design import design_of, pairs_of
from creditflow.train.bench.report.summary import methods_of
from creditflow.train.bench.report.tables.shared import over_seeds
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import crossed_mean

__all__ = ["MAX_STANDARD_ERRORS", "BenchmarkBrokenError", "SanityCheck", "exceptions", "require_sane", "sanity_checks"]

MAX_STANDARD_ERRORS = 2.0  # standard errors by which a method may exceed the exact advantage


class BenchmarkBrokenError(CreditflowError, AssertionError):
    """A sanity check failed; the message names the suite and the check."""


class SanityCheck(NamedTuple):
    """One check on one suite.

    Attributes:
        suite: name of the suite.
        check: statement that must hold.
        passed: whether it holds.
        observed: observed values.
    """

    suite: str
    check: str
    passed: bool
    observed: str


def sanity_checks(document: Mapping[str, Any]) -> list[SanityCheck]:
    """Every check on every suite of a document, evaluated from its results.

    With exact values:

    1. The exact advantage has the best one-group cosine (M1), averaged over the cells. (Not in every cell: where nearly
       every rollout succeeds, a biased direction of low variance can be ahead; see ``exceptions``.)
    2. The negated exact advantage makes the policy worse (M2), in every cell.
    3. Shuffled credit gains less (M2) than the credit itself, averaged over the cells: for the exact advantage and every
       other X with a control ``shuffled(X)``.

    All learning curves of a cell start at the same success rate.

    Without exact values, negated credit leads to less learning than the credit itself, and shuffled credit does not lead to
    clearly more. The suite ``lm`` has checks of its own: ``language_model_checks``.

    With a shared policy, the first two hold as with exact values; the shuffled exact advantage gains less than the exact one,
    and the shuffled credit of a scheme not clearly more than the scheme; the negated exact advantage ends below its start;
    grpo and rloo differ, because several tasks share an update; and the exact advantage learns more than grpo in a crossed design.
    """
    checks: list[SanityCheck] = []
    for suite in document["suites"]:
        if "variations" in suite:
            checks += _shared_checks(suite)
        elif "studies" in suite:
            checks += _study_checks(suite)
        else:
            checks += _exact_checks(suite) if "cells" in suite else _played_checks(suite)
    if "language_models" in document:
        checks += [SanityCheck(*check) for check in language_model_checks(document["language_models"])]
    return checks


def _controls_check(suite: str, methods: Sequence[str], measured: str) -> SanityCheck:
    """Whether the controls that the other checks need were measured."""
    passed = {"oracle_adv", "flipped(oracle_adv)", "shuffled(oracle_adv)"} <= set(methods)
    return SanityCheck(suite, "the controls were measured", passed, f"{measured}, {len(methods)} methods")


def _cosine_check(suite: str, cosine: Mapping[str, float], sample: str) -> SanityCheck:
    """Whether the exact advantage has the best cosine; ``cosine`` is by method, of gradients of one ``sample`` each."""
    second = max((method for method in cosine if method != "oracle_adv"), key=cosine.__getitem__)
    return SanityCheck(
        suite,
        f"the exact advantage has the best one-{sample} cosine (M1)",
        cosine["oracle_adv"] > cosine[second],
        f"oracle_adv {cosine['oracle_adv']:.3f}; second best: {second} {cosine[second]:.3f}",
    )


def _flipped_check(suite: str, gain: Mapping[str, float], part: str) -> SanityCheck:
    """Whether the negated exact advantage makes the policy worse; ``gain`` is its gain in every ``part`` of the suite."""
    worst = max(gain, key=gain.__getitem__)
    return SanityCheck(
        suite,
        f"the negated exact advantage makes the policy worse (M2), in every {part}",
        gain[worst] < 0.0,
        f"largest gain {gain[worst]:+.3f} ({worst})",
    )


def _shared_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    name, studies = suite["name"], [Study.from_json(row) for row in (*suite["studies"], *suite["variations"])]
    gains, cosines = ([study.results(metric) for study in studies] for metric in ("gain", "cos_batch"))
    methods = [method for method in gains[0] if all(method in of_study for of_study in gains)]
    measured = _controls_check(name, methods, f"{len(studies)} studies")
    yield measured
    if not measured.passed:
        return
    cosine = {method: float(np.mean([of_study[method].mean() for of_study in cosines])) for method in methods}
    yield _cosine_check(name, cosine, "batch")
    flipped = {
        study.title: float(found["flipped(oracle_adv)"].mean()) for study, found in zip(studies, gains, strict=True)
    }
    yield _flipped_check(name, flipped, "study")
    for method in methods:
        if method.startswith("shuffled("):
            yield _shuffled_check(name, method, over_seeds(studies, "gain"))
    if {"grpo", "rloo"} <= set(methods):
        apart = max(float(np.abs(found["grpo"] - found["rloo"]).max()) for found in gains)
        yield SanityCheck(
            name, "grpo and rloo differ where tasks share an update", apart > 0.0, f"by up to {apart:.3f}"
        )
    yield from _curve_checks(suite)
    design = design_of(suite)
    if design is not None and {"oracle_adv", "grpo"} <= set(design.methods):
        pair = next(iter(pairs_of(design, ("oracle_adv", "grpo"))))
        statement = "the exact advantage learns more than grpo, over all settings of the crossed design"
        yield SanityCheck(name, statement, pair.better == "oracle_adv", pair.difference.times(100).text(1, "+"))


def _shuffled_check(suite: str, method: str, gain: Measure) -> SanityCheck:
    """The exact advantage is compared by means; a scheme beyond the interval only, as some hardly distinguish turns."""
    base = base_method(method)
    own, corrupted, lead = gain(base, "").mean, gain(method, "").mean, gain(method, base)
    if "oracle" in base:
        statement, passed = f"{method} gains less (M2) than {base}", corrupted < own
    else:
        statement = f"{method} does not gain clearly more (M2) than {base} (otherwise the benchmark or {base} is wrong)"
        passed = corrupted <= own or not lead.interval.low > 0.0
    return SanityCheck(suite, statement, passed, f"{corrupted:.3f} against {own:.3f}")


def _curve_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    titles = [Study.from_json(row).title for row in suite["studies"]]
    starts = [{train[0] for train, _ in curves.values()} for curves in suite["curves"]]
    apart = [title for title, found in zip(titles, starts, strict=True) if max(found) - min(found) > 1e-3]
    yield SanityCheck(
        suite["name"],
        "all learning curves of a study start at the same success rate",
        not apart,
        ", ".join(apart) or "true in all studies",
    )
    ends = {
        title: curves["flipped(oracle_adv)"][0][-1] - curves["flipped(oracle_adv)"][0][0]
        for title, curves in zip(titles, suite["curves"], strict=True)
        if "flipped(oracle_adv)" in curves
    }
    if ends:
        worst = max(ends, key=ends.__getitem__)
        statement = "the negated exact advantage lowers the success rate, in every study"
        yield SanityCheck(suite["name"], statement, ends[worst] < 0.0, f"largest change {ends[worst]:+.3f} ({worst})")


def _exact_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    name, cells = suite["name"], [cell for cell in suite["cells"] if cell["offline"]]
    methods = methods_of(cells) if cells else []
    measured = _controls_check(name, methods, f"{len(cells)} cells")
    yield measured
    if not measured.passed:
        return
    yield _cosine_check(name, {method: _average(cells, method, "cos_batch") for method in methods}, "group")
    flipped = {_name(cell): cell["offline"]["flipped(oracle_adv)"]["gain"] for cell in cells}
    yield _flipped_check(name, flipped, "cell")
    for method in methods:
        if method.startswith("shuffled("):
            base = base_method(method)
            own, corrupted = (_average(cells, of, "gain") for of in (base, method))
            yield SanityCheck(
                name,
                f"{method} gains less (M2) than {base}"
                + ("" if "oracle" in base else f" (otherwise the benchmark or {base} is wrong)"),
                corrupted < own,
                f"{corrupted:.3f} against {own:.3f}",
            )
    apart = [_name(cell) for cell in cells if cell["curves"] and not _one_start(cell)]
    yield SanityCheck(
        name,
        "all learning curves of a cell start at the same success rate",
        not apart,
        ", ".join(apart) or "true in all cells",
    )


def _played_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    name, rows = suite["name"], suite["rows"]
    firsts = {row["first"] for row in rows.values()}
    yield SanityCheck(
        name,
        "all methods start from the same rollouts",
        len(firsts) == 1,
        ", ".join(f"{x:.3f}" for x in sorted(firsts)),
    )
    for method, row in rows.items():
        base = base_method(method)
        if base == method or base not in rows:
            continue
        area, own = row["area"][0], rows[base]["area"][0]
        shown = f"area {area:.3f} against {own:.3f}"
        if method.startswith("flipped("):
            constant = len({*row["curve"], *rows[base]["curve"]}) == 1  # neither curve changes
            yield SanityCheck(name, f"{method} learns less than {base}", area < own or constant, shown)
        else:
            # success is sampled here, so an area may be larger by chance, but not beyond both intervals
            passed = row["area"][0] <= own or row["gain"][1] <= rows[base]["gain"][2]
            yield SanityCheck(name, f"{method} does not learn clearly more than {base}", passed, shown)


def _study_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    """Checks of the first endpoint of every study."""
    for row in suite["studies"]:
        study = Study.from_json(row)
        endpoint = next(iter(study.endpoints))
        results, measure = study.results(endpoint), study_measure([study], endpoint)
        for method in results:
            kind, base = method.partition("(")[0], method[method.find("(") + 1 : -1]
            if base not in results:
                continue
            lead = measure(method, base)
            statement = (
                f"{study.title}: {method} learns less than {base}"
                if kind == "flipped"
                else f"{study.title}: {method} does not learn clearly more than {base}"
            )
            passed = lead.mean < 0.0 if kind == "flipped" else not lead.interval.low > 0.0
            yield SanityCheck(suite["name"], statement, passed, f"{endpoint} {lead.mean:+.3f}")


def exceptions(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Cells in which a method's one-group cosine exceeds the exact advantage's by two standard errors, paired by task."""
    found = []
    for cell in cells:
        for name, row in cell["offline"].items():
            best = cell["offline"]["oracle_adv"]["cos_batch_by_task"]
            lead = crossed_mean([np.subtract(row["cos_batch_by_task"], best)])
            if name != "oracle_adv" and lead.mean > MAX_STANDARD_ERRORS * lead.standard_error + 1e-3:
                found.append(f"{_name(cell)}: {name} {lead.mean:+.3f}")
    return found


def _name(cell: Mapping[str, Any]) -> str:
    return f"{cell['kind']} J0 {cell['success']} G {cell['size']}"


def _average(cells: Sequence[Mapping[str, Any]], method: str, metric: str) -> float:
    return float(np.mean([cell["offline"][method][metric] for cell in cells]))


def _one_start(cell: Mapping[str, Any]) -> bool:
    starts = [curve["points"][0] for curve in cell["curves"].values()]
    return bool(max(starts) - min(starts) < 1e-3)


def require_sane(document: Mapping[str, Any]) -> None:
    """Raise if a sanity check fails.

    Raises:
        BenchmarkBrokenError: names every failed check.
    """
    failed = [f"{c.suite}: not true that {c.check}: {c.observed}" for c in sanity_checks(document) if not c.passed]
    if failed:
        raise BenchmarkBrokenError("sanity checks failed; do not use these results:\n" + "\n".join(failed))

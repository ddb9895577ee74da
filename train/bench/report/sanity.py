"""Sanity checks: if one fails, the benchmark is wrong, whatever its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from creditflow.envs.errors import CreditflowError
from creditflow.train.bench.methods import base_method
from creditflow.train.bench.report.tidy import BASELINE, EXACT, Results, results_of

__all__ = ["BenchmarkBrokenError", "SanityCheck", "require_sane", "sanity_checks"]

FLIPPED = f"flipped({EXACT})"
CONTROLS = {EXACT, FLIPPED, f"shuffled({EXACT})"}
START_TOLERANCE = 1e-3  # of the success rates at which learning curves begin


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

    1. The exact advantage has the best one-batch cosine, averaged over the settings. (Not in every one: where nearly
       every rollout succeeds, a biased direction of low variance can be ahead.)
    2. The negated exact advantage makes the policy worse by one step, in every setting, and ends below its start.
    3. The shuffled exact advantage gains less by one step than the exact one, averaged over the settings, and the shuffled credit of
       a scheme not clearly more than the scheme.
    4. grpo and rloo differ, because several tasks share an update.
    5. All learning curves of a setting start at the same success rate.

    Without exact values, negated credit leads to less learning than the credit itself, and shuffled credit does not lead to
    clearly more.
    """
    checks: list[SanityCheck] = []
    for suite in document["suites"]:
        checks += _played_checks(suite) if "rows" in suite else _measured_checks(suite)
    return checks


def _measured_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    """Checks where single steps were measured against exact values."""
    name, results = suite["name"], results_of(suite)
    methods = results.methods("gain") if len(results) else []
    measured = set(methods) >= CONTROLS
    yield SanityCheck(name, "the controls were measured", measured, f"{len(results)} settings, {len(methods)} methods")
    if not measured:
        return
    cosine = {method: _average(results, "cos_batch", method) for method in methods}
    second = max((method for method in cosine if method != EXACT), key=cosine.__getitem__)
    yield SanityCheck(
        name,
        "the exact advantage has the best one-batch cosine",
        cosine[EXACT] > cosine[second],
        f"{EXACT} {cosine[EXACT]:.3f}; second best: {second} {cosine[second]:.3f}",
    )
    gain = {setting.title: setting.mean("gain", FLIPPED) for setting in results.settings}
    worst = max(gain, key=gain.__getitem__)
    yield SanityCheck(
        name,
        "the negated exact advantage makes the policy worse by one step, in every setting",
        gain[worst] < 0.0,
        f"largest gain {gain[worst]:+.3f} ({worst})",
    )
    for method in methods:
        if method.startswith("shuffled("):
            yield _shuffled_check(name, method, results)
    if {BASELINE, "rloo"} <= set(methods):
        differences = [s.values["gain"][BASELINE] - s.values["gain"]["rloo"] for s in results.settings]
        apart = max(float(np.abs(difference).max()) for difference in differences)
        statement = "grpo and rloo differ where tasks share an update"
        yield SanityCheck(name, statement, apart > 0.0, f"by up to {apart:.3f}")
    yield from _curve_checks(name, results.where(lambda setting: bool(setting.curves)))


def _average(results: Results, endpoint: str, method: str) -> float:
    """Mean over settings of the mean of each."""
    return float(np.mean([setting.mean(endpoint, method) for setting in results.settings]))


def _shuffled_check(suite: str, method: str, results: Results) -> SanityCheck:
    """Credit against the same credit shuffled: a scheme's beyond the interval only, as some hardly distinguish turns."""
    base = base_method(method)
    gain, shuffled = _average(results, "gain", base), _average(results, "gain", method)
    observed = f"{shuffled:.3f} against {gain:.3f}"
    suspicion = f"(otherwise the benchmark or {base} is wrong)"
    if "oracle" in base:
        return SanityCheck(suite, f"{method} gains less by one step than {base}", shuffled < gain, observed)
    clearly_more = shuffled > gain and results.mean("gain", method, base).interval.low > 0.0
    statement = f"{method} does not gain clearly more by one step than {base} {suspicion}"
    return SanityCheck(suite, statement, not clearly_more, observed)


def _curve_checks(suite: str, results: Results) -> Iterator[SanityCheck]:
    """Checks of the learning curves on training tasks."""
    apart, changes = [], {}
    for setting in results.settings:
        curves = setting.curves
        starts = [curve[0] for curve in curves.values()]
        if max(starts) - min(starts) >= START_TOLERANCE:
            apart.append(setting.title)
        if FLIPPED in curves:
            changes[setting.title] = curves[FLIPPED][-1] - curves[FLIPPED][0]
    statement = "all learning curves of a setting start at the same success rate"
    yield SanityCheck(suite, statement, not apart, ", ".join(apart) or "true in all settings")
    if changes:
        worst = max(changes, key=changes.__getitem__)
        statement = "the negated exact advantage lowers the success rate, in every setting"
        yield SanityCheck(suite, statement, changes[worst] < 0.0, f"largest change {changes[worst]:+.3f} ({worst})")


def _played_checks(suite: Mapping[str, Any]) -> Iterator[SanityCheck]:
    """Checks of training through an environment, where success is sampled."""
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
        area, base_area = row["area"][0], rows[base]["area"][0]
        observed = f"mean success {area:.3f} against {base_area:.3f}"
        if method.startswith("flipped("):
            constant = len({*row["curve"], *rows[base]["curve"]}) == 1  # neither curve changes
            yield SanityCheck(name, f"{method} learns less than {base}", area < base_area or constant, observed)
        else:
            # success is sampled here, so an area may be larger by chance, but not beyond both intervals
            passed = area <= base_area or row["gain"][1] <= rows[base]["gain"][2]
            yield SanityCheck(name, f"{method} does not learn clearly more than {base}", passed, observed)


def require_sane(document: Mapping[str, Any]) -> None:
    """Raise if a sanity check fails.

    Raises:
        BenchmarkBrokenError: names every failed check.
    """
    failed = [f"{c.suite}: not true that {c.check}: {c.observed}" for c in sanity_checks(document) if not c.passed]
    if failed:
        raise BenchmarkBrokenError("sanity checks failed; do not use these results:\n" + "\n".join(failed))

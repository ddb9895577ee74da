"""Which scheme is best in a setting, and how certain that is.

Comparisons are planned (each scheme with the baseline, with Holm's adjustment over the schemes) or chosen afterwards (the best
scheme with all others, adjusted over all pairs). ``standing`` turns them into one of four words. The report's first sentence,
its chart and its table follow from that word, so that they cannot contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from creditflow.train.bench.methods import is_control
from creditflow.train.bench.report.design import unstable_rivals
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tidy import (
    EXACT,
    Measure,
    Results,
    Setting,
    baseline,
    language_model_results,
    main_schemes,
    results_of,
)
from creditflow.train.statistics import Contrast, contrasts_of

__all__ = [
    "Leader",
    "Standing",
    "Verdict",
    "against",
    "contrast_texts",
    "leader_of",
    "p_text",
    "standing",
    "verdicts",
    "verdicts_on",
]

LARGE_GROUP: Final = 16
Standing = Literal["clear", "shared", "unclear", "baseline"]


def against(base: str, schemes: Sequence[str], measure: Measure) -> dict[str, Contrast]:
    """The planned contrasts: every scheme minus the baseline, as one family."""
    return contrasts_of({name: measure(name, base) for name in schemes if name != base})


@dataclass(frozen=True, slots=True)
class Leader:
    """The scheme with the largest mean.

    Attributes:
        name: name of the scheme.
        mean: its mean.
        tied: the schemes from which it is not separated, the best first.
        detectable: the largest of their detectable differences; NaN if there are none.
    """

    name: str
    mean: Estimate
    tied: tuple[str, ...]
    detectable: float


def leader_of(schemes: Sequence[str], measure: Measure) -> Leader:
    """The best of the schemes; Holm's adjustment is over all pairs, because the best one is known only afterwards."""
    means = {name: measure(name, "") for name in schemes}
    order = sorted(schemes, key=lambda name: (-means[name].mean, name))
    pairs = contrasts_of({f"{a} {b}": measure(a, b) for a, b in combinations(order, 2)})
    with_best = {name: pairs[f"{order[0]} {name}"] for name in order[1:]}
    tied = tuple(name for name, contrast in with_best.items() if not contrast.separates)
    detectable = [with_best[name].detectable for name in tied if not math.isnan(with_best[name].detectable)]
    return Leader(order[0], Estimate.of(means[order[0]]), tied, max(detectable, default=math.nan))


def contrast_texts(contrast: Contrast) -> list[str]:
    """Cells of a table: the difference with its interval, the adjusted p-value, and the detectable difference."""
    detectable = "–" if math.isnan(contrast.detectable) else f"{contrast.detectable:.3f}"
    return [Estimate.of(contrast.difference).text(sign="+"), p_text(contrast.p_adjusted), detectable]


def p_text(p: float) -> str:
    """A p-value with three decimal places."""
    if math.isnan(p):
        return "–"
    if p < 0.001:
        return "< .001"
    return f"{p:.3f}".removeprefix("0") if p < 0.9995 else "1"


class Verdict(NamedTuple):
    """The best scheme of one setting, or of several that differ in the kind of task alone.

    Attributes:
        regime, tasks, keys, batch, samples: cells of the table that describe the setting.
        leader: the best scheme, and those from which it is not separated.
        lead: the leader's planned contrast with the baseline; None if it is the baseline.
        headroom: the exact advantage minus the leader; None where it was not measured.
        faster: contrasts of the schemes above the baseline that are separated from it, the largest first; the leader need not be one.
        unstable: methods whose order with the leader depends on a factor of the suite's design, with these factors; the leader
            counts as not separated from them.
    """

    regime: str
    tasks: str
    keys: str
    batch: str
    samples: str
    leader: Leader
    lead: Contrast | None
    headroom: Estimate | None
    faster: Mapping[str, Contrast] = MappingProxyType({})
    unstable: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def standing(verdict: Verdict) -> Standing:
    """How certain the lead of a setting's best scheme is; everything that the report says or draws about it follows from this.

    Returns:
        "clear": the adjusted interval of its lead over the baseline excludes 0, and it is separated from all other schemes;
        "shared": the interval excludes 0, but other schemes may be as good;
        "unclear": the interval contains 0, or there is none;
        "baseline": the baseline itself has the best mean.
    """
    if verdict.lead is None:
        return "baseline"
    if not verdict.lead.separates:
        return "unclear"
    return "shared" if verdict.leader.tied else "clear"


def verdicts(document: Mapping[str, Any]) -> list[Verdict]:
    """A verdict for every setting in which policies were trained: tables, shared policies and language models."""
    by_setting: list[Verdict] = []
    for suite in document["suites"]:
        if "rows" not in suite:  # training through an environment has one setting, and its own conclusion
            by_setting += [
                _stable(verdict, suite) for verdict in verdicts_on(results_of(suite), suite["schemes"], suite["name"])
            ]
    if "language_models" in document:
        results = language_model_results(document["language_models"], document["amounts"]["learning"])
        schemes = [name for name in results.methods(results.endpoints[0]) if not is_control(name)]
        by_setting += verdicts_on(results, schemes)
    return by_setting


def verdicts_on(results: Results, schemes: Sequence[str], suite: str = "") -> Iterator[Verdict]:
    """The verdicts on some results, where at least two schemes were trained.

    Args:
        results: the results.
        schemes: names of the schemes; others are controls.
        suite: name of the suite.
    """
    groups: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in results.settings:
        groups.setdefault(_group(setting), []).append(setting)
    tabular = results.samples == "tasks"
    for settings in groups.values():
        endpoint = "area" if tabular else next(iter(settings[0].values), "")
        measured = [setting for setting in settings if endpoint in setting.values]
        chosen = Results(measured, "tasks" if tabular else "both")
        methods = chosen.methods(endpoint)
        compared = [name for name in schemes if name in methods]
        if tabular:
            compared = main_schemes(compared)
        if len(compared) < 2:
            continue
        measure = chosen.measure(endpoint)
        leader, leads = leader_of(compared, measure), against(baseline(compared), compared, measure)
        faster = [name for name, lead in leads.items() if lead.separates and lead.difference.mean > 0.0]
        yield Verdict(
            *(_table_cells(chosen, suite) if tabular else _study_cells(chosen, endpoint)),
            leader,
            leads.get(leader.name),
            Estimate.of(measure(EXACT, leader.name)) if EXACT in methods else None,
            {name: leads[name] for name in sorted(faster, key=lambda name: -leads[name].difference.mean)},
        )


def _group(setting: Setting) -> tuple[Any, ...]:
    """What settings with one verdict have in common; tables that differ only in their initial success or kind are one."""
    if setting.regime == "table per task":
        return setting.keys, setting.size >= LARGE_GROUP
    return setting.regime, setting.keys, setting.batch, setting.size, setting.condition


def _table_cells(results: Results, suite: str) -> tuple[str, str, str, str, str]:
    """The cells that describe settings with a table per task."""
    sizes = ", ".join(map(str, sorted(results.by("size"))))
    tasks: dict[str, int] = {}
    for setting in results.settings:
        tasks[setting.kind] = max(len(setting.tasks), tasks.get(setting.kind, 0))
    fewest, most = min(tasks.values()), max(tasks.values())
    number = f"{most}" if fewest == most else f"{fewest} to {most}"
    samples = f"{number} tasks" + (f" in each of {len(tasks)} kinds" if len(tasks) > 1 else "")
    return "table per task", suite, results.settings[0].keys, f"groups of {sizes}", samples


def _study_cells(results: Results, endpoint: str) -> tuple[str, str, str, str, str]:
    """The cells that describe settings in which tasks share a policy."""
    first = results.settings[0]
    kinds = ", ".join(dict.fromkeys(setting.kind for setting in results.settings))
    batch = f"{first.batch} tasks × {first.size} rollouts" + (f", {first.condition}" if first.condition else "")
    seeds = {len(next(iter(setting.values[endpoint].values()))) for setting in results.settings}
    return first.regime, kinds, first.keys, batch, " or ".join(map(str, sorted(seeds))) + " seeds"


def _stable(verdict: Verdict, suite: Mapping[str, Any]) -> Verdict:
    """The verdict without leads whose sign depends on a factor of the suite's design."""
    leader, unstable = verdict.leader, unstable_rivals(suite, verdict.leader.name)
    if not unstable:
        return verdict
    tied = tuple(dict.fromkeys([*leader.tied, *(name for name in suite["schemes"] if name in unstable)]))
    return verdict._replace(leader=replace(leader, tied=tied), unstable=unstable)

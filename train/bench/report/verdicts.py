"""Which scheme is best in a setting, and how certain that is.

Comparisons with the baseline are planned: those of all schemes in all settings of a run are one family, with one adjustment by Holm.
Those of the best scheme with the others are chosen afterwards and adjusted over all pairs of a setting. The report's sentences and its
table follow from both, so that they cannot contradict each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from creditflow.train.bench.report.tidy import (
    BASELINE,
    EXACT,
    Estimate,
    Measure,
    Results,
    Setting,
    baseline,
    results_of,
)
from creditflow.train.statistics import ClusteredMean, Contrast, contrasts_of

__all__ = [
    "FEW_TASKS",
    "Leader",
    "Verdict",
    "against",
    "leader_of",
    "names_text",
    "p_text",
    "sentences",
    "verdict_sentences",
    "verdicts",
    "winner",
]

FEW_TASKS: Final = 10  # so few tasks of one suite say little about others like them, whatever their interval
MAX_NAMES: Final = 3  # of schemes in a sentence


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
        suite: name of the suite.
        base: name of the baseline.
        number: number of tasks on which schemes were compared.
        family: number of comparisons over which leads are adjusted.
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
    suite: str = ""
    base: str = BASELINE
    number: int = FEW_TASKS
    family: int = 1


def winner(verdict: Verdict) -> Contrast | None:
    """The largest lead over the baseline that is certain: its adjusted interval excludes 0, on enough tasks; None if there is none."""
    if verdict.lead is not None and verdict.lead.separates and verdict.number >= FEW_TASKS:
        return verdict.lead
    return next(iter(verdict.faster.values()), None)


def sentences(of_run: Sequence[Verdict]) -> list[str]:
    """What each suite that ran shows, null results too; an order is stated only where its adjusted interval excludes 0."""
    by_suite: dict[str, list[Verdict]] = {}
    for verdict in of_run:
        by_suite.setdefault(verdict.suite or verdict.tasks, []).append(verdict)
    return [f"{suite}: {_of_suite(found)}." for suite, found in by_suite.items()]


def verdict_sentences(document: Mapping[str, Any]) -> list[str]:
    """What every suite of a run shows; of one in which no two schemes learned, that."""
    of_run = verdicts(document)
    compared = {verdict.suite for verdict in of_run}
    silent = [suite["name"] for suite in document["suites"] if suite["name"] not in compared]
    return [*sentences(of_run), *(f"{name}: no two schemes were compared." for name in silent)]


def _of_suite(found: Sequence[Verdict]) -> str:
    base, several = found[0].base, len(found) > 1
    certain = [(verdict, lead) for verdict in found if (lead := winner(verdict)) is not None]
    clauses: list[str] = []
    for name, count in Counter(_name(verdict, lead) for verdict, lead in certain).most_common():
        if several:
            clauses.append(f"{name} learned faster than {base} in {count} of {len(found)} settings")
            continue
        [(verdict, lead)] = certain
        points = Estimate(lead.difference.mean, *lead.interval).times(100).text(1, "+")
        clauses.append(f"{name} learned faster than {base}, by {points} percentage points")
        if verdict.lead is lead and verdict.leader.tied:
            clauses.append(f"{names_text(verdict.leader.tied)} may be as good")
    without = [verdict for verdict in found if winner(verdict) is None]
    few = [verdict for verdict in without if verdict.number < FEW_TASKS]
    if few:
        where = f" in {len(few)} of {len(found)} settings" if several else ""
        tasks = " or ".join(map(str, sorted({verdict.number for verdict in few})))
        clauses.append(f"{tasks} tasks are too few for a verdict{where}")
    if len(without) > len(few):
        where = f" in {len(without) - len(few)} of {len(found)} settings" if several else ""
        clauses.append(f"no scheme learned clearly faster than {base}{where}")
    return "; ".join(clauses)


def _name(verdict: Verdict, lead: Contrast) -> str:
    return verdict.leader.name if lead is verdict.lead else next(iter(verdict.faster))


def names_text(names: Sequence[str]) -> str:
    """The names as words of a sentence, the first three in full."""
    more = len(names) - MAX_NAMES
    if more > 0:
        return ", ".join(names[:MAX_NAMES]) + f" and {more} other" + ("s" if more > 1 else "")
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def verdicts(document: Mapping[str, Any]) -> list[Verdict]:
    """A verdict for every setting in which policies were trained, with one adjustment of their leads."""
    found: list[Compared] = []
    for suite in document["suites"]:
        found += _compared(results_of(suite), suite["schemes"], suite["name"])
    return _one_family(found)


Compared = tuple[Verdict, Mapping[str, ClusteredMean]]  # without leads, and each scheme's mean minus the baseline's


def _one_family(found: Sequence[Compared]) -> list[Verdict]:
    """The verdicts with their leads, adjusted over the comparisons of all of them."""
    family = contrasts_of(
        {(at, name): difference for at, (_, of_setting) in enumerate(found) for name, difference in of_setting.items()}
    )
    adjusted = []
    for at, (verdict, of_setting) in enumerate(found):
        leads = {name: family[at, name] for name in of_setting}
        faster = [name for name, lead in leads.items() if lead.separates and lead.difference.mean > 0.0]
        order = sorted(faster, key=lambda name: -leads[name].difference.mean) if verdict.number >= FEW_TASKS else []
        adjusted.append(
            verdict._replace(
                lead=leads.get(verdict.leader.name), faster={name: leads[name] for name in order}, family=len(family)
            )
        )
    return adjusted


def _compared(results: Results, schemes: Sequence[str], suite: str) -> Iterator[Compared]:
    groups: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in results.measured("area"):
        groups.setdefault(_group(setting), []).append(setting)
    for settings in groups.values():
        chosen = Results(settings, "both")
        methods = chosen.methods("area")
        compared = [name for name in schemes if name in methods]
        if len(compared) < 2:
            continue
        measure, base = chosen.measure("area"), baseline(compared)
        leader = leader_of(compared, measure)
        cells = _cells(chosen)
        headroom = Estimate.of(measure(EXACT, leader.name)) if EXACT in methods else None
        verdict = Verdict(*cells, leader, None, headroom, suite=suite, base=base, number=_tasks(chosen))
        yield verdict, {name: measure(name, base) for name in compared if name != base}


def _tasks(results: Results) -> int:
    """Number of tasks of some settings, of which each seed can have its own."""
    shapes = [(setting, next(iter(setting.values["area"].values())).shape) for setting in results.settings]
    return sum(tasks if tasks > 1 else seeds * setting.batch for setting, (seeds, tasks) in shapes)


def _group(setting: Setting) -> tuple[Any, ...]:
    """What settings with one verdict have in common: all but the kind of task."""
    return setting.regime, setting.keys, setting.batch, setting.size, setting.condition


def _cells(results: Results) -> tuple[str, str, str, str, str]:
    """The cells of the table that describe some settings."""
    first = results.settings[0]
    kinds = ", ".join(dict.fromkeys(setting.kind for setting in results.settings))
    batch = f"{first.batch} tasks × {first.size} rollouts" + (f", {first.condition}" if first.condition else "")
    seeds = {len(next(iter(setting.values["area"].values()))) for setting in results.settings}
    return first.regime, kinds, first.keys, batch, " or ".join(map(str, sorted(seeds))) + " seeds"

"""Which scheme when: the best scheme in each regime, its lead over the baseline, and the schemes not separated from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.methods import is_control
from creditflow.train.bench.report.contrasts import (
    Leader,
    Measure,
    against,
    leader_of,
    p_text,
    study_measure,
    table_measure,
)
from creditflow.train.bench.report.design import unstable_rivals
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline, main_schemes, methods_of
from creditflow.train.bench.report.tables.table import Table
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import Contrast

__all__ = ["Standing", "Verdict", "regime_table", "standing", "verdicts"]

LARGE_GROUP: Final = 16
EXACT: Final = "oracle_adv"
HELD_OUT_AREA: Final = "held-out area"
Standing = Literal["clear", "shared", "unclear", "baseline"]


class Verdict(NamedTuple):
    """The best scheme of one regime.

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
    """A verdict for every setting that was run: learning curves of tables, of shared policies and of language models."""
    found: list[Verdict] = []
    for suite in document["suites"]:
        if "cells" in suite:
            found += _of_tables(suite)
        elif "studies" in suite:
            studies = [Study.from_json(row) for row in suite["studies"]]
            found += [_stable(verdict, suite) for verdict in _of_studies(studies, suite["schemes"])]
    if "language_models" in document:
        studies = _language_model_studies(document)
        found += _of_studies(studies, [n for n in studies[0].endpoints[HELD_OUT_AREA] if not is_control(n)])
    return found


def _of_tables(suite: Mapping[str, Any]) -> Iterator[Verdict]:
    cells = [cell for cell in suite["cells"] if cell["offline"] and cell["curves"]]
    for aliased in (False, True):
        for large in (False, True):
            chosen = [c for c in cells if (c["kind"] == "alias") is aliased and (c["size"] >= LARGE_GROUP) is large]
            if not chosen:
                continue
            methods = methods_of(chosen, "curves")
            sizes = ", ".join(str(g) for g in sorted({c["size"] for c in chosen}))
            kinds = {c["kind"]: max(d["tasks"] for d in chosen if d["kind"] == c["kind"]) for c in chosen}
            verdict = _verdict(
                (
                    "table per task",
                    suite["name"],
                    "aliased" if aliased else "distinct",
                    f"groups of {sizes}",
                    _tasks_text(kinds),
                ),
                main_schemes([n for n in suite["schemes"] if n in methods]),
                methods,
                table_measure(Summary(chosen), "area"),
            )
            if verdict:
                yield verdict


def _tasks_text(kinds: Mapping[str, int]) -> str:
    fewest, most = min(kinds.values()), max(kinds.values())
    tasks = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{tasks} tasks" + (f" in each of {len(kinds)} kinds" if len(kinds) > 1 else "")


def _language_model_studies(document: Mapping[str, Any]) -> list[Study]:
    """The learning curves of language models on held-out tasks as one study per task family."""
    learning = document["amounts"]["learning"]
    return [
        Study(
            "language model",
            name,
            "distinct",
            learning["tasks"],
            learning["size"],
            "",
            {
                HELD_OUT_AREA: {
                    method: [_area(curve).tolist() for curve in curves] for method, curves in family["runs"].items()
                }
            },
        )
        for name, family in document["language_models"]["families"].items()
    ]


def _area(curve: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """float64 (T,): area under the curve of held-out success (sampled) over the iterations, by task."""
    at = np.array([point["iteration"] for point in curve], np.float64)
    success = np.array([point["held_out"]["sampled"] for point in curve], np.float64)
    area: NDArray[np.float64] = np.diff(at) @ (success[1:] + success[:-1]) / 2.0 / (at[-1] - at[0])
    return area


def _of_studies(all_studies: Sequence[Study], schemes: Sequence[str]) -> Iterator[Verdict]:
    groups: dict[tuple[Any, ...], list[Study]] = {}
    for study in all_studies:
        groups.setdefault((study.regime, study.keys, study.batch, study.size, study.condition), []).append(study)
    for (regime, keys, batch, size, condition), studies in groups.items():
        endpoint = next(iter(studies[0].endpoints))
        found = [study.results(endpoint) for study in studies]
        methods = [name for name in found[0] if all(name in results for results in found)]
        if not methods:
            continue
        seeds = sorted({next(iter(results.values())).shape[0] for results in found})
        verdict = _verdict(
            (
                regime,
                ", ".join(dict.fromkeys(study.kind for study in studies)),
                keys,
                f"{batch} tasks × {size} rollouts" + (f", {condition}" if condition else ""),
                " or ".join(map(str, seeds)) + " seeds",
            ),
            [n for n in schemes if n in methods],
            methods,
            study_measure(studies, endpoint),
        )
        if verdict:
            yield verdict


def _verdict(
    where: tuple[str, str, str, str, str], schemes: Sequence[str], methods: Sequence[str], measure: Measure
) -> Verdict | None:
    if len(schemes) < 2:
        return None
    leader, leads = leader_of(schemes, measure), against(baseline(schemes), schemes, measure)
    ahead = [name for name, lead in leads.items() if lead.separates and lead.difference.mean > 0.0]
    return Verdict(
        *where,
        leader,
        leads.get(leader.name),
        Estimate.of(measure(EXACT, leader.name)) if EXACT in methods else None,
        {name: leads[name] for name in sorted(ahead, key=lambda name: -leads[name].difference.mean)},
    )


def _stable(verdict: Verdict, suite: Mapping[str, Any]) -> Verdict:
    """The verdict without leads whose sign depends on a factor of the suite's design."""
    leader, unstable = verdict.leader, unstable_rivals(suite, verdict.leader.name)
    if not unstable:
        return verdict
    tied = tuple(dict.fromkeys([*leader.tied, *(name for name in suite["schemes"] if name in unstable)]))
    return verdict._replace(leader=replace(leader, tied=tied), unstable=unstable)


def regime_table(*documents: Mapping[str, Any]) -> Table | None:
    """The verdicts on these runs as a table; None if no regime was run with at least two schemes."""
    found = [verdict for document in documents for verdict in verdicts(document)]
    if not found:
        return None
    rows = [
        ["regime", "tasks", "keys", "batch", "samples", "best scheme", "lead over the baseline [95 % CI]", "p",
         "not separated from the best", "exact advantage minus best"]
    ]  # fmt: skip
    for v in found:
        lead, p = ("–", "–") if v.lead is None else (_points(Estimate.of(v.lead.difference)), _lead_text(v.lead))
        rows.append(
            [v.regime, v.tasks, v.keys, v.batch, v.samples, v.leader.name, lead, p, _tied_text(v),
             "–" if v.headroom is None else _points(v.headroom)]
        )  # fmt: skip
    return Table(
        "Which scheme when",
        "Learning in percentage points: area under the learning curve, or the first endpoint of a study. With a table per task, variants of "
        "schemes are left out; the baseline is grpo. p is adjusted by Holm over the schemes. Not separated from the best: p of .05 or more, "
        "adjusted over all pairs of schemes; a true difference of the detectable size would have been found with probability .8.",
        rows,
        len(rows) - 1,
    )


def _points(estimate: Estimate) -> str:
    return estimate.times(100).text(1, "+")


def _lead_text(lead: Contrast) -> str:
    p = p_text(lead.p_adjusted)
    return p if lead.separates or math.isnan(lead.detectable) else f"{p} (detectable: {100 * lead.detectable:.1f})"


def _tied_text(verdict: Verdict) -> str:
    leader = verdict.leader
    detectable = "" if math.isnan(leader.detectable) else f" (detectable: {100 * leader.detectable:.1f})"
    unstable = "; ".join(f"{name}: the sign depends on {' and '.join(of)}" for name, of in verdict.unstable.items())
    text = ", ".join(leader.tied) + detectable if leader.tied else "–"
    return f"{text}; {unstable}" if unstable else text

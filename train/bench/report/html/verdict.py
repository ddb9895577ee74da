"""What a run shows, in a sentence that needs no other page, and the comparisons behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from creditflow.train.bench.report.html.chart import Chart, chart_of
from creditflow.train.bench.report.regimes import Verdict, verdicts
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate

__all__ = ["Headline", "headline"]

MAX_NAMES = 3  # of schemes in a sentence


class Headline(NamedTuple):
    """The opening of the report.

    Attributes:
        sentence: the verdict.
        trust: whether the results can be used, and why.
        sound: whether every sanity check passed.
        chart: the lead of the best scheme of every comparison.
    """

    sentence: str
    trust: str
    sound: bool
    chart: Chart | None


def headline(document: Mapping[str, Any]) -> Headline:
    """The opening of the report on these results."""
    checks = sanity_checks(document)
    failed = sum(not check.passed for check in checks)
    if failed:
        return Headline(
            "Do not use these results.",
            f"{failed} of {len(checks)} sanity checks FAILED: something in the benchmark, or in a scheme, does not work.",
            False,
            None,
        )
    trust = f"The benchmark works as it should: all {len(checks)} sanity checks passed." if checks else ""
    found = verdicts(document)
    rows = [row for verdict in found if (row := _row(verdict)) is not None]
    return Headline(
        _sentence(found),
        trust,
        True,
        chart_of(
            rows,
            "lead of the best scheme over the baseline: mean success while learning, in percentage points; these results also chose the best, "
            "so its lead is rather over- than underestimated",
        ),
    )


def _sentence(found: list[Verdict]) -> str:
    if not found:
        return "Nothing is compared: no learning curves of two schemes or more were run."
    clear = Counter(v.leader.name for v in found if v.lead is not None and v.lead.separates and not v.leader.tied)
    shared = Counter(v.leader.name for v in found if v.lead is not None and v.lead.separates and v.leader.tied)
    others = [v for v in found if not (v.lead is not None and v.lead.separates) and v.faster]
    none = len(found) - clear.total() - shared.total() - len(others)
    total = f"{len(found)} comparison" + ("s" if len(found) > 1 else "")
    parts = []
    if clear:
        parts.append(f"{_counts(clear, total)} by a margin that chance does not explain")
    if shared:
        who = (
            "it leads"
            if clear and set(shared) == set(clear) and len(shared) == 1
            else f"{_names(shared)} {'leads' if len(shared) == 1 else 'lead'}"
        )
        where = (
            f"in {shared.total()} more"
            if clear
            else f"in {shared.total()} of {total}"
            if len(found) > 1
            else "in the one comparison"
        )
        parts.append(f"{who} {where}, but others may be as good")
    if others:
        faster = Counter(name for v in others for name in v.faster)
        where = f"in {len(others)} of {total}" if len(found) > 1 else "in the one comparison"
        parts.append(
            f"{where} the lead of the best mean over the baseline may be chance, "
            f"while {_names(faster)} {'learns' if len(faster) == 1 else 'learn'} clearly faster than it"
        )
    if none:
        parts.append(
            f"in {none} of {total} no scheme learns clearly faster than the baseline"
            if len(found) > 1
            else "No scheme learns clearly faster than the baseline"
        )
    text = "; ".join(parts) + "."
    return f"I{text[1:]}" if text.startswith("in ") else text  # what else stands first is the name of a scheme


def _counts(leaders: Counter[str], total: str) -> str:
    texts = [
        f"{name} learns fastest in {count}" if i == 0 else f"{name} in {count}"
        for i, (name, count) in enumerate(leaders.most_common(MAX_NAMES))
    ]
    texts[0] += f" of {total}"
    more = len(leaders) - MAX_NAMES
    return ", ".join(texts) + (f", {more} others in one or more" if more > 0 else "")


def _names(leaders: Counter[str]) -> str:
    names = [name for name, _ in leaders.most_common(MAX_NAMES)]
    more = len(leaders) - MAX_NAMES
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) + (
        f" and {more} more" if more > 0 else ""
    )


def _row(verdict: Verdict) -> tuple[str, str, str, str, Estimate] | None:
    if verdict.lead is None:
        return None
    points = Estimate.of(verdict.lead.difference).times(100)
    tied = verdict.leader.tied
    notes = [f"{verdict.regime}, {verdict.tasks}, {verdict.keys} keys, {verdict.batch}, {verdict.samples}"]
    if tied:
        shown = ", ".join(tied[:MAX_NAMES]) + (f" and {len(tied) - MAX_NAMES} more" if len(tied) > MAX_NAMES else "")
        notes.append(f"as good, as far as this run can tell: {shown}")
    if verdict.headroom is not None:
        notes.append(f"the exact advantage is {verdict.headroom.times(100).text(1, '+')} points ahead of it")
    kind = "best" if verdict.lead.separates and not tied else "scheme"
    return verdict.leader.name, "; ".join(notes), points.text(1, "+"), kind, points

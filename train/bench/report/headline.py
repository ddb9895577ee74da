"""What a run shows, in a sentence that needs no other page, and the chart behind it.

``standing`` decides how certain a lead is, from the interval that the chart draws: the sentence counts standings, and every
row of the chart states its own, so that they cannot contradict each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from creditflow.train.bench.report.chart import Chart, Interval, chart_of
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.verdicts import Verdict, standing, verdicts
from creditflow.train.statistics import Contrast

__all__ = ["Headline", "headline"]

MAX_NAMES: Final = 3  # of schemes in a sentence
SMALL: Final = 5  # tasks or seeds below which a run is called small
TITLES: Final[Mapping[str, str]] = {
    "table per task": "One table per task",
    "shared policy": "One policy for many tasks",
    "language model": "Language models",
}


class Headline(NamedTuple):
    """The opening of the report.

    Attributes:
        sentence: the verdict.
        trust: whether the results can be used, and why.
        sound: whether every sanity check passed.
        chart: the lead of the best scheme in every setting.
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
    of_run = verdicts(document)
    rows = [row for verdict in of_run for row in _rows(verdict)]
    unit = (
        "mean success during training compared with the baseline, in percentage points. The best scheme was selected on these same "
        "results, so its lead is probably an overestimate. Intervals are adjusted for the number of schemes compared"
    )
    return Headline(_sentence(of_run), trust, True, chart_of(rows, unit))


def _sentence(of_run: Sequence[Verdict]) -> str:
    """Who learned fastest, in how many settings, and how certain that is."""
    if not of_run:
        return "Nothing is compared: no learning curves of two schemes or more were run."
    ahead = [verdict for verdict in of_run if standing(verdict) != "baseline"]
    if not ahead:
        return "No scheme learned faster than the baseline" + (" in any setting." if len(of_run) > 1 else ".")
    best, count = max(
        Counter(v.leader.name for v in ahead).items(), key=lambda item: (item[1], _mean_lead(ahead, item[0]))
    )
    led = [verdict for verdict in ahead if verdict.leader.name == best]
    if len(of_run) == 1:
        return f"{best} learned fastest{_points(led[0].lead)}. {_caveat(led[0])}"
    kinds = Counter[str](standing(verdict) for verdict in led)
    clauses = [
        text.format(_settings(kinds[kind], count))
        for kind, text in (
            ("clear", "its lead is statistically clear in {}"),
            ("shared", "others may be as good in {}"),
            ("unclear", "the difference from the baseline may be chance in {}"),
        )
        if kinds[kind]
    ]
    text = f"{best} learned fastest in {_settings(count, len(of_run))}: {_listed(clauses)}."
    return f"{text}{_elsewhere(ahead, best)}{_small(of_run)}"


def _caveat(verdict: Verdict) -> str:
    """How certain the lead of the one setting is."""
    kind = standing(verdict)
    if kind == "clear":
        return "The difference is statistically clear."
    if kind == "shared":
        return f"The difference from the baseline is statistically clear, but {_names(verdict.leader.tied)} may be as good."
    leaders = f" {_names(list(verdict.faster))} learned clearly faster than the baseline." if verdict.faster else ""
    return f"The difference from the baseline may be chance.{leaders}{_small([verdict])}"


def _elsewhere(ahead: Sequence[Verdict], best: str) -> str:
    """The leaders of other settings whose lead over the baseline is clear."""
    rivals = [verdict for verdict in ahead if verdict.leader.name != best and standing(verdict) in ("clear", "shared")]
    if not rivals:
        return ""
    leaders = Counter(verdict.leader.name for verdict in rivals).most_common(MAX_NAMES)
    return " " + _listed([f"{name} had the best clear lead in {_settings(count)}" for name, count in leaders]) + "."


def _small(of_run: Sequence[Verdict]) -> str:
    """The advice for a run of few samples in which something is unclear."""
    samples = [int(number) for verdict in of_run for number in re.findall(r"\d+(?= (?:tasks|seeds))", verdict.samples)]
    unclear = any(standing(verdict) == "unclear" for verdict in of_run)
    if not (unclear and samples and min(samples) < SMALL):
        return ""
    return " This run is small: a larger --preset may tell."


def _mean_lead(of_run: Sequence[Verdict], name: str) -> float:
    return max(v.lead.difference.mean for v in of_run if v.leader.name == name and v.lead is not None)


def _points(lead: Contrast | None) -> str:
    return "" if lead is None else f", by {100 * lead.difference.mean:.1f} percentage points over the baseline"


def _settings(count: int, of: int = 0) -> str:
    if of and count == of:
        return {1: "that setting", 2: "both settings"}.get(of, f"all {of} settings")
    if of:
        return f"{count} of {of} settings"
    return f"{count} setting" + ("s" if count > 1 else "")


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    if more <= 0:
        return _listed(names)
    return ", ".join(names[:MAX_NAMES]) + f" and {more} other" + ("s" if more > 1 else "")


def _rows(verdict: Verdict) -> Iterator[Interval]:
    """The lead of the best scheme with its adjusted interval; below it, if that is unclear, the best clear one."""
    if verdict.lead is None:
        return
    kind, tied = standing(verdict), verdict.leader.tied
    title = f"{TITLES.get(verdict.regime, verdict.regime)}: {verdict.tasks}, {verdict.keys} state keys"
    notes = [f"{verdict.batch}, {verdict.samples}"]
    if kind == "unclear":
        notes.append("may be chance")
    if tied:
        notes.append(f"not distinguishable from {_names(tied)}")
    mark = None
    if verdict.headroom is not None:
        relative = verdict.headroom.times(100).text(1, "+").replace("-", "−")
        notes.append(f"upper bound (exact advantage): {relative} relative to {verdict.leader.name}")
        mark = 100 * (verdict.lead.difference.mean + verdict.headroom.mean)
    yield _interval(
        verdict.leader.name, verdict.lead, "best" if kind == "clear" else "scheme", title, "; ".join(notes), mark
    )
    if kind == "unclear":
        for name, contrast in list(verdict.faster.items())[:1]:
            yield _interval(name, contrast, "scheme", "", "the largest lead that is clear in this setting", None)


def _interval(name: str, lead: Contrast, kind: str, title: str, note: str, mark: float | None) -> Interval:
    points = Estimate(lead.difference.mean, *lead.interval).times(100)
    return Interval(name, note, points.text(1, "+").replace("-", "−"), kind, points, title, mark)

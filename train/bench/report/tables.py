"""The tables of a document, for the command line and the page; each is a query of the tidy table of results.

Over the whole run: which scheme is best when, and the sanity checks. For every suite: learning and one step. Those of
a suite have a row per method, the best scheme first and controls below, and a column per query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from creditflow.train.bench.annotation_sources import HELD_OUT
from creditflow.train.bench.report.sanity import sanity_checks
from creditflow.train.bench.report.tidy import Estimate, Results, baseline, results_of
from creditflow.train.bench.report.verdicts import Verdict, against, p_text, verdicts
from creditflow.train.statistics import Contrast

__all__ = ["Table", "check_table", "number_text", "regime_table", "suite_description", "suite_tables"]

Suite = Mapping[str, Any]
Column = tuple[str, Callable[[str], str]]  # heading, and the cell of a method


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: heading.
        note: how to read the table.
        rows: header, then the rows.
        controls: index of the first row that is a control, not counting the header; None for a table without methods.
    """

    title: str
    note: str
    rows: list[list[str]]
    controls: int | None = None


def suite_tables(suite: Suite) -> list[Table]:
    """The tables of a suite."""
    results = results_of(suite)
    if "studies" in suite:  # learning with one property varied is a row of "Which scheme when"
        first = results.settings[0].update
        results = results.where(lambda setting: setting.update == first)
    tables = [
        _learning_table(suite, results.where(lambda setting: "area" in setting.values)),
        _step_table(suite, results),
    ]
    return [table for table in tables if table is not None]


def number_text(x: float, digits: int = 2) -> str:
    """A number with ``digits`` decimal places; a dash if it is unknown."""
    return f"{x:.{digits}f}" if math.isfinite(x) else "–"


def _short(estimate: Estimate, digits: int = 2) -> str:
    """A mean with half the width of its interval, if it has one; a dash if it is unknown."""
    return number_text(estimate.mean, digits) if math.isnan(estimate.low) else estimate.short(digits)


def _methods_table(
    title: str, note: str, suite: Suite, results: Results, endpoint: str, columns: Iterable[Column]
) -> Table:
    """A row per method: the schemes by the mean of an endpoint, then the controls."""
    schemes, controls = _schemes_and_controls(suite, results, endpoint)
    heads, cells = zip(*columns, strict=True)
    rows = [["method", *heads], *([name, *(cell(name) for cell in cells)] for name in (*schemes, *controls))]
    return Table(title, note, rows, len(schemes))


def _schemes_and_controls(suite: Suite, results: Results, endpoint: str) -> tuple[list[str], list[str]]:
    names = results.methods(endpoint)
    schemes = [name for name in suite["schemes"] if name in names]
    schemes.sort(key=lambda name: (-results.mean(endpoint, name).mean, name))
    return schemes, [name for name in suite["controls"] if name in names]


def _value(results: Results, endpoint: str, digits: int = 2) -> Callable[[str], str]:
    return lambda name: _short(results.estimate(endpoint, name), digits)


def _lead(results: Results, endpoint: str, base: str) -> Callable[[str], str]:
    """Differences from the baseline, with intervals."""
    return lambda name: "–" if name == base else results.estimate(endpoint, name, base).text(sign="+")


def _learning_table(suite: Suite, results: Results) -> Table | None:
    if not len(results):
        return None
    schemes, controls = _schemes_and_controls(suite, results, "area")
    base = baseline([*schemes, *controls])
    family = against(base, schemes, results.measure("area"))

    def last(name: str) -> str:
        ends = [setting.curves[name][-1] for setting in results.settings if name in setting.curves]
        return number_text(math.fsum(ends) / len(ends), 3) if ends else "–"

    columns: list[Column] = [
        (f"mean success minus {base} [95 % CI]", _lead(results, "area", base)),
        ("p", lambda name: p_text(family[name].p_adjusted) if name in family else "–"),
        ("detectable", lambda name: number_text(family[name].detectable, 3) if name in family else "–"),
        ("mean success", _value(results, "area", 3)),
        ("final success", last),
    ]
    if results.methods("held_out_area"):
        columns += [
            (f"held-out mean success minus {base} [95 % CI]", _lead(results, "held_out_area", base)),
            ("held-out final", _value(results, "held_out_final", 3)),
        ]
    columns += [(label, _value(of_kind, "area", 3)) for label, of_kind in _kinds(results).items()]
    samples = {"seeds": "over layout seeds, each with its own tasks", "both": "over tasks and seeds"}[results.samples]
    exact = "" if results.samples == "both" else "Exact success. "
    note = (
        f"{exact}Mean success during training is the area under the learning curve: with a shared policy "
        "over its updates, through an environment that of the sampled rollouts on the training tasks. On the "
        f"right: by kind of task. Intervals, and ± half of them: 95 %, {samples}; final success is without an interval. p is adjusted "
        f"by Holm over {len(family)} schemes; detectable is the true difference that such a test finds with probability .8."
    )
    return _methods_table("Learning", note, suite, results, "area", columns)


def _kinds(results: Results) -> dict[str, Results]:
    """The results by kind of task; nothing where there is only one kind."""
    kinds = results.by("label")
    return kinds if len(kinds) > 1 else {}


def _step_table(suite: Suite, results: Results) -> Table | None:
    schemes, controls = _schemes_and_controls(suite, results, "gain")
    if not schemes:
        return None
    base = baseline([*schemes, *controls])
    columns: list[Column] = [
        ("gain, KL 0.01 [95 % CI]", lambda name: results.estimate("gain", name).text()),
        (f"minus {base}", _lead(results, "gain", base)),
        ("gain, KL 0.001", _value(results, "gain_small")),
        ("cosine, mean", _value(results, "cos_mean")),
        ("cosine, one batch", _value(results, "cos_batch")),
        ("bias²", _value(results, "bias2")),
        ("variance", _value(results, "variance")),
    ]
    if results.methods("held_out_gain"):
        columns.insert(3, ("held-out gain, KL 0.01", _value(results, "held_out_gain")))
    columns += [(label, _value(of_kind, "gain")) for label, of_kind in _kinds(results).items()]
    note = (
        "Gain: exact success gained by one step of a given KL divergence along the gradient of one batch, relative to what the exact "
        "gradient gains: 1 is as good, 0 is no change, below 0 the policy gets worse. Cosine, squared bias and variance: of that "
        "gradient against the exact one; the variance is a median, without an interval. On the right: gain at KL 0.01 by kind of "
        "task. Intervals, and ± half of them: 95 %."
    )
    if any("[fitted]" in name for name in schemes):
        note += f" X[fitted] has seen {HELD_OUT} additional groups for each measured one, the other methods have not."
    return _methods_table("One step: gain, direction, bias and variance", note, suite, results, "gain", columns)


def _points(estimate: Estimate) -> str:
    return estimate.times(100).text(1, "+")


# -- over the whole run -------------------------------------------------------------------------------------------------
def regime_table(document: Mapping[str, Any]) -> Table | None:
    """The verdicts on a run as a table; None if no setting was run with at least two schemes."""
    rows = [
        [
            "regime",
            "tasks",
            "keys",
            "batch",
            "samples",
            "best scheme",
            "lead over the baseline [95 % CI]",
            "p",
            "not separated from the best",
            "exact advantage minus best",
        ]
    ]
    for verdict in verdicts(document):
        lead, p = "–", "–"
        if verdict.lead is not None:
            lead = _points(Estimate(verdict.lead.difference.mean, *verdict.lead.interval))
            p = _lead_text(verdict.lead)
        rows.append(
            [
                verdict.regime,
                verdict.tasks,
                verdict.keys,
                verdict.batch,
                verdict.samples,
                verdict.leader.name,
                lead,
                p,
                _tied_text(verdict),
                "–" if verdict.headroom is None else _points(verdict.headroom),
            ]
        )
    if len(rows) == 1:
        return None
    return Table(
        "Which scheme when",
        "Leads are differences in mean success during training, in percentage points. The baseline is grpo. p and the intervals of leads are adjusted by Holm over the schemes. A scheme is not "
        "separated from the best if p, adjusted over all pairs, is at least .05. A true difference of the detectable size is found "
        "with probability .8. The best scheme was selected on these same results, so its lead is probably an overestimate.",
        rows,
    )


def _lead_text(lead: Contrast) -> str:
    p = p_text(lead.p_adjusted)
    return p if lead.separates or math.isnan(lead.detectable) else f"{p} (detectable: {100 * lead.detectable:.1f})"


def _tied_text(verdict: Verdict) -> str:
    leader = verdict.leader
    detectable = "" if math.isnan(leader.detectable) else f" (detectable: {100 * leader.detectable:.1f})"
    return ", ".join(leader.tied) + detectable if leader.tied else "–"


def check_table(document: Mapping[str, Any]) -> Table:
    """The sanity checks."""
    rows = [[c.suite, "passed" if c.passed else "FAILED", c.check, c.observed] for c in sanity_checks(document)]
    return Table(
        "Sanity checks",
        "Statements that hold whenever the benchmark works. If one fails, the command fails and the results must not be used. "
        "Observed are the numbers that a check compares, without intervals.",
        [["suite", "result", "check", "observed"], *rows],
    )


# -- what was run -------------------------------------------------------------------------------------------------------
def suite_description(suite: Suite) -> str:
    """Describe a suite in a few sentences."""
    log = suite["log"]
    recorded = "No log was recorded."
    if log:
        expert = "" if suite["expert"] is None else f"; the expert solves {suite['expert']:.0%} of the tasks"
        recorded = (
            f"The recorded log has {log['trajectories']} rollouts with {log['turns']} turns, {log['success']:.0%} of the "
            f"rollouts successful{expert}."
        )
    if "rows" in suite:
        return (
            f"{suite['tasks']} tasks of at most {suite['horizon']} turns, played through the environment, "
            f"so exact values are not defined here. {recorded}"
        )
    tasks, updates = suite["tasks"], suite["updates"]
    average = (updates.get("aggregation") or "scheme's own average").replace("_", " ")
    return (
        f"One policy over features of the state is shared by {tasks['train']} training tasks and {tasks['held_out']} held-out tasks "
        f"of one kind, under {tasks['seeds']} layout seeds with different tasks. Kinds: {', '.join(suite['kinds'])}. "
        f"{len(suite['studies'])} settings. "
        f"{updates['count']} updates of {updates['kl']:g} nats per turn with the trainer's loss ({average}), measured every "
        f"{updates['every']}. Values are exact."
    )

"""The tables of a suite that is played through its environment, as text and as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.contrasts import played_measure
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.contrasts import contrast_table
from creditflow.train.bench.report.tables.table import AREA_TITLE, Table, ordered
from creditflow.train.rollout.score_table import latex_cells

__all__ = ["by_type_cells", "latex_tables", "played_tables"]

Suite = Mapping[str, Any]


def played_tables(suite: Suite) -> list[Table]:
    """Learning of every method, and the contrasts of the schemes."""
    schemes = [n for n in suite["schemes"] if n in suite["rows"]]
    contrasts = contrast_table(schemes, {"area": played_measure(suite["rows"])})
    return [_played_table(suite), *([contrasts] if len(schemes) > 1 else []), *_by_type_tables(suite)]


def by_type_cells(suite: Suite, measure: str) -> list[list[str]]:
    """Return the table of one measure: a row for every method in the order of the other tables, a column for every task type.

    Args:
        suite: results of a played suite.
        measure: "Success", "Score", "EM" or "F1".
    """
    found = suite["by_type"]
    schemes = ordered([n for n in suite["schemes"] if n in found], lambda name: suite["rows"][name]["area"][0])
    methods = [*schemes, *(n for n in suite["controls"] if n in found)]
    head = ["method", *(f"{row['name']} ({row['tasks']})" for row in found[methods[0]])]
    return [head, *([name, *(_percent(row["estimates"][measure]) for row in found[name])] for name in methods)]


def latex_tables(suite: Suite) -> str:
    """Return the tables of scores by task type as ``tabular`` of the package booktabs, one for each measure; "" without any."""
    note = r"percent after training, with 95 % intervals over tasks and seeds; needs \usepackage{booktabs}"
    return "\n\n".join(
        latex_cells(by_type_cells(suite, measure), [f"{suite['name']}, {measure}", note])
        for measure in _measures(suite)
    )


def _measures(suite: Suite) -> list[str]:
    """The measures that say something of their own: success not beside exact match, the score not beside an equal one."""
    every = [row["estimates"] for rows in suite.get("by_type", {}).values() for row in rows]
    names = list(every[0]) if every else []
    equal = {name for name in names if all(one[name] == one["Success"] for one in every)}
    shown = "EM" if "EM" in equal else "Success"
    return [name for name in names if name not in equal or name == shown]


def _by_type_tables(suite: Suite) -> list[Table]:
    schemes = [n for n in suite["schemes"] if n in suite.get("by_type", {})]
    return [
        Table(
            f"{measure} after training, by task type",
            "Per cent, of the rollouts after the last update, on the training tasks; in brackets 95 % intervals over tasks and seeds, in the "
            "head numbers of tasks.",
            by_type_cells(suite, measure),
            len(schemes),
            question=f"What do the policies reach by task type ({measure})?",
        )
        for measure in _measures(suite)
    ]


def _percent(found: Mapping[str, float | None]) -> str:
    mean, low, high = found["mean"] or 0.0, found["low"], found["high"]
    return f"{100 * mean:.1f}" + ("" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]")


def _played_table(suite: Suite) -> Table:
    by_method, coverage = suite["rows"], suite["coverage"]
    schemes = ordered([n for n in suite["schemes"] if n in by_method], lambda name: by_method[name]["area"][0])
    controls = [n for n in suite["controls"] if n in by_method]
    against = baseline([*schemes, *controls])
    rows = [
        ["method", f"mean success minus {against} [95 % CI]", "mean success [95 % CI]", "success, first → last", "coverage",
         "turn-level", "dead groups", "ms per 1000 turns"]
    ]  # fmt: skip
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        row, of_log = by_method[name], coverage[name]
        lead = Estimate(*row["gain"])
        rows.append(
            [name, "–" if name == against else lead.text(sign="+"), str(Estimate(*row["area"])),
             f"{row['first']:.2f} → {Estimate(*row['last']).short()}", f"{of_log['coverage']:.0%}", f"{of_log['turn_level']:.0%}",
             f"{of_log['dead_groups']:.0%}", f"{suite['cost'][name]:.1f}" if name in suite["cost"] else "–"]
        )  # fmt: skip
        bars.append(None if name == against else lead)
    return Table(
        AREA_TITLE,
        "Mean success rate of the sampled rollouts over all updates, on the training tasks (a table cannot generalise, so "
        "nothing is held out). Intervals, and ± half of them: 95 %, over tasks and seeds; the success rate before the first update has the "
        "same rollouts for all methods, and is without an interval. Coverage, turn-level and dead groups: fractions of the recorded log. Turn-level: turns whose credit differs from the "
        f"mean of their rollout. M1 to M5 are not defined here: {suite['why']}."
        + (
            ""
            if suite["oracle"]
            else " oracle_progress uses a proxy, as the distances of this environment are not exact."
        ),
        rows,
        len(schemes),
        tuple(bars),
        "Which scheme learns fastest?",
        f"mean success during training, minus {against} (0.01 is one percentage point)",
    )

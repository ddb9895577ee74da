"""The tables of a suite that is played through its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.train.bench.report.contrasts import played_measure
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import baseline
from creditflow.train.bench.report.tables.contrasts import contrast_table
from creditflow.train.bench.report.tables.table import Table, ordered

__all__ = ["played_tables"]

Suite = Mapping[str, Any]


def played_tables(suite: Suite) -> list[Table]:
    """Learning of every method, and the contrasts of the schemes."""
    schemes = [n for n in suite["schemes"] if n in suite["rows"]]
    contrasts = contrast_table(schemes, {"area": played_measure(suite["rows"])})
    return [_played_table(suite), *([contrasts] if len(schemes) > 1 else [])]


def _played_table(suite: Suite) -> Table:
    by_method, coverage = suite["rows"], suite["coverage"]
    schemes = ordered([n for n in suite["schemes"] if n in by_method], lambda name: by_method[name]["area"][0])
    controls = [n for n in suite["controls"] if n in by_method]
    against = baseline([*schemes, *controls])
    rows = [
        ["method", f"area minus {against} [95 % CI]", "area [95 % CI]", "success, first → last", "coverage",
         "turn-level", "dead groups", "ms per 1000 turns"]
    ]  # fmt: skip
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        row, of_log = by_method[name], coverage[name]
        lead = Estimate(*row["gain"])
        rows.append(
            [name, "–" if name == against else lead.text(sign="+"), str(Estimate(*row["area"])),
             f"{row['first']:.2f} → {row['last'][0]:.2f}", f"{of_log['coverage']:.0%}", f"{of_log['turn_level']:.0%}",
             f"{of_log['dead_groups']:.0%}", f"{suite['cost'][name]:.1f}" if name in suite["cost"] else "–"]
        )  # fmt: skip
        bars.append(None if name == against else lead)
    return Table(
        "Learning (area under the learning curve)",
        "Mean success rate of the sampled rollouts over all updates, on the training tasks (a table cannot generalise, so "
        "nothing is held out). Intervals: 95 %, over tasks and seeds. Turn-level: turns whose credit differs from the "
        f"mean of their rollout. M1 to M5 are not defined here: {suite['why']}."
        + (
            ""
            if suite["oracle"]
            else " oracle_progress uses a proxy, as the distances of this environment are not exact."
        ),
        rows,
        len(schemes),
        tuple(bars),
    )

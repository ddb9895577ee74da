"""A document as tables: what the command prints and the page shows, best scheme first, controls below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from creditflow.train.bench.feeds import HELD_OUT
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.summary import Summary, baseline

__all__ = ["Table", "suite_tables", "text_table", "undefined_table"]

Suite = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: what it shows.
        note: how to read it.
        rows: the header, then the rows.
        controls: number of the first row that is a control, header not counted.
        bars: of the column that is worth drawing, per row.
    """

    title: str
    note: str
    rows: list[list[str]]
    controls: int
    bars: tuple[Estimate | None, ...] = ()


def suite_tables(suite: Suite) -> list[Table]:
    """All tables of a suite."""
    return _exact_tables(suite) if "cells" in suite else [_played_table(suite)]


def _ordered(names: Sequence[str], score: Callable[[str], float]) -> list[str]:
    return sorted(names, key=lambda name: (-score(name), name))


def _exact_tables(suite: Suite) -> list[Table]:
    found = Summary(suite["cells"])
    schemes = [n for n in suite["schemes"] if n in found.columns]
    controls = [n for n in suite["controls"] if n in found.columns]
    tables = [_gain_table(found, schemes, controls), _metric_table(found, schemes, controls)]
    if found.learned:
        schemes, controls = ([n for n in names if n in found.learned] for names in (schemes, controls))
        tables += [_area_table(found, schemes, controls, suite.get("cost", {})), _correlation_table(suite)]
    return tables


def _gain_table(found: Summary, schemes: Sequence[str], controls: Sequence[str]) -> Table:
    against = baseline([*schemes, *controls])
    sizes = sorted({cell["size"] for cell in found.cells})
    kinds = list(dict.fromkeys(cell["kind"] for cell in found.cells))
    parts = [Summary([c for c in found.cells if c["size"] == g]) for g in sizes] if len(sizes) > 1 else []
    parts += [Summary([c for c in found.cells if c["kind"] == k]) for k in kinds]
    heads = [f"G {g}" for g in sizes if len(sizes) > 1] + [_kind(kind) for kind in kinds]
    rows = [["scheme", "M2 at KL .01 [95 %]", "M2 at KL .001 [95 %]", f"over {against}", *heads]]
    schemes = _ordered(schemes, lambda name: found.gain(name).mean)
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        large, small = found.gain(name), found.gain(name, "gain_small")
        over = "–" if name == against else found.gain(name, over=against).text(sign="+")
        means = [f"{part.mean(name, 'gain'):.2f}" for part in parts]
        rows.append([name, str(large), str(small), over, *means])
        bars.append(None if name.startswith("flipped(") else large)
    small_natural, natural = found.over_cells("natural_gain_small"), found.over_cells("natural_gain")
    rows.append(
        ["natural gradient", f"{natural:.3f}", _number(small_natural, 3), "", *(f"{p.over_cells('natural_gain'):.2f}" for p in parts)]
    )  # fmt: skip
    fitted = any("[fitted]" in name for name in schemes)
    return Table(
        "Improvement (M2)",
        "Gain of exact success from one step of equal KL divergence, as a share of what the exact gradient gains. 1 is "
        "the exact gradient, 0 nothing learned, below 0 made worse. Intervals: tasks drawn anew."
        + (f" X[fitted] has seen {HELD_OUT} more groups for each of these, the others have not." if fitted else ""),
        rows,
        len(schemes),
        (*bars, None),
    )


def _metric_table(found: Summary, schemes: Sequence[str], controls: Sequence[str]) -> Table:
    rows = [
        ["scheme", "M1 cos(E g)", "M1 one batch", "M3 bias²", "M3 variance", "M4 on Q^π", "M4 on Q*",
         "M5 failed (raw)", "M5 successful (raw)", "coverage", "dead groups"]
    ]  # fmt: skip
    schemes = _ordered(schemes, lambda name: found.mean(name, "cos_batch"))
    for name in (*schemes, *controls):

        def of(metric: str, name: str = name) -> str:
            if not all(metric in cell["offline"][name] for cell in found.cells):
                return "–"
            return _number(found.mean(name, metric))

        rows.append(
            [name, of("cos_mean"), of("cos_batch"), of("bias2"), of("variance"), of("agree"), of("agree_efficiency"),
             f"{of('failed')} ({of('failed_raw')})", f"{of('succeeded')} ({of('succeeded_raw')})",
             of("coverage"), of("dead_groups")]
        )  # fmt: skip
    bases = [_number(found.over_cells(name)) for name in ("base_failed", "base_succeeded")]
    return Table(
        "Direction, bias and variance, order, hidden value (M1, M3, M4, M5)",
        f"Means over cells (variance: median). Base rates of M5: {bases[0]} of the decided turns of failed rollouts are "
        f"good, {bases[1]} of those of successful ones; .5 in M4 and M5 is chance.",
        rows,
        len(schemes),
    )


def _area_table(found: Summary, schemes: Sequence[str], controls: Sequence[str], cost: Mapping[str, float]) -> Table:
    against = baseline([*schemes, *controls])
    kinds = list(dict.fromkeys(cell["kind"] for cell in found.cells))
    parts = [Summary([c for c in found.cells if c["kind"] == k]) for k in kinds]
    rows = [["scheme", f"area over {against} [95 %]", "area [95 %]", "final", *map(_kind, kinds), "ms/1k turns"]]
    schemes = _ordered(schemes, lambda name: found.area(name).mean)
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        lead = found.area(name, over=against)
        means = [
            "–" if name == against else f"{round(part.area(name, over=against).mean, 3) + 0.0:+.3f}" for part in parts
        ]
        rows.append(
            [name, "–" if name == against else lead.text(sign="+"), str(found.area(name)), f"{found.final(name):.2f}",
             *means, f"{cost[name]:.1f}" if name in cost else "–"]
        )  # fmt: skip
        bars.append(None if name == against or name.startswith("flipped(") else lead)
    return Table(
        "Learning (area under the curve)",
        f"Mean exact success over a budget of environment turns, groups without credit charged; by kind: lead over "
        f"{against}. One-step metrics cannot see what happens later: trust this table where they differ. The last "
        "column is the time of the credit itself.",
        rows,
        len(schemes),
        tuple(bars),
    )


def _correlation_table(suite: Suite) -> Table:
    words = {
        "gain_small": "M2 at KL .001", "gain": "M2 at KL .01", "cos_batch": "M1 one batch", "cos_mean": "M1 cos(E g)",
        "agree": "M4 on Q^π", "agree_efficiency": "M4 on Q*", "failed": "M5 failed", "succeeded": "M5 successful",
    }  # fmt: skip
    heads = {"plain": "all columns", "plain_schemes": "schemes alone", "alias": "all, aliased", "alias_schemes": "schemes, aliased"}  # fmt: skip
    sides = [s for s in heads if any(row[s] is not None for row in suite["correlations"].values())]
    rows = [["metric", *(heads[side] for side in sides)]]
    for metric, values in suite["correlations"].items():
        rows.append([words[metric], *(_number(values[side]) for side in sides)])
    return Table(
        "Which metric predicts learning",
        "Rank correlation over columns of each metric with the area under the learning curve, mean over cells; cells whose "
        "text keys merge states stand apart. A metric of fidelity earns its name here.",
        rows,
        len(rows) - 1,
    )


def _played_table(suite: Suite) -> Table:
    rows_of, seen = suite["rows"], suite["sight"]
    schemes = _ordered([n for n in suite["schemes"] if n in rows_of], lambda name: rows_of[name]["area"][0])
    controls = [n for n in suite["controls"] if n in rows_of]
    against = baseline([*schemes, *controls])
    rows = [
        ["scheme", f"area over {against} [95 %]", "area [95 %]", "success", "coverage", "told apart", "dead groups", "ms/1k turns"]
    ]  # fmt: skip
    bars: list[Estimate | None] = []
    for name in (*schemes, *controls):
        row, sight = rows_of[name], seen[name]
        lead = Estimate(*row["gain"])
        rows.append(
            [name, "–" if name == against else lead.text(sign="+"), str(Estimate(*row["area"])),
             f"{row['first']:.2f} → {row['last'][0]:.2f}", f"{sight['coverage']:.0%}", f"{sight['told_apart']:.0%}",
             f"{sight['dead_groups']:.0%}", f"{suite['cost'][name]:.1f}" if name in suite["cost"] else "–"]
        )  # fmt: skip
        bars.append(None if name == against else lead)
    return Table(
        "Learning (area under the curve)",
        f"Mean success of the sampled rollouts over all updates, on the learned tasks (a table cannot generalise: nothing "
        f"is held out). M1 to M5 are not defined here: {suite['why']}."
        + (
            "" if suite["oracle"] else " oracle_progress uses a proxy: the distances of this environment are not exact."
        ),
        rows,
        len(schemes),
        tuple(bars),
    )


def undefined_table(suite: Suite) -> list[tuple[str, str]]:
    """Names that are missing on the suite, and why."""
    return sorted(suite["undefined"].items(), key=lambda item: ("(" in item[0], item[0]))


def _kind(name: str) -> str:
    """A kind as a header: Sokoban's are named by the share of dead states."""
    return f"{name.removeprefix('sokoban-')} dead" if name.startswith("sokoban-") else name


def _number(x: float | None, digits: int = 2) -> str:
    return "–" if x is None or not math.isfinite(x) else f"{x:.{digits}f}"


def text_table(rows: Sequence[Sequence[str]], rule_before: int | None = None) -> str:
    """Rows as aligned columns; the first row is the header.

    Args:
        rows: header first.
        rule_before: number of a row, header not counted, that a line sets apart.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    line = "  ".join("-" * width for width in widths)
    body = lines[1:]
    if rule_before is not None and 0 < rule_before < len(body):
        body.insert(rule_before, line)
    return "\n".join([lines[0], line, *body])

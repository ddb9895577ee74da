"""Tables of a benchmark as plain text: the same numbers that results.json holds."""

from __future__ import annotations

from collections.abc import Sequence

from creditflow.train.bench.run import BASELINE, SuiteResult

__all__ = ["CAPTIONS", "suite_table", "text_table"]

CAPTIONS = {
    "scheme": "the credit scheme (paper semantics)",
    "success": "after the last update, on the learned tasks (a table cannot generalise: nothing is held out)",
    "area": "mean success over all iterations, 95 % bootstrap interval over tasks and seeds",
    f"vs {BASELINE}": f"area minus {BASELINE}'s, paired by task and seed",
    "step credit": "share of recorded turns with non-zero step credit",
    "dead groups": "share of recorded groups without any credit",
    "ms/1k turns": "milliseconds of credit for a thousand turns, arrays and graph included",
}


def suite_table(result: SuiteResult) -> list[list[str]]:
    """Header and rows of one suite."""
    rows = [list(CAPTIONS)]
    for row in result.rows:
        score = row.score
        rows.append(
            [
                score.scheme,
                f"{row.first:.2f} → {row.last.mean:.2f}",
                str(row.area),
                "baseline" if score.scheme == BASELINE else str(row.gain),
                f"{score.step_coverage:.0%}",
                f"{score.dead_groups:.0%}",
                f"{1000 * score.seconds_per_thousand_turns:.1f}",
            ]
        )
    return rows


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns; the first row is the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

"""Draw how well every signal of a replayed log agrees with its advantages, for the page on audits.

creditflow audit replayed.jsonl --json | python tests/helpers/replay_picture.py "TITLE" > assets/images/replay.svg
"""

from __future__ import annotations

import html
import json
import sys
from typing import Any

from creditflow.train.statistics import ClusteredMean

LEFT, WIDTH, ROW, TOP = 150, 640, 22, 60
INK, SOFT, BLUE = "#1f2328", "#8c959f", "#0969da"


def picture(signals: dict[str, Any], title: str) -> str:
    """A row per signal: Spearman's correlation as a dot, its 95 % interval over tasks as a line."""
    defined = {name: signal["rank"] for name, signal in signals.items() if None not in signal["rank"].values()}
    ranks = {name: ClusteredMean(**rank) for name, rank in defined.items()}
    order = sorted(ranks, key=lambda name: -ranks[name].mean)
    height = TOP + ROW * len(order) + 30

    def x(value: float) -> float:
        return LEFT + (min(max(value, -1.0), 1.0) + 1.0) / 2.0 * (WIDTH - LEFT - 20)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="22" font-size="15" font-weight="bold">{html.escape(title)}</text>',
        f'<text x="8" y="42" fill="{SOFT}">Spearman correlation with the replayed advantage, 95 % intervals over tasks</text>',
    ]
    parts += [
        f'<line x1="{x(tick):.0f}" x2="{x(tick):.0f}" y1="{TOP - 8}" y2="{height - 24}" stroke="{SOFT}" '
        f'stroke-width="{1.0 if tick == 0.0 else 0.3}"/>'
        f'<text x="{x(tick):.0f}" y="{height - 8}" text-anchor="middle" fill="{SOFT}">{tick:g}</text>'
        for tick in (-1.0, -0.5, 0.0, 0.5, 1.0)
    ]
    for row, name in enumerate(order):
        y, rank = TOP + ROW * row + 6, ranks[name]
        colour = BLUE if signals[name]["differs"] else SOFT
        low, high = rank.interval
        parts.append(
            f'<text x="8" y="{y + 4}">{html.escape(name)}</text>'
            f'<line x1="{x(low):.1f}" x2="{x(high):.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x(rank.mean):.1f}" cy="{y}" r="4" fill="{colour}"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(picture(json.load(sys.stdin)["replay"]["signals"], sys.argv[1]))

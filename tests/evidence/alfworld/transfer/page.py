"""The tables of the page on transfer, from the evidence.

    python tests/evidence/alfworld/transfer/page.py

Writes them between the markers of ``envs/alfworld/TRANSFER.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["PAGE", "block", "replaced"]

ROOT = Path(__file__).resolve().parents[4]
EVIDENCE = Path(__file__).with_name("results.json")
PAGE = ROOT / "envs" / "alfworld" / "TRANSFER.md"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
SPLITS = ("valid_seen", "valid_unseen")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _percent(found: Sequence[float], sign: str = "") -> str:
    """Return a rate in percent with its interval, which a t interval may leave; with a sign, a difference."""
    bounds = (-100.0, 100.0) if sign else (0.0, 100.0)
    mean, low, high = (min(max(100 * x, bounds[0]), bounds[1]) for x in found)
    return f"{mean:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def _number(found: Sequence[float], sign: str = "") -> str:
    mean, low, high = found
    return f"{mean:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def policies(evidence: Mapping[str, Any]) -> str:
    """Success and commands of the greedy policies."""
    rows = []
    for name, splits in evidence["policies"].items():
        policy, decoding = name.split("/")
        if decoding != "sampled" and "_odd" not in policy:
            cells = [write(splits[s][m]) for s in SPLITS for m, write in (("success", _percent), ("commands", _number))]
            rows.append([policy, *cells])
    return _table(["policy", *(f"{split}: {m}" for split in SPLITS for m in ("success, %", "commands"))], rows)


def differences(evidence: Mapping[str, Any]) -> str:
    """Planned differences of greedy policies."""
    rows = []
    for name, splits in evidence["differences"].items():
        pair, decoding = name.split("/")
        for split, found in splits.items():
            if decoding == "greedy" and (("_odd" in pair) == (split == "even_scenes")):
                cells = [
                    write(found[m][over], "+")
                    for m, write in (("success", _percent), ("commands", _number))
                    for over in ("over_games", "over_scenes")
                ]
                inside = [m for m in evidence["margins"] if found[m]["within_margin"]]
                rows.append([pair, split, *cells, ", ".join(inside) or "none"])
    return _table(
        [
            "difference",
            "played on",
            "success, points; over games",
            "over scenes",
            "commands; over games",
            "over scenes",
            "within the margin",
        ],
        rows,
    )


def types(evidence: Mapping[str, Any]) -> str:
    """Success and commands by task type."""
    shown = [name for name in next(iter(evidence["by_type"].values())) if name != "games"]
    rows = [
        [
            kind,
            str(found["games"]),
            *(f"{100 * found[name]['success']:.1f}%, {found[name]['commands']:.2f}" for name in shown),
        ]
        for kind, found in evidence["by_type"].items()
    ]
    return _table(["task type", "games", *(name.split("/")[0] for name in shown)], rows)


def language_models(evidence: Mapping[str, Any]) -> str:
    """The language models and their difference."""
    found = evidence["language_model"]
    write = {"nats": _number, "success": _percent, "commands": _number}
    rows = [
        [name.split("/")[0], split, *(w(measures[m]) if m in measures else "" for m, w in write.items())]
        for name, splits in found["models"].items()
        for split, measures in splits.items()
    ]
    rows += [
        ["none: uniform over admissible commands", split, _number(measures["uniform_nats"]), "", ""]
        for split, measures in next(iter(found["models"].values())).items()
    ]
    for over in ("over_games", "over_scenes"):
        for split, measures in found["differences"].items():
            cells = [w(measures[m][over], "+") if m in measures else "" for m, w in write.items()]
            rows.append([f"generated - released, {over.replace('_', ' ')}", split, *cells])
    return _table(["training games", "played on", "nats per command of the oracle", "success, %", "commands"], rows)


def block(evidence: Mapping[str, Any]) -> str:
    """Return what stands between the markers."""
    parts = [
        "Differences (first minus second, greedy)", differences(evidence),
        "Policies (greedy; the rivals at the end)", policies(evidence),
        "By task type (both validation splits; success, commands)", types(evidence),
    ]  # fmt: skip
    if evidence["language_model"]:
        parts += ["Language models", language_models(evidence)]
    return "\n\n".join(part if part.startswith("|") else f"**{part}**" for part in parts)


def replaced(page: str, evidence: Mapping[str, Any]) -> str:
    """Return the page with the tables of the evidence."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{block(evidence)}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), json.loads(EVIDENCE.read_text("ascii"))), "utf-8")

"""The paper index: where each paper's equations are implemented; tests check that every place exists."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from builder.markdown import prose, table

__all__ = ["pages", "papers", "places"]

FILE = Path(__file__).resolve().parents[2] / "papers.toml"

HEAD = """# Paper index

This page shows where each paper's equations are implemented. Equation numbers are the paper's. "–" means that the formula is unnumbered or that we could not
read the paper. In the second case the page of the scheme gives what it was checked against.

Five papers have a second table with their other parts: data, tools,
prompts, recipes and figures. The last table of the page has all parts that differ here or cannot be had, with the reason.
"""


def papers() -> list[dict[str, Any]]:
    """The papers of the index: title, arXiv number, page of the scheme, and rows of (equation, quantity, places)."""
    entries: list[dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))["paper"]
    return entries


def places() -> Iterator[tuple[str, str, str]]:
    """(paper, file, qualified name) of every place that the index names."""
    for paper in papers():
        for _, _, where in paper["rows"]:
            for location in where.split(", "):
                file, _, name = location.partition("::")
                yield paper["title"], file, name


def pages() -> dict[str, tuple[str, str]]:
    """One page with tables for every paper, and one of all that differs."""
    blocks, different = [HEAD], [["paper", "part", "why it differs"]]
    for paper in papers():
        rows = [["equation", "what", "where"]]
        for equation, quantity, where in paper["rows"]:
            places = [place.partition("::") for place in where.split(", ")]
            locations = [f"`{name}` in `{file}`" for file, _, name in places]
            rows.append([equation, prose(quantity), "; ".join(locations)])
        named = [f"`{name}`" for name in paper.get("schemes", ())]
        link = f"[arXiv {paper['arxiv']}](https://arxiv.org/abs/{paper['arxiv']})"
        about = f"{link}. [Schemes](/schemes/index.md): {', '.join(named)}." if named else f"{link}."
        blocks.append(f"## {paper['title']}\n\n{about}\n\n{table(rows)}")
        if parts := paper.get("parts"):
            published = [[prose(part), prose(where)] for part, here, where in parts if here == "as published"]
            blocks.append(table([["part of the paper, as published", "where"], *published]))
            different += [[paper["title"], prose(part), prose(why)] for part, here, why in parts if here == "differs"]
    blocks.append(f"## What differs, and why\n\n{table(different)}")
    return {"reference/paper_index": ("", "\n\n".join(blocks))}

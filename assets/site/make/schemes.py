"""A page for every credit scheme, from its code, the checks of its properties and the stored runs; and their overview."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, cast

from creditflow.assets.site.markdown import prose, table
from creditflow.train.cards.card import Card, make_card
from creditflow.train.cards.figures import shipped
from creditflow.train.cards.page import figure_rows, needs_lines, overview
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup

__all__ = ["pages"]

SHOWN = 6  # columns; cost and verification stand on the page of each scheme
WHERE = "wrappers/credit/SCHEMES.md"
INTRODUCTION = """# Schemes

A scheme turns a group of rollouts of one task into an advantage for every turn. Each has a page, made from its code when this
site is built. New here? Read [the verdict](/benchmark/verdict.md) first: it says which one to use.

**M2** is the success that one policy step gains, divided by what the exact gradient gains: 1 is perfect, and a scheme that knows only the
outcome has about 0.3 to 0.4. **Learning** is the area under the curve of exact success minus `grpo`'s, in points. Intervals are 95 %.
*Tables*: one softmax table per task. *Shared*: one policy over features for many tasks. *LM*: small language models, on held-out
tasks. –: not measured.
"""


def pages() -> dict[str, tuple[str, str]]:
    """The overview and a page per scheme."""
    figures = shipped()
    cards = [make_card(name, figures) for name in credit.names()]
    rows = [row[:SHOWN] for row in overview(figures)]
    linked = [rows[0], *([f"[{row[0]}](/schemes/{row[0]}.md)" if row[0] in credit.names() else row[0], *row[1:]] for row in rows[1:])]  # fmt: skip
    runs = [f"- {source['regime']}: `{source['command']}` at {source['commit']}" for source in figures.sources]
    listed = "\n".join(credit.names())
    index = (
        f"{INTRODUCTION}\n{table(linked)}\nThe runs behind the figures:\n\n" + "\n".join(runs) + "\n\n"
        f"```{{toctree}}\n:hidden:\n{listed}\n```\n"
    )
    return {"schemes/index": (WHERE, index), **{f"schemes/{card.name}": (WHERE, scheme_page(card)) for card in cards}}


def scheme_page(card: Card) -> str:
    """The page of one scheme: formula, source, release, needs, properties, figures, when it fails."""
    parts = [
        f"# {card.name}\n\n{prose(card.summary)}",
        f"## Formula\n\n    {card.formula}\n\n{prose(card.text)}",
        f"**Source** {prose(card.source)}.\\\n**Checked against** {prose(card.verification)}.",
        f'In Python `credit.make("{card.name}")`, for a log `creditflow credit --scheme {card.name} LOG`.',
        f"## How well it works\n\n{measured(card)}",
        f"## When it fails\n\n{failures(card)}",
        "## What it needs\n\n" + "\n".join(f"- {prose(line)}" for line in needs_lines(card)),
        f"## Parameters{', and what the release does differently' * ('release' in card.presets)}\n\n{parameters(card)}",
        f"## Cost\n\n{cost(card)}",
        f"## Properties\n\n{properties(card)}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def parameters(card: Card) -> str:
    """Every parameter with its value in each preset; values of the release that differ are bold."""
    kind = lookup(card.name)
    settings: dict[str, Mapping[str, Any]] = {
        name: vars_of(card.name, cast("Literal['paper', 'release']", name)) for name in kind.presets
    }
    rows = [["parameter", *settings]]
    for name in settings["paper"]:
        values = [repr(preset[name]) for preset in settings.values()]
        rows.append([f"`{name}`", *(f"**`{v}`**" if v != values[0] else f"`{v}`" for v in values)])
    where = f"`creditflow credit --scheme {card.name} --explain` explains them."
    if "release" not in settings:
        where += " There is no preset of released code."
    return f"{table(rows)}\n{where}"


def vars_of(name: str, semantics: Literal["paper", "release"]) -> dict[str, Any]:
    """By name the parameters of a scheme with a preset."""
    scheme = credit.make(name, semantics=semantics)
    return {field.name: getattr(scheme, field.name) for field in dataclasses.fields(scheme)}


def measured(card: Card) -> str:
    """The figures of the stored runs: a row per regime."""
    rows = figure_rows(card)
    if not rows:
        return "Not measured: its annotations need a model or a search task."
    heads, *methods = rows
    turned = [["", *(f"`{row[0]}`" for row in methods)]]
    turned += [[head, *(row[i] for row in methods)] for i, head in enumerate(heads) if i]
    names = "\n".join(f"- `{method}`: {prose(text)}" for method, text in card.settings.items())
    fitted = any("[fitted]" in row[0] for row in methods)
    note = "\n\n`[fitted]`: means over earlier rollouts stand for the annotations of a model." if fitted else ""
    return f"{table(turned)}\n{names}{note}\n\nWhat the rows mean: [all schemes](/schemes/index.md)."


def failures(card: Card) -> str:
    """When it fails."""
    return "\n".join(f"- {prose(line)}" for line in card.limitations)


def cost(card: Card) -> str:
    """Its time."""
    if math.isnan(card.cost):
        return "Not measured."
    return f"{card.cost:.2g} ms for 1,000 turns, {card.cost_ratio:.1f} times `gigpo`'s; annotations are not counted."


def properties(card: Card) -> str:
    """What `check_credit` found, with counterexamples."""
    rows = [["property", "", "rule"], *([p.name, p.result, prose(p.rule)] for p in card.properties)]
    examples = [f"- {p.name}: {prose(p.counterexample)}" for p in card.properties if p.counterexample]
    shown = "\n\nCounterexamples: each rollout as its states, then a turn's credit, and what the property requires.\n\n"
    return table(rows) + (shown + "\n".join(examples) if examples else "")

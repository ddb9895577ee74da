"""Pages of the credit schemes, from their code and the checks of their properties; and the overview of all with one result each."""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from builder.make.paper_index import papers
from builder.markdown import prose, table
from builder.repository import NAVIGATION
from creditflow.train.cards import Card, make_card, needs_lines, overview, result_text
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup

__all__ = ["formulas", "pages"]

WHERE = "wrappers/credit/SCHEMES.md"
FORMULAS = Path(__file__).resolve().parents[2] / "formulas.toml"
RECOMMENDED = ("grouptd", "graphgpo", "grpo")
# schemes with a page of their own: of the five papers, what they are compared with, and ours; `creditflow schemes NAME` prints the same of all
WITH_PAGE = tuple(
    name.removeprefix("schemes/")
    for names in NAVIGATION.values()
    for name in names
    if name.startswith("schemes/") and not name.endswith("index")
)
INTRODUCTION = """# Methods

A credit scheme turns a group of rollouts of one task into an advantage for every turn. Start with [`grouptd`](/schemes/grouptd.md) or
[`graphgpo`](/schemes/graphgpo.md) if you have exact state keys, and with [`grpo`](/schemes/grpo.md) otherwise.
[Which method should I use?](/benchmark/verdict.md) has the reasons, and the [leaderboard](/benchmark/leaderboard.md) more columns of results.

**Points** are mean success during training minus that of `grpo`, with a 95% confidence interval, in [96 settings](../../tests/evidence/settings/README.md)
of one policy for many tasks. The exact advantage gains 11.0 points. `mt_ppo` had a linear critic. "–" means that the method was not measured there, because most
of these need a model or a search task. Click on the head of a column to sort by it.

`creditflow schemes NAME` prints the formula, source, parameters, limits and properties of any scheme.
"""


def formulas() -> dict[str, dict[str, str]]:
    """By group and scheme the formula in TeX."""
    return tomllib.loads(FORMULAS.read_text(encoding="utf-8"))


def display_name(card: Card) -> str:
    """The scheme's name in its paper, with the name in the registry: ``GiGPO (`gigpo`)``."""
    title, text = title_and_text(card.summary)
    return f"{title} (`{card.name}`)" if text else f"`{card.name}`"


def title_and_text(summary: str) -> tuple[str, str]:
    """The name that begins a summary, and what follows; the text is "" where no name begins it.

    >>> title_and_text("Blend (ours): a sum")
    ('Blend', 'a sum')
    """
    title, _, text = summary.partition(": ")
    return title.removesuffix(" (ours)"), text if len(title) < 20 else ""


def pages() -> dict[str, tuple[str, str]]:
    """The table of all schemes, and the pages of some."""
    head, *rows = overview()
    summaries = {name: inspect.getdoc(inspect.getmodule(lookup(name))) or "" for name in credit.names()}
    listed = [["scheme", "what it does", *head[1:]]]
    for name, *cells in sorted(rows, key=lambda row: ordered_by(row[0])):
        summary = summaries[name].splitlines()[0]
        listed.append([link(name, f"`{name}`"), prose(title_and_text(summary)[1] or summary), *cells])
    index = f"{INTRODUCTION}\n{{.sortable}}\n{table(listed)}\n"
    return {
        "schemes/index": (WHERE, index),
        **{f"schemes/{name}": (WHERE, scheme_page(make_card(name))) for name in WITH_PAGE},
    }


def link(name: str, shown: str) -> str:
    """What is shown for a scheme, as a link where it has a page."""
    return f"[{shown}](/schemes/{name}.md)" if name in WITH_PAGE else shown


def ordered_by(name: str) -> tuple[int, str]:
    """Recommended schemes first, then by name."""
    return RECOMMENDED.index(name) if name in RECOMMENDED else len(RECOMMENDED), name


def scheme_page(card: Card) -> str:
    """The page of one scheme: formula, source, use, result, limits, needs, parameters, properties."""
    tex = next(group[card.name] for group in formulas().values() if card.name in group)
    links = [
        f"[arXiv {paper['arxiv']}](https://arxiv.org/abs/{paper['arxiv']})"
        for paper in papers()
        if card.name in paper.get("schemes", ())
    ]
    code = lookup(card.name).__module__.removeprefix("creditflow.").replace(".", "/")
    source = "; ".join([prose(card.source), *links])
    blocks = [
        f"# {display_name(card)}\n\n{prose(card.summary)}",
        f"$$\n{tex}\n$$",
        f'Use it in Python as `credit.make("{card.name}")`, or for a log as `creditflow credit --scheme {card.name} LOG`.',
        f"**Paper and code:** {source}. This implementation: `{code}.py`.\\\n**Checked against:** {prose(card.verification)}.",
        f"## Details\n\n    {card.formula}\n\n{prose(card.text)}",
        f"## How well it works\n\n{measured(card)}",
        f"## Limitations\n\n{failures(card)}",
        "## What it needs\n\n" + "\n".join(f"- {prose(line)}" for line in needs_lines(card)),
        f"## Parameters\n\n{parameters(card)}",
        f"## Properties\n\n{properties(card)}",
        "Next: [compare it with the other schemes](/schemes/index.md), [see why a turn has its advantage](/start/own_log.md), "
        "or [train with it](/how_to/train.md).",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def attribute_texts(kind: type) -> dict[str, str]:
    """By parameter its description, from the ``Attributes`` of the scheme's docstring and of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, block = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("\nAttributes:\n")
        for names, text in re.findall(r"^    ([a-z_, ]+): (.*?)(?=^    \S|\Z|\n\n)", block, re.M | re.S):
            for name in names.split(", "):
                texts[name] = " ".join(text.split())
    return texts


def parameters(card: Card) -> str:
    """Every parameter with its value in each preset and its meaning; values of the release that differ are bold."""
    kind = lookup(card.name)
    texts = attribute_texts(kind)
    settings: dict[str, Mapping[str, Any]] = {
        name: vars_of(card.name, cast("Literal['paper', 'release']", name)) for name in kind.presets
    }
    heads = {"paper": "default" if len(settings) == 1 else "default (paper)", "release": "released code"}
    rows = [["parameter", *(heads.get(name, name) for name in settings), "meaning"]]
    for name in settings["paper"]:
        values = [repr(preset[name]) for preset in settings.values()]
        cells = [f"**`{value}`**" if value != values[0] else f"`{value}`" for value in values]
        rows.append([f"`{name}`", *cells, prose(texts.get(name, ""))])
    released = (
        '`credit.make(NAME, semantics="release")` sets the values of the released code. Values that differ are bold.'
        if "release" in settings
        else "There is no preset of released code."
    )
    return f"{table(rows)}\n{released}"


def vars_of(name: str, semantics: Literal["paper", "release"]) -> dict[str, Any]:
    """By name the parameters of a scheme with a preset."""
    scheme = credit.make(name, semantics=semantics)
    return {field.name: getattr(scheme, field.name) for field in dataclasses.fields(scheme)}


def measured(card: Card) -> str:
    """Its result in the stored study."""
    if card.name == "grpo":
        return "The [leaderboard](/benchmark/leaderboard.md) compares the other methods with it."
    mean = result_text(card.name).partition(" ")[0]
    if mean == "–":
        return "It was not measured in [the study of settings](../../tests/evidence/settings/README.md)."
    return (
        f"It {'loses' if mean[0] == '−' else 'gains'} {mean[1:]} points of success compared with `grpo`, in "
        "[96 settings](../../tests/evidence/settings/README.md) of one policy for many tasks. The "
        "[leaderboard](/benchmark/leaderboard.md) has intervals and kinds of settings."
    )


def failures(card: Card) -> str:
    """Its limitations."""
    return "\n".join(f"- {prose(line)}" for line in card.limitations)


def properties(card: Card) -> str:
    """What `check_credit` found, with counterexamples."""
    rows = [["property", "", "rule"], *([p.name, p.result, prose(p.rule)] for p in card.properties)]
    examples = [f"- {p.name}: {prose(p.counterexample)}" for p in card.properties if p.counterexample]
    heading = "\n\nThe counterexamples show each rollout as its states, then the credit of a turn, and what the property requires.\n\n"
    return table(rows) + (heading + "\n".join(examples) if examples else "")

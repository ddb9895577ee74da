"""Pages of the credit schemes, from their code and the checks of their properties; and the overview of all with one result each.

Another page lists every scheme as a dense reward: what its potential is, or why it has none, from the registry.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from creditflow.assets.site.make.paper_index import papers
from creditflow.assets.site.markdown import prose, table
from creditflow.train.cards import SECOND_HAND, Card, make_card, needs_lines, overview, result_text
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.history_potential import HISTORY
from creditflow.wrappers.potentials import POTENTIALS, refusal_reason

__all__ = ["formulas", "pages", "potential_of", "potential_pages"]

WHERE = "wrappers/credit/SCHEMES.md"
FORMULAS = Path(__file__).resolve().parents[1] / "formulas.toml"
GROUPS = {
    "states": ("Needs state keys", "These schemes compare turns that start in the same state."),
    "outcomes": (
        "Needs no states",
        "These schemes read outcomes and the rewards of turns. `grpo` and `rloo` give every turn of a rollout the same advantage.",
    ),
    "entities": (
        "Needs the entities of a search task",
        "These schemes read which entities the agent found and mentioned.",
    ),
    "annotations": (
        "Needs the numbers of a model",
        "These schemes read what `creditflow annotate` writes: values of a critic, likelihoods, or the scores of a judge.",
    ),
}
RECOMMENDED = ("grouptd", "graphgpo", "grpo")
# schemes with a page of their own: of the five papers, what they are compared with, and ours; `creditflow schemes NAME` prints the same of all
WITH_PAGE = (
    "grpo", "rloo", "ppo_gae", "gigpo", "graphgpo", "rewardflow", "gdcr", "sapo", "egrpo", "pica", "grouptd", "blend",
)  # fmt: skip
INTRODUCTION = """# Schemes

A scheme turns a group of rollouts of one task into an advantage for every turn. [The verdict](/benchmark/verdict.md) explains which one to
use. Start with [`grouptd`](/schemes/grouptd.md) or [`graphgpo`](/schemes/graphgpo.md) if you have exact state keys, and with
[`grpo`](/schemes/grpo.md) otherwise.
"""
COLUMNS = """## Results in the benchmark

**Points** are mean success during training compared with `grpo`, with a 95% confidence interval, in [96 settings](/evidence/settings.md) of one policy for many tasks.
The exact advantage gains 11.0 [9.9, 12.2]. `mt_ppo` had a linear critic. "–" means not measured there: most of these schemes need a model or a search task.

**†** means {second_hand}. `creditflow schemes NAME` prints formula, source, parameters, limits and properties of any scheme.
"""
POTENTIALS_PAGE = "how_to/potentials"
OF_THE_HISTORY = {
    "gdcr": "the rewards that the turns so far have earned",
    "egrpo": "the fraction of the question's entities that the thoughts have mentioned",
    "pica": "the success probability of `model=`",
}
POTENTIALS_INTRODUCTION = """# Every scheme as a dense reward

This page lists the potential Φ of `DenseReward(env, SCHEME, gamma=…)` for every registered scheme. Schemes without a potential are rejected with the reason
given. [Dense rewards in your trainer](dense_rewards.md) explains which one to use.
"""


def formulas() -> dict[str, dict[str, str]]:
    """By group and scheme the formula in TeX."""
    return tomllib.loads(FORMULAS.read_text(encoding="utf-8"))


def display_name(card: Card) -> str:
    """The scheme's name in its paper, with the name in the registry: ``GiGPO (`gigpo`)``."""
    title, colon, _ = card.summary.partition(": ")
    return f"{title} (`{card.name}`)" if colon and " " not in title else f"`{card.name}`"


def pages() -> dict[str, tuple[str, str]]:
    """The overview, pages of schemes, and all schemes as dense rewards."""
    cards = {name: make_card(name) for name in credit.names()}
    head, *rows = overview(list(cards))
    linked = [head, *([link(row[0], row[0]), *row[1:]] for row in rows)]
    index = f"{INTRODUCTION}\n{grouped(cards)}\n{COLUMNS.format(second_hand=SECOND_HAND)}\n{table(linked)}\n\n"
    for group, (caption, _) in GROUPS.items():
        names = [name for name in ordered(formulas()[group]) if name in WITH_PAGE]
        titles = {name: display_name(cards[name]).replace("`", "") for name in names}
        members = "\n".join(f"{title} <{name}>" for name, title in titles.items())
        index += f"```{{toctree}}\n:hidden:\n:caption: {caption}\n{members}\n```\n\n"
    return {
        "schemes/index": (WHERE, index),
        **{f"schemes/{name}": (WHERE, scheme_page(cards[name])) for name in WITH_PAGE},
        **potential_pages(),
    }


def link(name: str, shown: str) -> str:
    """What is shown for a scheme, as a link where it has a page."""
    return f"[{shown}](/schemes/{name}.md)" if name in WITH_PAGE else shown


def ordered(names: Iterable[str]) -> list[str]:
    """Recommended schemes first, then by name."""
    return sorted(names, key=lambda name: (RECOMMENDED.index(name) if name in RECOMMENDED else len(RECOMMENDED), name))


def grouped(cards: Mapping[str, Card]) -> str:
    """A list of schemes under each kind of input, each with one sentence."""
    blocks = []
    for group, (title, sentence) in GROUPS.items():
        lines = []
        for name in ordered(formulas()[group]):
            summary = cards[name].summary
            lines.append(f"- {link(name, display_name(cards[name]))}: {prose(summary.partition(': ')[2] or summary)}")
        blocks.append(f"## {title}\n\n{sentence}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(blocks)


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
    points = result_text(card.name)
    if points == "–":
        return "It was not measured in [the study of settings](/evidence/settings.md)."
    return f"{points} points of success compared with `grpo`, in [96 settings](/evidence/settings.md) of one policy for many tasks."


def failures(card: Card) -> str:
    """Its limitations."""
    return "\n".join(f"- {prose(line)}" for line in card.limitations)


def properties(card: Card) -> str:
    """What `check_credit` found, with counterexamples."""
    rows = [["property", "", "rule"], *([p.name, p.result, prose(p.rule)] for p in card.properties)]
    examples = [f"- {p.name}: {prose(p.counterexample)}" for p in card.properties if p.counterexample]
    heading = "\n\nThe counterexamples show each rollout as its states, then the credit of a turn, and what the property requires.\n\n"
    return table(rows) + (heading + "\n".join(examples) if examples else "")


def potential_pages() -> dict[str, tuple[str, str]]:
    """The page."""
    rows = [
        ["scheme", "Φ is a function of", "and estimates"],
        *([f"`{name}`", *potential_of(name)] for name in credit.names()),
    ]
    return {POTENTIALS_PAGE: ("", f"{POTENTIALS_INTRODUCTION}\n{table(rows)}\n")}


def potential_of(scheme: str) -> tuple[str, str]:
    """What the potential of a scheme depends on, and what it estimates or why there is none."""
    if scheme in HISTORY:
        return "the history", OF_THE_HISTORY[scheme]
    if scheme not in POTENTIALS:
        return "–", f"rejected: {refusal_reason(scheme)}".replace("'", "`")
    kind = POTENTIALS[scheme]
    if kind.by_distance:
        return "the state", "the distance to a success"
    looks_back = kind.depth is not POTENTIALS["gigpo"].depth
    return "the last states" if looks_back else "the state", "the value for the policy that played"

"""Cards as text: one for the terminal, all of them with an overview as a page of Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tidy import BASELINE
from creditflow.train.cards.card import Card
from creditflow.train.cards.figures import REGIMES, Figures
from creditflow.train.text_table import text_table
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.keys import StateScheme

__all__ = ["card_markdown", "card_text", "cards_page", "figure_rows", "needs_lines", "overview"]

HEAD = ["scheme", "needs", "M2, tables", "M2, shared", "learning, shared", "learning, LM", "cost", "checked against"]
FOOTER = ("oracle_adv", "stateless")
CONTROLS = {"oracle_adv": "exact advantage", "stateless": "discounted outcome, no states"}


def overview(figures: Figures, names: Sequence[str] = ()) -> list[list[str]]:
    """A table of schemes and their measured variants, then of two controls; header first.

    Args:
        figures: figures of the stored runs.
        names: registry names; default all.
    """
    rows = [HEAD]
    for name in names or credit.names():
        kind = lookup(name)
        read = [*kind.requires, *kind.task_fields] or (
            ["state keys"] if issubclass(kind, StateScheme) else ["outcomes"]
        )
        methods = figures.methods_of(name)
        cost_ratio = figures.cost.get(name, math.nan) / figures.cost.get("gigpo", math.nan)
        named = next((method for method in methods if method.partition("[")[0] == name), "")
        rows.append([name, ", ".join(read), *_columns(figures, named), _times(cost_ratio), kind.verification])
        variants = [method for method in methods if method != named]
        rows += [[f"· {method}", "", *_columns(figures, method), "", ""] for method in variants]
    rows += [[CONTROLS[name], "", *_columns(figures, name), "", ""] for name in FOOTER if name in figures.measured]
    return rows


def _columns(figures: Figures, method: str) -> list[str]:
    measured = figures.measured.get(method, {})
    cells = (("tables", "step"), ("shared", "step"), ("shared", "learning"), ("language models", "learning"))
    return [_cell(method, measured, regime, endpoint) for regime, endpoint in cells]


def _cell(method: str, measured: Mapping[str, Mapping[str, Any]], regime: str, endpoint: str) -> str:
    estimate: Estimate | None = measured.get(regime, {}).get(endpoint)
    if method == BASELINE and regime in measured and endpoint == "learning":
        return "0"
    if estimate is None:
        return "–"
    if endpoint == "step":
        return estimate.text(2)
    return Estimate(100 * estimate.mean, 100 * estimate.low, 100 * estimate.high).text(1, "+").replace("-", "−")


def _times(ratio: float) -> str:
    return "–" if math.isnan(ratio) else f"{ratio:.1f}"


def figure_rows(card: Card) -> list[list[str]]:
    """The measured methods in every regime, header first; empty if nothing was measured."""
    if not card.figures:
        return []
    heads = [f"{end}, {regime}" for regime in REGIMES for end in ("M2", "learning")]
    rows = [["method", *heads]]
    for method, measured in card.figures.items():
        rows.append(
            [method, *(_cell(method, measured, regime, end) for regime in REGIMES for end in ("step", "learning"))]
        )  # fmt: skip
    return rows


def needs_lines(card: Card) -> list[str]:
    """What the scheme reads and which annotations it needs, one item per line."""
    lines = [f"reads: {', '.join(card.reads) or 'nothing but its annotations'}"]
    for name, writer in card.annotations.items():
        written = (
            f"written by creditflow annotate --with {writer}"
            if writer
            else "not written by any annotator of this package"
        )
        lines.append(f"annotation {name}: {written}")
    if card.token_annotations:
        lines.append(f"token annotations: {', '.join(card.token_annotations)}")
    if card.task_fields:
        lines.append(f"task fields: {', '.join(card.task_fields)}")
    return lines


def _cost_line(card: Card) -> str:
    if math.isnan(card.cost):
        return "not measured"
    return (
        f"{card.cost:.2g} ms for 1000 turns, {card.cost_ratio:.1f} times as long as gigpo (annotations are not counted)"
    )


def card_text(card: Card) -> str:
    """A card for the terminal."""
    sections = [
        f"{card.name}: {card.formula}",
        card.text,
        f"Source: {card.source}\nChecked against: {card.verification or '–'}",
    ]
    sections.append("Needs\n" + _listed(needs_lines(card)))
    properties = [["property", "", "rule"], *([p.name, p.result, p.rule] for p in card.properties)]
    sections.append(f"Properties (check_credit)\n{_indented(text_table(properties))}")
    examples = [f"{p.name}: {p.counterexample}" for p in card.properties if p.counterexample]
    if examples:
        sections.append(
            "Counterexamples (the states of each rollout, then a turn's credit and the credit that the property requires)\n"
            + _listed(examples)
        )
    sections.append(f"Cost\n  {_cost_line(card)}")
    rows = figure_rows(card)
    settings = [f"{method}: {text}" for method, text in card.settings.items()]
    sections.append(
        "Results\n"
        + (
            _indented(text_table(rows))
            if rows
            else "  not measured, because its annotations need a model or a search task"
        )
    )
    if settings:
        sections.append("Settings\n" + _listed(settings))
    sections.append("Limitations\n" + _listed(card.limitations))
    return "\n\n".join(section for section in sections if section)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"  - {line}" for line in lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def card_markdown(card: Card) -> str:
    """A card as a section of the page."""
    refuted = [p for p in card.properties if p.counterexample]
    lines = [
        f"## {card.name}",
        "",
        f"{card.summary}",
        "",
        f"    {card.formula}",
        "",
        *([card.text, ""] if card.text else []),
        f"*Source:* {card.source}. *Checked against:* {card.verification}.",
        "",
        *(f"- {line}" for line in needs_lines(card)),
        f"- cost: {_cost_line(card)}",
        f"- declared properties: {_names(card, 'declared')}",
        f"- other properties that are true on all sampled groups: {_names(card, 'holds')}",
        *(f"- fails {p.name}: {_with_code(p.counterexample)}" for p in refuted),
        "",
    ]
    rows = figure_rows(card)
    lines += [*_markdown(rows), ""] if rows else []
    lines += [f"`{method}`: {text}.  " for method, text in card.settings.items()]
    lines += [""] if card.settings else []
    return "\n".join([*lines, "Limitations:", "", *(f"- {line}" for line in card.limitations)])


def _names(card: Card, result: str) -> str:
    return ", ".join(p.name for p in card.properties if p.result == result) or "–"


def _with_code(counterexample: str) -> str:
    """The counterexample with its rollouts, which stand in brackets, as code."""
    return counterexample.replace("[", "`[", 1).replace("]", "]`", 1)


def cards_page(cards: Sequence[Card], figures: Figures) -> str:
    """All cards with an overview, as Markdown."""
    rules = {p.name: p.rule for card in cards[:1] for p in card.properties}
    sources = [
        f"- {source['regime']}{_meaning(source['regime'])}: `{source['command']}` at {source['commit']}"
        for source in figures.sources
    ]
    head = [
        "# Reference cards of the credit schemes",
        "",
        "This page has one reference card per credit scheme, after an overview of all of them. It is generated by "
        "`creditflow schemes --all --out wrappers/credit --force`, and a test checks that it is up to date. The formula, the source and "
        "the last item under *Limitations* come from the scheme's module. *Reads* is found by changing the fields of random groups, one "
        "at a time. Properties and counterexamples are what `check_credit` finds with the paper's parameters. Results come from these "
        "stored runs:",
        "",
        *sources,
        "",
        "**M2** is the exact success gained by one policy step, relative to the gain of a step along the exact gradient. **Learning** is "
        "the mean exact success during training compared with grpo, in percentage points; shared policies take steps of equal KL "
        "divergence, under which grouptd leads graphgpo, and under Adam it does not. Intervals are 95% confidence intervals. In `NAME[fitted]`, means over earlier rollouts replace the annotations of a model. "
        '**Cost** is the time of the paper\'s preset relative to gigpo, and annotations are not counted. "–" means not measured.',
        "",
        *_markdown(overview(figures, [card.name for card in cards])),
        "",
        "The cards list which of the following properties a scheme has. A counterexample lists the states of each rollout, then a turn's "
        "credit and the credit that the property requires.",
        "",
        *(f"- {name}: {rule}" for name, rule in rules.items()),
    ]
    return "\n".join(["\n".join(head), *(f"\n{card_markdown(card)}" for card in cards)]) + "\n"


def _meaning(regime: str) -> str:
    return next((f" ({text})" for name, text in REGIMES.items() if name == regime), "")


def _markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    rule = "| " + " | ".join(["---"] * len(rows[0])) + " |"
    return [_markdown_row(rows[0]), rule, *map(_markdown_row, rows[1:])]


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"

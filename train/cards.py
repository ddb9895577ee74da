"""The card of a scheme: what its code and its checks say about it, made when it is asked for; and the table of all schemes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from creditflow.envs.reading.json_text import parse_json
from creditflow.train.bench.report.tidy import Estimate
from creditflow.train.text_table import terminal_width, text_table
from creditflow.wrappers import credit
from creditflow.wrappers.credit.annotations.values import WRITERS
from creditflow.wrappers.credit.check import PROPERTIES, CheckReport
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.keys import StateScheme

__all__ = ["Card", "PropertyFound", "card_text", "make_card", "markdown_page", "needs_lines", "overview", "result_text"]

FIGURES = (
    "schemes/figures.json"  # python tests/evidence/settings/tables.py --figures tests/evidence/settings/results.jsonl
)
HEAD = ["scheme", "source", "needs", "points"]
PAGE = """# Credit schemes

One row per scheme. `creditflow schemes NAME` prints a scheme's card: its formula, what it was checked against, the annotations that it needs,
the properties that `check_credit` finds (with counterexamples), and when it fails. This page is what `creditflow schemes --markdown` prints.

**Points** are mean success during training compared with `grpo`, with a 95% confidence interval, in the [96 settings](../../tests/evidence/settings/README.md)
of one policy for many tasks. The exact advantage gains 11.0. `mt_ppo` had a linear critic. "–" means not measured there: most of these schemes need a model or a search task.

"""


@dataclass(frozen=True, slots=True)
class PropertyFound:
    """What ``check_credit`` found about one property.

    Attributes:
        name: name of the property.
        rule: the property in one sentence.
        result: "declared" if the scheme declares it (and the check passed), "holds" if it is true on all sampled groups,
            or "refuted".
        counterexample: the first group that violates it, with the credit of one turn, or "" if there is none.
    """

    name: str
    rule: str
    result: Literal["declared", "holds", "refuted"]
    counterexample: str


@dataclass(frozen=True, slots=True)
class Card:
    """The card of a scheme.

    Attributes:
        name: name of the scheme.
        summary: what it is, in one line.
        formula: the formula in one sentence.
        text: the rest of its documentation.
        source, verification: where it comes from, and what it was checked against.
        annotations: for each annotation that it needs, the annotator that writes it, or "" if there is none.
        token_annotations, task_fields: annotations of tokens, and fields of the task's payload.
        properties: what was found about each property.
        limitations: when it fails, first from its needs and properties, then from its module.
    """

    name: str
    summary: str
    formula: str
    text: str
    source: str
    verification: str
    annotations: Mapping[str, str]
    token_annotations: tuple[str, ...]
    task_fields: tuple[str, ...]
    properties: tuple[PropertyFound, ...]
    limitations: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def make_card(name: str) -> Card:
    """The card of a scheme with the parameters of its paper.

    Args:
        name: registry name.

    Raises:
        ConfigError: the name is unknown.
        SchemeContractError: the scheme breaks the contract, or a property that it declares.
    """
    kind, scheme = lookup(name), credit.make(name)
    # the first paragraph of the docstring is the formula; what follows the attributes is about them
    documentation = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:")[0]
    formula, _, text = documentation.partition("\n\n")
    report = credit.check_credit(scheme)
    return Card(
        name=name,
        summary=(inspect.getdoc(inspect.getmodule(kind)) or "").splitlines()[0],
        formula=" ".join(formula.split()),
        text=text.strip(),
        source=kind.source,
        verification=kind.verification,
        annotations={need: WRITERS.get(need, "") for need in kind.requires},
        token_annotations=kind.requires_tokens,
        task_fields=kind.task_fields,
        properties=_properties(report),
        limitations=(*_derived(scheme, report), *([kind.limitations] if kind.limitations else [])),
    )


def _properties(report: CheckReport) -> tuple[PropertyFound, ...]:
    results = []
    for name, check in PROPERTIES.items():
        rule = (check.__doc__ or "").splitlines()[0]
        counterexample = report.counterexamples.get(name, "")
        result: Literal["declared", "holds", "refuted"] = "refuted" if counterexample else "holds"
        results.append(PropertyFound(name, rule, "declared" if name in report.declared else result, counterexample))
    return tuple(results)


# property -> what a counterexample to it means for training
REFUTED: Mapping[str, str] = {
    "all_fail_zero": "A group without a success or a reward still gets credit.",
    "stopping_time": "If all outcomes are equal, turns still get credit, so the group changes the policy.",
    "one_member_zero": "A single rollout gets credit, although there is no other rollout to compare it with.",
    "scale": "The scale of the rewards changes the credit, and therefore the size of the update.",
    "shift": "A constant added to every return changes the credit.",
    "branches": "The turns of a branch get different credit than in the full episode.",
    "permutation": "The order of rollouts changes the credit.",
    "batch_permutation": "The order of groups changes the credit.",
}


def _derived(scheme: credit.Scheme, report: CheckReport) -> list[str]:
    """Limitations that follow from needs and properties."""
    sentences = []
    if scheme.needs or scheme.requires_tokens:
        names = _alternatives(list(dict.fromkeys([*scheme.needs, *scheme.requires_tokens])))
        sentences.append(f"A log that lacks the annotation {names} cannot be scored.")
    if scheme.task_fields:
        sentences.append(f"A task that lacks the field {_alternatives(scheme.task_fields)} cannot be scored.")
    sentences += [text for name, text in REFUTED.items() if not report.holds(name)]
    if report.holds("all_fail_zero") and report.holds("stopping_time"):
        sentences.append("A group with equal outcomes is dead: it gives no credit.")
    return sentences


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


@cache
def _points() -> dict[str, Estimate]:
    """By scheme its lead over grpo in the 96 settings, in percentage points."""
    document = parse_json((files("creditflow.assets") / FIGURES).read_text(encoding="utf-8"), where=FIGURES)
    return {name: Estimate(*bounds) for name, bounds in document["points"].items()}


def result_text(name: str) -> str:
    """The result of a scheme in one cell: "0" for grpo, and "–" if it was not measured."""
    if name == "grpo":
        return "0"
    estimate = _points().get(name)
    return estimate.text(1, "+").replace("-", "−") if estimate else "–"


def overview(names: Sequence[str] = ()) -> list[list[str]]:
    """The table of schemes (default: all registered), header first."""
    rows = [HEAD]
    for name in names or credit.names():
        kind = lookup(name)
        reads_states = issubclass(kind, StateScheme)
        needs = [*kind.requires, *kind.task_fields] or ["state keys" if reads_states else "outcomes"]
        rows.append([name, kind.source, ", ".join(needs), result_text(name)])
    return rows


def markdown_page() -> str:
    """The page ``wrappers/credit/SCHEMES.md``."""
    head, *rows = [f"| {' | '.join(row)} |" for row in overview()]
    return PAGE + "\n".join([head, f"|{' --- |' * len(HEAD)}", *rows]) + "\n"


def needs_lines(card: Card) -> list[str]:
    """The annotations and task fields that a scheme needs, one item per line."""
    lines = []
    for name, writer in card.annotations.items():
        how = f"written by creditflow annotate --with {writer}" if writer else "not written by any annotator here"
        lines.append(f"annotation {name}: {how}")
    if card.token_annotations:
        lines.append(f"token annotations: {', '.join(card.token_annotations)}")
    if card.task_fields:
        lines.append(f"task fields: {', '.join(card.task_fields)}")
    if not lines:
        reads_states = issubclass(lookup(card.name), StateScheme)
        lines.append("outcomes and state keys" if reads_states else "outcomes")
    return lines


def card_text(card: Card) -> str:
    """A card for the terminal."""
    properties = [["property", "", "rule"], *([p.name, p.result, p.rule] for p in card.properties)]
    examples = [f"{p.name}: {p.counterexample}" for p in card.properties if p.counterexample]
    explanation = "the states of each rollout, then a turn's credit and the credit that the property requires"
    result = (
        f"{result_text(card.name)} points of success compared with grpo, in 96 settings of one policy for many tasks"
    )
    sections = [
        f"{card.name}: {card.formula}",
        card.text,
        f"Source: {card.source}\nChecked against: {card.verification or '–'}",
        "Needs\n" + _listed(needs_lines(card)),
        f"Properties (check_credit)\n{_indented(text_table(properties, width=max(0, terminal_width() - 2)))}",
        f"Counterexamples ({explanation})\n{_listed(examples)}" if examples else "",
        f"Result\n  {'not measured' if result_text(card.name) == '–' else result}",
        "Limitations\n" + _listed(card.limitations),
    ]
    return "\n\n".join(section for section in sections if section)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"  - {line}" for line in lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())

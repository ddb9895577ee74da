"""Pages of the credit schemes, from their code and the checks of their properties; and the overview of all with one result each."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Sequence
from pathlib import Path

from builder.make.paper_index import papers
from builder.markdown import prose, table
from creditflow.train.cards import Card, make_card, needs_lines, overview, result_text
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.registry import lookup

__all__ = ["formulas", "pages"]

WHERE = "wrappers/credit/SCHEMES.md"
FORMULAS = Path(__file__).resolve().parents[2] / "formulas.toml"
RECOMMENDED = ("grouptd", "graphgpo", "grpo")
# schemes with a page of their own: of the five papers, what they are compared with, and ours; `creditflow schemes NAME` prints the same of all
WITH_PAGE = (
    *("grpo", "rloo", "ppo_gae", "gigpo", "graphgpo", "rewardflow"),
    *("gdcr", "sapo", "egrpo", "pica", "grouptd", "blend"),
)
INDEX = """# Methods

A credit scheme turns a group of rollouts of one task into an advantage for every turn. Start with [`grouptd`](/schemes/grouptd.md) or
[`graphgpo`](/schemes/graphgpo.md) if you have exact state keys, and with [`grpo`](/schemes/grpo.md) otherwise.
[Which method should I use?](/benchmark/verdict.md) has the reasons, and the [leaderboard](/benchmark/leaderboard.md) more columns of results.

**Points** are mean success during training minus that of `grpo`, with a 95% confidence interval, in [96 settings](../../tests/evidence/settings/README.md)
of one policy for many tasks. The exact advantage gains 11.0 points. `mt_ppo` had a linear critic. "–" means that the method was not measured there, because most
of these need a model or a search task. Click on the head of a column to sort by it.

`creditflow schemes NAME` prints the formula, source, parameters, limits and properties of any scheme.

{{.sortable}}
{table}
## Parameters that schemes share

The page of a scheme names which of these it derives from.

```{{eval-rst}}
.. autoclass:: creditflow.wrappers.credit.outcome.PenaltyScheme
.. autoclass:: creditflow.wrappers.credit.outcome.OutcomeScheme
.. autoclass:: creditflow.wrappers.credit.outcome.ReleasedOutcomeScheme
.. autoclass:: creditflow.wrappers.credit.states.keys.StateScheme
.. autoclass:: creditflow.wrappers.credit.states.keys.MergingScheme
```

```{{toctree}}
:hidden:

{pages}
```
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
    """The table of all schemes, recommended ones first, and the pages of some."""
    head, *rows = overview()
    shown = [["scheme", "what it does", *head[1:]]]
    for name, *cells in sorted(rows, key=lambda row: (row[0] not in RECOMMENDED, row[0])):
        summary = (inspect.getdoc(inspect.getmodule(lookup(name))) or "").splitlines()[0]
        link = f"[`{name}`](/schemes/{name}.md)" if name in WITH_PAGE else f"`{name}`"
        shown.append([link, prose(title_and_text(summary)[1] or summary), *cells])
    return {
        "schemes/index": (WHERE, INDEX.format(table=table(shown), pages="\n".join(WITH_PAGE))),
        **{f"schemes/{name}": (WHERE, scheme_page(make_card(name))) for name in WITH_PAGE},
    }


def scheme_page(card: Card) -> str:
    """The page of one scheme: formula, source, use, result, limits, needs, documentation of its class, properties."""
    tex = next(group[card.name] for group in formulas().values() if card.name in group)
    links = [
        f"[arXiv {paper['arxiv']}](https://arxiv.org/abs/{paper['arxiv']})"
        for paper in papers()
        if card.name in paper.get("schemes", ())
    ]
    kind = lookup(card.name)
    source = "; ".join([prose(card.source), *links])
    blocks = [
        f"# {display_name(card)}\n\n{prose(card.summary)}",
        f"$$\n{tex}\n$$",
        f'Use it in Python as `credit.make("{card.name}")`, or for a log as `creditflow credit --scheme {card.name} LOG`.',
        f"**Paper and code:** {source}.\\\n**Checked against:** {prose(card.verification)}.",
        f"## How well it works\n\n{measured(card)}",
        "## Limitations\n\n" + listed(card.limitations),
        "## What it needs\n\n" + listed(needs_lines(card)),
        f"## Details and parameters\n\n```{{eval-rst}}\n.. autoclass:: {kind.__module__}.{kind.__name__}\n   :show-inheritance:\n```",
        presets(kind),
        f"## Properties\n\n{properties(card)}",
        "Next: [compare it with the other schemes](/schemes/index.md), [see why a turn has its advantage](/start/own_log.md), "
        "or [train with it](/how_to/train.md).",
    ]
    return "\n\n".join(blocks) + "\n"


def listed(lines: Sequence[str]) -> str:
    """A list with an item for each line."""
    return "\n".join(f"- {prose(line)}" for line in lines)


def presets(kind: type[Scheme]) -> str:
    """What each preset sets that differs from the class's own defaults."""
    lines = []
    for name, parameters in kind.presets.items():
        values = ", ".join(f"`{parameter}={value!r}`" for parameter, value in parameters.items())
        called = {"paper": "the paper's form and the default", "release": "the released code's form"}.get(name, name)
        lines.append(f'- `credit.make("{kind.name}", semantics="{name}")`, {called}: {values or "the defaults above"}.')
    return "\n".join(lines)


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


def properties(card: Card) -> str:
    """What `check_credit` found, with counterexamples."""
    rows = [["property", "", "rule"], *([p.name, p.result, prose(p.rule)] for p in card.properties)]
    examples = [f"- {p.name}: {prose(p.counterexample)}" for p in card.properties if p.counterexample]
    heading = "\n\nThe counterexamples show each rollout as its states, then the credit of a turn, and what the property requires.\n\n"
    return table(rows) + (heading + "\n".join(examples) if examples else "")

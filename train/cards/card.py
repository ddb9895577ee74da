"""The reference card of a scheme: everything that its code, its checks and the stored runs show about it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.reading.plain_data import nan_as_none
from creditflow.train.cards.cost import measured_costs
from creditflow.train.cards.figures import Figures, shipped
from creditflow.wrappers import credit
from creditflow.wrappers.credit.annotations.values import WRITERS
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.check import PROPERTIES, CheckReport
from creditflow.wrappers.credit.properties import sample_group
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["FIELDS", "Card", "PropertyFound", "fields_read", "make_card", "with_fresh_keys"]

COUNTED_GROUPS = 30


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
    """A reference card.

    Attributes:
        name: name of the scheme.
        summary: what it is, in one line.
        formula: the formula in one sentence.
        text: the rest of its documentation.
        source, verification: where it comes from, and what it was checked against.
        presets: semantics to parameters that differ from the defaults.
        annotations: for each annotation that it needs, the annotator that writes it, or "" if there is none.
        token_annotations, task_fields: annotations of tokens, and fields of the task's payload.
        reads: fields of a log that change its credit.
        properties: what was found about each property.
        cost: milliseconds for 1000 turns, or nan if unknown.
        cost_ratio: the same relative to gigpo.
        figures: for each method of the scheme, regime and endpoint, a mean with its interval.
        settings: for each method, how it differs from the paper's preset.
        limitations: when it fails, first from its needs and properties, then from its module.
    """

    name: str
    summary: str
    formula: str
    text: str
    source: str
    verification: str
    presets: Mapping[str, Mapping[str, Any]]
    annotations: Mapping[str, str]
    token_annotations: tuple[str, ...]
    task_fields: tuple[str, ...]
    reads: tuple[str, ...]
    properties: tuple[PropertyFound, ...]
    cost: float
    cost_ratio: float
    figures: Mapping[str, Mapping[str, Mapping[str, Any]]]
    settings: Mapping[str, str]
    limitations: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        data: dict[str, Any] = nan_as_none(asdict(self))
        return data


def make_card(name: str, figures: Figures | None = None, *, measure_cost: bool = False) -> Card:
    """The card of a scheme with the parameters of its paper.

    Args:
        name: registry name.
        figures: results of the stored runs, by default those that the package ships.
        measure_cost: measure the cost now instead of taking the stored one.

    Raises:
        ConfigError: the name is unknown.
        SchemeContractError: the scheme breaks the contract, or a property that it declares.
    """
    kind, scheme = lookup(name), credit.make(name)
    figures = shipped() if figures is None else figures
    formula, text = _documentation(kind)
    report = credit.check_credit(scheme)
    reads = fields_read(scheme)
    costs = measured_costs([name, "gigpo"]) if measure_cost else figures.cost
    methods = figures.methods_of(name)
    return Card(
        name=name,
        summary=(inspect.getdoc(inspect.getmodule(kind)) or "").splitlines()[0],
        formula=formula,
        text=text,
        source=kind.source,
        verification=kind.verification,
        presets={semantics: dict(parameters) for semantics, parameters in kind.presets.items()},
        annotations={need: WRITERS.get(need, "") for need in kind.requires},
        token_annotations=kind.requires_tokens,
        task_fields=kind.task_fields,
        reads=reads,
        properties=_properties(report),
        cost=costs.get(name, math.nan),
        cost_ratio=costs.get(name, math.nan) / costs.get("gigpo", math.nan),
        figures={method: figures.measured[method] for method in methods},
        settings={method: figures.settings[method] for method in methods if method in figures.settings},
        limitations=(*_derived(scheme, report, reads), *([kind.limitations] if kind.limitations else [])),
    )


def _documentation(kind: type[credit.Scheme]) -> tuple[str, str]:
    """The first paragraph of the docstring, which is the formula, and the rest without the attributes."""
    text = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:")[0]
    formula, _, rest = text.partition("\n\n")
    return " ".join(formula.split()), rest.strip()


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


def _derived(scheme: credit.Scheme, report: CheckReport, reads: Sequence[str]) -> list[str]:
    """What follows from needs, properties and the fields that are read."""
    sentences = []
    if scheme.needs or scheme.requires_tokens:
        names = _alternatives(list(dict.fromkeys([*scheme.needs, *scheme.requires_tokens])))
        sentences.append(f"A log that lacks the annotation {names} cannot be scored.")
    if scheme.task_fields:
        sentences.append(f"A task that lacks the field {_alternatives(scheme.task_fields)} cannot be scored.")
    sentences += [text for name, text in REFUTED.items() if not report.holds(name)]
    if report.holds("all_fail_zero") and report.holds("stopping_time"):
        sentences.append("A group with equal outcomes is dead: it gives no credit.")
    if "state keys" in reads:
        plain, fresh = (
            _fraction_with_step_advantage(scheme, fresh=False),
            _fraction_with_step_advantage(scheme, fresh=True),
        )
        if fresh < plain:
            sentences.append(
                f"If every state after the first has a distinct key, {fresh:.0%} of the turns have a step advantage instead of {plain:.0%} "
                f"(in {COUNTED_GROUPS} random groups)."
            )
    return sentences


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _fraction_with_step_advantage(scheme: credit.Scheme, *, fresh: bool) -> float:
    """Fraction of turns with a nonzero step advantage, in random groups. With ``fresh`` every state has a distinct key."""
    nonzero = []
    for draw in range(COUNTED_GROUPS):
        group = sample_group(scheme, np.random.default_rng([1, draw]), outcome=0.5)
        step = scheme.assign(with_fresh_keys(group) if fresh else group).flat_step_advantages
        nonzero.append(np.abs(step) > 1e-12)
    return float(np.concatenate(nonzero).mean())


DRAWS: Final = 24
Change = Callable[[Trajectory, int, np.random.Generator], Trajectory]


def _turns(change: Callable[[Turn, np.random.Generator], Turn]) -> Change:
    """The change of every turn by itself."""

    def apply(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
        return replace(member, turns=tuple(change(turn, rng) for turn in member.turns))

    return apply


def _flipped(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
    """Success for failure, with the rewards and the score that it had."""
    if rng.random() < 0.5:
        return member
    return replace(member, success=not member.success, stop_reason="failed" if member.success else "success")


def _ended(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
    """Failure for truncation and the reverse."""
    if member.success or rng.random() < 0.5:
        return member
    return replace(member, stop_reason="env_limit" if member.stop_reason == "failed" else "failed")


def _fresh(member: Trajectory, index: int, _: np.random.Generator) -> Trajectory:
    """A distinct key for every state but the first."""
    keys = [member.turns[0].state_key, *(f"{index}.{t}" for t in range(1, len(member.turns) + 1))]
    turns = tuple(replace(turn, state_key=keys[t], next_state_key=keys[t + 1]) for t, turn in enumerate(member.turns))
    return replace(member, turns=turns, final_state_key=keys[-1])


def _recounted(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
    """Other numbers of tokens in each turn."""
    counts = rng.integers(1, 6, len(member.turns))
    total = int(counts.sum())
    values = member.tokens.values if member.tokens else {}
    tokens = Tokens(
        ids=np.arange(total, dtype=np.int32),
        mask=np.ones(total, np.bool_),
        logprobs=np.zeros(total, np.float32),
        turn_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        values={name: np.resize(numbers, total + 1) for name, numbers in values.items()},
    )
    return replace(member, tokens=tokens)


# what is read -> the change that shows it
FIELDS: Final[Mapping[str, Change]] = MappingProxyType(
    {
        "rewards of turns": _turns(lambda turn, rng: replace(turn, reward=turn.reward + float(rng.normal()))),
        "success flag": _flipped,
        "graded score": lambda member, _, rng: replace(member, score=float(rng.random())),
        "failed or truncated": _ended,
        "state keys": _fresh,
        "text keys": _turns(lambda turn, rng: replace(turn, text_key=f"text {rng.integers(3)}")),
        "actions": _turns(lambda turn, rng: replace(turn, action=f"a{rng.integers(3)}")),
        "parsed": _turns(lambda turn, rng: replace(turn, parsed=bool(rng.random() < 0.5))),
        "admissible": _turns(lambda turn, rng: replace(turn, admissible=bool(rng.random() < 0.5))),
        "effective": _turns(lambda turn, rng: replace(turn, effective=bool(rng.random() < 0.5))),
        "costs of transitions": _turns(lambda turn, rng: replace(turn, cost=float(rng.integers(1, 4)))),
        "thoughts": _turns(lambda turn, rng: replace(turn, thought=f"saw entity {rng.integers(4)}")),
        "observations": _turns(lambda turn, rng: replace(turn, observation=f"saw entity {rng.integers(4)}")),
        "queries": _turns(lambda turn, rng: replace(turn, queries=(f"word{rng.integers(12)}",))),
        "passages": _turns(lambda turn, rng: replace(turn, doc_ids=(f"d{rng.integers(4)}",))),
        "numbers of tokens": _recounted,
    }
)


def fields_read(scheme: Scheme, *, draws: int = DRAWS, seed: int = 0) -> tuple[str, ...]:
    """The names of ``FIELDS`` that the scheme reads with these parameters. Annotations are in its ``needs``.

    One field of random groups after another is changed, so the list is that of the code, also for a custom scheme. A field counts
    as read when some change of it alone changes some credit.

    Args:
        scheme: the scheme.
        draws: number of random groups that each field is changed in.
        seed: random seed of the groups.
    """
    read = []
    for name, change in FIELDS.items():
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            group = _group(scheme, rng)
            changed = Group(tuple(change(m, i, rng) for i, m in enumerate(group.trajectories)), group.task)
            if not _equal(scheme, group, changed):
                read.append(name)
                break
    return tuple(read)


def with_fresh_keys(group: Group) -> Group:
    """The group with a distinct key for every state but the first of each rollout."""
    rng = np.random.default_rng(0)  # not drawn from
    return Group(tuple(_fresh(m, i, rng) for i, m in enumerate(group.trajectories)), group.task)


def _group(scheme: Scheme, rng: np.random.Generator) -> Group:
    options: dict[str, Any] = {"dense": True, "unit_costs": False, "outcome": 0.5}
    return random_group(rng, values=scheme.needs, token_values=scheme.requires_tokens, **options)


def _equal(scheme: Scheme, a: Group, b: Group) -> bool:
    before, after = scheme.assign(a), scheme.assign(b)
    same = np.allclose(before.flat_advantages, after.flat_advantages, rtol=1e-9, atol=1e-12)
    return bool(same) and np.array_equal(before.flat_loss_mask, after.flat_loss_mask)

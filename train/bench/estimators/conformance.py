"""Which of our schemes an estimator computes: compared on random batches of several situations, with the first difference.

A situation is a kind of batch in which released implementations are known to part: equal outcomes, groups of one,
episodes of unequal length, rewards at every turn, several groups. All groups of a batch have one size, as some trainers need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.estimators.contract import EstimatorFunction, TurnRows, advantages_of, rows_of
from creditflow.train.bench.estimators.loading import EstimatorScheme
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Credit, CreditError, Scheme
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.records.arrays import split_flat
from creditflow.wrappers.records.group import Group

__all__ = [
    "REJECTED",
    "SITUATIONS",
    "Candidate",
    "Conformance",
    "RandomBatches",
    "ReinforcePlusPlus",
    "candidates",
    "compare",
]


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlus(Scheme):
    """REINFORCE++: returns-to-go of tokens, whitened over all tokens of the batch; without KL, discount 1.

    Attributes:
        baseline: "group" subtracts the group's mean return and gives every token of a trajectory its outcome, as REINFORCE++-baseline.
    """

    name: ClassVar[str] = "reinforce_plus_plus"
    source: ClassVar[str] = "Hu et al. 2025 (REINFORCE++, arXiv 2501.03262)"
    baseline: Literal["none", "group"] = "none"

    def assign(self, group: Group) -> Credit:
        """Score one group as a batch of its own."""
        return self.assign_batch([group])[0]

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Score a batch, which is whitened as a whole; equal values give 0."""
        raw = np.concatenate([self._returns(group) for group in groups])
        tokens = np.concatenate([np.maximum(group.token_counts, 1) for group in groups])
        mean = np.average(raw, weights=tokens)
        # sample variance over tokens
        variance = float(tokens @ (raw - mean) ** 2) / max(int(tokens.sum()) - 1, 1)
        white = (raw - mean) / np.sqrt(variance) if variance > 0.0 else np.zeros_like(raw)
        steps = np.split(white, np.cumsum([len(group.arrays.reward) for group in groups])[:-1])
        return [Credit.of(g, outcome=np.zeros(g.arrays.size), step=step) for g, step in zip(groups, steps, strict=True)]

    def _returns(self, group: Group) -> NDArray[np.float64]:
        arrays = group.arrays
        if self.baseline == "group":
            centered: NDArray[np.float64] = (arrays.returns - arrays.returns.mean())[arrays.trajectory]
            return centered
        # the reward of a turn stands at its last token, so all its tokens have one return-to-go
        return np.concatenate([np.cumsum(rewards[::-1])[::-1] for rewards in split_flat(arrays.reward, arrays.offsets)])


Floats = NDArray[np.float64]
EXACT: Final = 1e-5  # relative; others compute in float32
NEAR: Final = 2e-3  # relative: another small number added to a standard deviation
BATCHES: Final = 20
REJECTED: Final = "not scored: "  # and why the estimator failed


def _groups(rng: np.random.Generator, count: int, size: int, **options: Any) -> list[Group]:
    """Random groups of one size with ids of their own, in which every action is valid."""
    groups = []
    for number in range(count):
        group = random_group(rng, size=size, **options)
        members = []
        for member in group.trajectories:
            turns = tuple(replace(turn, parsed=True) for turn in member.turns)
            members.append(replace(member, group_id=f"g{number}", turns=turns))
        groups.append(Group(tuple(members), group.task))
    return groups


def _outcome(rng: np.random.Generator) -> list[Group]:
    while True:  # at least one success and one failure
        [group] = _groups(rng, 1, int(rng.integers(3, 9)))
        if 0 < group.arrays.success.sum() < len(group):
            return [group]


def _equal_lengths(rng: np.random.Generator) -> list[Group]:
    [group] = _outcome(rng)
    shortest = min(len(m.turns) for m in group.trajectories)
    members = []
    for m in group.trajectories:  # its last turns, in which its reward is
        turns = m.turns[len(m.turns) - shortest :]
        members.append(replace(m, turns=turns))
    return [Group(tuple(members), group.task)]


SITUATIONS: Final[Mapping[str, Callable[[np.random.Generator], list[Group]]]] = MappingProxyType(
    {
        "equal lengths": _equal_lengths,  # one reward, at the end; a success and a failure at least
        "unequal lengths": _outcome,
        "several groups": lambda rng: [group for _ in range(3) for group in _groups(rng, 1, 4)],
        "several tokens a turn": lambda rng: _groups(rng, 1, int(rng.integers(3, 9)), token_values=("value.critic",)),
        "rewards at every turn": lambda rng: _groups(rng, 1, int(rng.integers(3, 9)), dense=True),
        "equal outcomes": lambda rng: _groups(rng, 1, int(rng.integers(3, 9)), outcome=float(rng.integers(2))),
        "groups of one": lambda rng: _groups(rng, 2, 1, outcome=float(rng.integers(2))),
    }
)


@dataclass(frozen=True)
class Candidate:
    """One of our schemes with parameters.

    Attributes:
        name: "SCHEME (SEMANTICS)" with what differs from it.
        scheme: the scheme.
    """

    name: str
    scheme: Scheme


@dataclass(frozen=True)
class Conformance:
    """How an estimator compares with one candidate.

    Attributes:
        candidate: its name.
        verdicts: by situation: "equal", "equal up to a small number" (in a denominator), "proportional" (in every batch by a
            positive factor), "differs", or why it could not be compared.
        largest: by situation, the largest difference relative to the largest advantage of the batch.
        first: by situation in which they differ, the first difference: batch, trajectory, turn, both advantages, outcomes.
    """

    candidate: str
    verdicts: dict[str, str]
    largest: dict[str, float]
    first: dict[str, str]

    @property
    def equal(self) -> tuple[str, ...]:
        """Situations in which they are equal, exactly or up to a small number."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict.startswith("equal"))

    @property
    def identified(self) -> bool:
        """Whether they are equal in every situation that was scored, among them the common one."""
        return "unequal lengths" in self.largest and len(self.equal) == len(self.largest)


# released code keeps the score of a singleton, and Dr. GRPO does not divide
VARIANTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("grpo", {"singleton_outcome": "raw"}),
    ("grpo", {"outcome_scale": "none"}),
    ("grpo", {"outcome_scale": "none", "singleton_outcome": "raw"}),
    ("rloo", {"singleton_outcome": "raw"}),
    ("gigpo", {"outcome_scale": "none", "step_scale": "none"}),
    ("gigpo", {"outcome_scale": "none", "step_scale": "none", "stats_over": "turns", "singleton_outcome": "raw"}),
    ("gigpo", {"stats_over": "turns", "singleton_outcome": "raw"}),
)


def candidates() -> list[Candidate]:
    """Every scheme that needs no annotations and no task, in each of its semantics; common variants; REINFORCE++."""
    pool = []
    for name in credit.names():
        kind = lookup(name)
        if kind.requires or kind.requires_tokens or kind.task_fields or issubclass(kind, EstimatorScheme):
            continue
        for preset in kind.presets:
            options = kind.preset(preset)
            if "key" in options:  # the estimator sees state keys; released code compares texts
                options["key"] = "state"
            pool.append(Candidate(f"{name} ({preset})", credit.make(name, **options)))
    for name, options in VARIANTS:
        changed = ", ".join(f"{key}={value}" for key, value in options.items())
        pool.append(Candidate(f"{name} ({changed})", credit.make(name, **options)))
    pool.append(Candidate("reinforce_plus_plus (paper)", ReinforcePlusPlus()))
    pool.append(Candidate("reinforce_plus_plus_baseline (paper)", ReinforcePlusPlus(baseline="group")))
    return pool


class RandomBatches:
    """Random batches of every situation, with the advantages of candidates on them, each computed once.

    Args:
        seed: seed of the batches.
        count: batches of each situation.
    """

    def __init__(self, seed: int = 0, count: int = BATCHES) -> None:
        self.batches: dict[str, list[_Batch]] = {}
        for number, (situation, sample) in enumerate(SITUATIONS.items()):
            generators = [np.random.default_rng([seed, number, draw]) for draw in range(count)]
            self.batches[situation] = [_batch(sample(rng)) for rng in generators]
        self._computed: dict[tuple[str, str], list[Floats]] = {}

    def advantages(self, candidate: Candidate, situation: str) -> list[Floats]:
        """The candidate's advantages on the batches of a situation."""
        key = candidate.name, situation
        if key not in self._computed:
            assigned = [candidate.scheme.assign_batch(batch.groups) for batch in self.batches[situation]]
            self._computed[key] = [_flat(of_batch) for of_batch in assigned]
        return self._computed[key]


class _Batch(NamedTuple):
    groups: list[Group]
    rows: TurnRows


def _flat(assigned: Sequence[Credit]) -> Floats:
    return np.concatenate([of_group.flat_advantages for of_group in assigned])


def _batch(groups: list[Group]) -> _Batch:
    return _Batch(groups, rows_of(groups))


def compare(
    name: str, function: EstimatorFunction, pool: Sequence[Candidate], random: RandomBatches
) -> list[Conformance]:
    """Compare an estimator with each candidate on the same batches.

    Args:
        name: name of the estimator, for messages.
        function: the estimator.
        pool: what it is compared with.
        random: the batches.
    """
    theirs, rejected = dict[str, list[Floats]](), dict[str, str]()
    for situation, batches in random.batches.items():
        try:
            theirs[situation] = [advantages_of(name, function, batch.rows)[0] for batch in batches]
        except CreditError as error:
            rejected[situation] = f"{REJECTED}{error}"
    return [_compared(theirs, rejected, candidate, random) for candidate in pool]


def _compared(
    theirs: Mapping[str, Sequence[Floats]], rejected: Mapping[str, str], candidate: Candidate, random: RandomBatches
) -> Conformance:
    verdicts, largest, first = dict(rejected), dict[str, float](), dict[str, str]()
    for situation, values in theirs.items():
        try:
            ours = random.advantages(candidate, situation)
        except CreditError as error:
            verdicts[situation] = f"ours is not defined: {error}"
            continue
        errors = [relative_difference(a, b) for a, b in zip(values, ours, strict=True)]
        worst = largest[situation] = max(errors)
        if worst <= EXACT:
            verdicts[situation] = "equal"
        elif worst <= NEAR:
            verdicts[situation] = "equal up to a small number"
        else:
            proportional = all(_proportional(a, b) for a, b in zip(values, ours, strict=True))
            verdicts[situation] = "proportional" if proportional else "differs"
            draw = next(i for i, error in enumerate(errors) if error > NEAR)
            first[situation] = _difference(random.batches[situation][draw].rows, values[draw], ours[draw], draw)
    return Conformance(candidate.name, {name: verdicts[name] for name in SITUATIONS}, largest, first)


def relative_difference(theirs: Floats, ours: Floats) -> float:
    """Largest difference relative to the largest advantage; 0 where both are 0."""
    scale = float(max(np.abs(theirs).max(initial=0.0), np.abs(ours).max(initial=0.0)))
    return float(np.abs(theirs - ours).max(initial=0.0)) / scale if scale > EXACT else 0.0


def _proportional(theirs: Floats, ours: Floats) -> bool:
    """Whether they agree up to a positive factor; of two zeros, yes."""
    if not ours.any() or not theirs.any():
        return not ours.any() and not theirs.any()
    factor = float(theirs @ ours) / float(ours @ ours)
    return factor > 0.0 and relative_difference(theirs, factor * ours) <= NEAR


def _difference(rows: TurnRows, theirs: Floats, ours: Floats, draw: int) -> str:
    at = int(np.argmax(np.abs(theirs - ours)))
    trajectory = int(rows.trajectory[at])
    returns = ", ".join(f"{value:.4g}" for value in rows.returns[:8])
    lengths = ", ".join(map(str, np.bincount(rows.trajectory)[:8].tolist()))
    return (
        f"batch {draw}: trajectory {trajectory}, turn {int(rows.step[at])}: {theirs[at]:.6g}, ours {ours[at]:.6g} (returns {returns}; "
        f"turns {lengths})"
    )

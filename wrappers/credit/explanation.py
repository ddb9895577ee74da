"""Why a turn has its advantage: the terms that add up to it, and what each was compared with.

The terms are those that the scheme passes to ``Credit.of``, and the comparisons are what ``normalize`` computed while
the scheme ran. No formula is computed a second time, so an explanation cannot differ from the credit.

A training run may also change rewards before credit (KL, overlong completions). These changes are not explained here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, printable, unknown_name_error
from creditflow.wrappers.credit.base import RECORDER, STEP, Credit, Recording, Scheme, SchemeContractError, Statistics
from creditflow.wrappers.credit.combined import Sum, schemes_of
from creditflow.wrappers.credit.registry import assigned, make
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.records.group import Group

__all__ = ["Comparison", "Explanation", "SameState", "Scored", "Term", "explain", "scored"]

TOLERANCE: Final = 1e-12  # of the sum of the terms, relative to the largest
LISTED: Final = 12  # turns that the text lists


@dataclass(frozen=True, slots=True)
class Term:
    """A summand of an advantage, with its weight and sign."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A quantity of the turn, or of its trajectory, against the group that it was normalised in.

    Attributes:
        quantity: what it is.
        value: this turn's.
        mean, deviation: of the samples.
        divisor: what value − mean was divided by.
        result: the normalised value, before any weight.
        samples: the trajectories or turns (TRAJECTORY:TURN) that mean and deviation were computed from.
    """

    quantity: str
    value: float
    mean: float
    deviation: float
    divisor: float
    result: float
    samples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SameState:
    """A turn of the group in the same state."""

    turn: str
    action: str
    advantage: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """One advantage and where it comes from.

    Attributes:
        scheme, group_id, trajectory_id, turn: which number it is.
        state: key of the state before the turn, as the scheme keys states.
        action, reward: of the turn.
        advantage: the number.
        terms: its summands.
        comparisons: what was compared with what.
        same_state: all turns of the group in this state, this one included.
        numbers: further numbers of the turn or its state, from the diagnostics of the credit.
        parameters: parameters of the scheme.
    """

    scheme: str
    group_id: str
    trajectory_id: str
    turn: int
    state: str
    action: str
    reward: float
    advantage: float
    terms: tuple[Term, ...]
    comparisons: tuple[Comparison, ...]
    same_state: tuple[SameState, ...]
    numbers: Mapping[str, float]
    parameters: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return plain data. A number that is not finite, such as the distance of a dead state, is None."""
        numbers = {name: value if math.isfinite(value) else None for name, value in self.numbers.items()}
        return asdict(self) | {"numbers": numbers}

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.text()}\n\nparameters\n  {parameters}"

    def text(self) -> str:
        """Return the explanation in lines, without the parameters."""
        lines = [
            f"{self.scheme}: group {self.group_id}, trajectory {self.trajectory_id}, turn {self.turn}",
            f"state {self.state}, action {self.action}, reward {self.reward:g}",
            "",
            f"{self.advantage:+.6g} is the sum of",
            *(f"  {term.value:+.6g}  {term.name}" for term in self.terms),
        ]
        if self.comparisons:
            lines += ["", "compared"]
        for comparison in self.comparisons:
            lines += [
                f"  {comparison.quantity}: ({comparison.value:.6g} − mean {comparison.mean:.6g}) / {comparison.divisor:.6g} "
                f"= {comparison.result:+.6g}; standard deviation {comparison.deviation:.6g}",
                f"    of {len(comparison.samples)}: {_listed(comparison.samples)}",
            ]
        turns = [f"{turn.turn} ({turn.action}, {turn.advantage:+.4g})" for turn in self.same_state]
        lines += ["", f"turns in this state: {len(turns)}", f"  {_listed(turns)}"]
        if self.numbers:
            lines += ["", "numbers of this turn", *(f"  {name} {value:.6g}" for name, value in self.numbers.items())]
        return printable("\n".join(lines))


def explain(
    group: Group, scheme: Scheme | str, trajectory: int | str, turn: int, *, batch: Sequence[Group] = ()
) -> Explanation:
    """Explain the advantage that a scheme gives to one turn.

    >>> from creditflow.wrappers.credit.random_group import random_group
    >>> why = explain(random_group(np.random.default_rng(0)), "grpo", 0, 0)
    >>> math.isclose(math.fsum(term.value for term in why.terms), why.advantage)
    True

    Args:
        group: the group.
        scheme: a scheme, or the name of one with its default parameters.
        trajectory: index or id of the trajectory.
        turn: number of the turn among those that the trajectory stores, from 0.
        batch: the groups that are scored together, ``group`` among them. It matters to schemes that couple groups.

    Raises:
        ConfigError: there is no such trajectory or turn.
        CreditError: the scheme cannot score the group.
    """
    index = _index(group, trajectory)
    if not 0 <= turn < len(group.trajectories[index].turns):
        raise ConfigError(
            f"trajectory {group.trajectories[index].trajectory_id!r} has turns 0 to "
            f"{len(group.trajectories[index].turns) - 1}, got {turn}"
        )
    [view] = scored([group], scheme, batch)
    return view.explanation(index, turn)


def scored(groups: Sequence[Group], scheme: Scheme | str, batch: Sequence[Group] = ()) -> list[Scored]:
    """Assign credit to groups and keep what was compared on the way.

    Args:
        groups: the groups.
        scheme: a scheme, or the name of one with its default parameters.
        batch: the groups that are scored together, ``groups`` among them; none are ``groups`` alone.

    Raises:
        CreditError: the scheme cannot score a group.
    """
    scheme = make(scheme) if isinstance(scheme, str) else scheme
    together = list(batch) or list(groups)
    recorder = Recording()
    token = RECORDER.set(recorder)
    try:
        credits_ = assigned(scheme, together)
    finally:
        RECORDER.reset(token)
    credit_of = {id(group): credit for group, credit in zip(together, credits_, strict=True)}
    return [Scored(group, scheme, credit_of[id(group)], recorder.of(group)) for group in groups]


class Scored:
    """A group, its credit, and what was recorded while it was computed.

    Attributes:
        group, credit: the group and its credit.
        statistics: what ``normalize`` compared, call by call.
        turns: trajectory and turn of every turn of the group, in order.
    """

    def __init__(self, group: Group, scheme: Scheme, credit: Credit, statistics: Sequence[Statistics]) -> None:
        arrays = group.arrays
        self.group, self.scheme, self.credit, self.statistics = group, scheme, credit, statistics
        self.offsets = arrays.offsets.tolist()
        starts = arrays.offsets[arrays.trajectory]
        self.turns = list(zip(arrays.trajectory.tolist(), (np.arange(len(starts)) - starts).tolist(), strict=True))
        over_states = next((each for each in schemes_of(scheme) if isinstance(each, StateScheme)), None)
        states = group.states("state") if over_states is None else over_states.states(group)
        self.state, self.keys = states.state, states.keys

    def explanation(self, trajectory: int, turn: int) -> Explanation:
        """Explain one turn."""
        at = self.offsets[trajectory] + turn
        member = self.group.trajectories[trajectory]
        advantage = float(self.credit.advantages[trajectory][turn])
        return Explanation(
            scheme=self.scheme.name,
            group_id=self.group.group_id,
            trajectory_id=member.trajectory_id,
            turn=turn,
            state=self.keys[self.state[at]],
            action=member.turns[turn].action,
            reward=float(member.turns[turn].reward),
            advantage=advantage,
            terms=self._terms(trajectory, at, advantage),
            comparisons=tuple(self._comparisons(trajectory, at)),
            same_state=tuple(map(self._same_state, np.flatnonzero(self.state == self.state[at]).tolist())),
            numbers=self._numbers(at),
            parameters=_parameters(self.scheme),
        )

    def _terms(self, trajectory: int, at: int, advantage: float) -> tuple[Term, ...]:
        named = self.credit.step_terms or {STEP: self.credit.flat_step_advantages}
        outcome = Term("outcome advantage", float(self.credit.outcome_advantages[trajectory]))
        terms = (outcome, *(Term(name, float(values[at])) for name, values in named.items()))
        largest = max(1.0, *(abs(term.value) for term in terms))
        if abs(math.fsum(term.value for term in terms) - advantage) > TOLERANCE * largest:
            raise SchemeContractError(
                f"scheme {self.scheme.name!r}: step_terms must add up to flat_step_advantages, got {list(named)} at turn {at}"
            )
        return terms

    def _comparisons(self, trajectory: int, at: int) -> list[Comparison]:
        comparisons: dict[tuple[int, int], Comparison] = {}
        for number, statistics in enumerate(self.statistics):
            of_turn = np.flatnonzero(statistics.rows == at)
            for entry in of_turn if len(of_turn) else np.flatnonzero(statistics.rows == -1 - trajectory):
                label = statistics.labels[entry]
                samples = statistics.rows[statistics.sample & (statistics.labels == label)]
                comparisons.setdefault(
                    (number, int(label)),
                    Comparison(
                        statistics.quantity,
                        value=float(statistics.x[entry]),
                        mean=float(statistics.mean[label]),
                        deviation=float(statistics.deviation[label]),
                        divisor=float(statistics.divisor[entry]),
                        result=float(statistics.result[entry]),
                        samples=tuple(self._place(row) for row in samples.tolist()),
                    ),
                )
        return list(comparisons.values())

    def _place(self, row: int) -> str:
        if row < 0:
            return self.group.trajectories[-1 - row].trajectory_id
        trajectory, turn = self.turns[row]
        return f"{self.group.trajectories[trajectory].trajectory_id}:{turn}"

    def _same_state(self, at: int) -> SameState:
        trajectory, turn = self.turns[at]
        action = self.group.trajectories[trajectory].turns[turn].action
        return SameState(self._place(at), action, float(self.credit.flat_advantages[at]))

    def _numbers(self, at: int) -> dict[str, float]:
        """The diagnostics that are numbers of a turn, of a state or of the group."""
        diagnostics = self.credit.diagnostics
        keys = list(diagnostics.get("node_keys", ()))
        node = keys.index(self.keys[self.state[at]]) if self.keys[self.state[at]] in keys else -1
        numbers = {}
        if self.credit.flat_step_rewards.any():
            numbers["step reward"] = float(self.credit.flat_step_rewards[at])
        for name, value in diagnostics.items():
            array = np.asarray(value) if isinstance(value, np.ndarray | float | int) else None
            if array is None or array.dtype.kind not in "fiub":
                continue
            if array.ndim == 0:
                numbers[name] = float(array)
            elif name in diagnostics.get("node_numbers", ()):
                if node >= 0:
                    numbers[f"{name} of the state"] = float(array[node])
            elif array.shape == (len(self.turns),):
                numbers[name] = float(array[at])
        return numbers


def _parameters(scheme: Scheme) -> dict[str, Any]:
    """The parameters by name, those of a sum by scheme and name."""
    if isinstance(scheme, Sum):
        return {f"{each.name}.{name}": value for each in scheme.schemes for name, value in _parameters(each).items()}
    return {field.name: getattr(scheme, field.name) for field in fields(scheme)}


def _index(group: Group, trajectory: int | str) -> int:
    ids = [member.trajectory_id for member in group.trajectories]
    if isinstance(trajectory, str):
        if trajectory not in ids:
            raise unknown_name_error(f"trajectory in group {group.group_id!r}", trajectory, ids)
        return ids.index(trajectory)
    if not 0 <= trajectory < len(ids):
        raise ConfigError(f"group {group.group_id!r} has trajectories 0 to {len(ids) - 1}, got {trajectory}")
    return trajectory


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - LISTED} more" if len(texts) > LISTED else ""
    return ", ".join(texts[:LISTED]) + more

"""``check_credit``: the promises a credit scheme makes, tried on random groups; counterexamples for the rest.

What every scheme owes (purity, shapes, finite numbers) is always required. What a scheme *declares* must hold on every
group tried, else ``SchemeContractError``. For properties it does not declare, the report holds the first
counterexample found, which says more about a scheme than a list of features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import CreditflowError, unknown_name_error
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["PROPERTIES", "CheckReport", "SchemeContractError", "check_credit"]

Property = Callable[[Scheme, np.random.Generator], str]


class SchemeContractError(CreditflowError, AssertionError):
    """A scheme breaks a rule that all schemes owe, or one that it declares."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Outcome of ``check_credit``.

    Attributes:
        scheme: its name.
        declared: properties it promises (all held).
        counterexamples: for each property that failed, the first group found that breaks it.
    """

    scheme: str
    declared: frozenset[str]
    counterexamples: dict[str, str]

    def holds(self, name: str) -> bool:
        """Whether no counterexample to the property was found."""
        if name not in PROPERTIES:
            raise unknown_name_error("property", name, PROPERTIES)
        return name not in self.counterexamples

    def __str__(self) -> str:
        lines = [f"check_credit({self.scheme})"]
        for name, check in PROPERTIES.items():
            rule = (check.__doc__ or "").splitlines()[0]
            verdict = "declared" if name in self.declared else "holds" if self.holds(name) else "fails"
            lines.append(f"  {name:16} {verdict:9} {rule}")
            if name in self.counterexamples:
                lines.append(f"{'':28} {self.counterexamples[name]}")
        return "\n".join(lines)


def _draw(scheme: Scheme, rng: np.random.Generator, **options: Any) -> Group:
    """A random group with the annotations that the scheme needs."""
    return random_group(rng, values=scheme.needs, token_values=scheme.requires_tokens, **options)


# -- changed groups -----------------------------------------------------------------------------------------------------
def _changed(group: Group, change: Callable[[Turn, bool], Turn]) -> Group:
    """The group with ``change(turn, is_last)`` applied to every turn."""
    return Group(
        tuple(
            replace(m, turns=tuple(change(turn, t == len(m.turns) - 1) for t, turn in enumerate(m.turns)))
            for m in group.trajectories
        ),
        group.task,
    )


def _describe(group: Group, got: NDArray[np.float64], expected: NDArray[np.float64] | float) -> str:
    walks = "; ".join(
        " ".join([*(t.state_key for t in m.turns), m.final_state_key]) + f" ({m.stop_reason})"
        for m in group.trajectories[:3]
    )
    worst = int(np.argmax(np.abs(got - expected))) if got.size else 0
    want = expected if isinstance(expected, float) else float(expected.flat[worst])
    return f"{len(group)} rollouts [{walks}{' …' if len(group) > 3 else ''}]: {got.flat[worst]:.4g}, not {want:.4g}"


def _compare(group: Group, got: NDArray[np.float64], expected: NDArray[np.float64] | float) -> str:
    return "" if np.allclose(got, expected, rtol=1e-7, atol=1e-9) else _describe(group, got, expected)


# -- properties: "" if it held on this draw, else the counterexample ------------------------------------------------------
def permutation(scheme: Scheme, rng: np.random.Generator) -> str:
    """The order of the rollouts does not matter."""
    group = _draw(scheme, rng, dense=True)
    order = rng.permutation(len(group))
    shuffled = Group(tuple(group.trajectories[i] for i in order), group.task)
    before, after = scheme.assign(group).advantages, scheme.assign(shuffled).advantages
    return _compare(shuffled, np.concatenate(after), np.concatenate([before[i] for i in order]))


def one_member_zero(scheme: Scheme, rng: np.random.Generator) -> str:
    """A group of one teaches nothing about its outcome."""
    group = _draw(scheme, rng, size=1)
    return _compare(group, scheme.assign(group).outcome_advantages, 0.0)


def ties_zero(scheme: Scheme, rng: np.random.Generator) -> str:
    """Equal rollouts get exactly nothing."""
    alone = _draw(scheme, rng, size=1, dense=True)
    one = alone.trajectories[0]
    plain = replace(one, turns=tuple(replace(turn, parsed=True) for turn in one.turns))
    # distinct states, so that no state is compared with itself at another time
    walk = _unrolled(plain)
    members = tuple(replace(walk, trajectory_id=f"t{i}") for i in range(int(rng.integers(2, 6))))
    group = Group(members, alone.task)
    got = scheme.assign(group).flat_advantages
    return "" if (got == 0.0).all() else _describe(group, got, 0.0)


def all_fail_zero(scheme: Scheme, rng: np.random.Generator) -> str:
    """A group without success and without rewards gets nothing."""
    group = _draw(scheme, rng, outcome=0.0, unit_costs=False)
    return _compare(group, scheme.assign(group).flat_advantages, 0.0)


def shift(scheme: Scheme, rng: np.random.Generator) -> str:
    """Adding a constant to every return changes nothing."""
    group = _draw(scheme, rng, dense=True)
    moved = _changed(group, lambda turn, last: replace(turn, reward=turn.reward + 3.0) if last else turn)
    return _compare(moved, scheme.assign(moved).flat_advantages, scheme.assign(group).flat_advantages)


def scale(scheme: Scheme, rng: np.random.Generator) -> str:
    """Multiplying every reward by a positive number changes nothing."""
    group = _draw(scheme, rng, dense=True)
    scaled = _changed(group, lambda turn, _: replace(turn, reward=turn.reward * 8.0))
    return _compare(scaled, scheme.assign(scaled).flat_advantages, scheme.assign(group).flat_advantages)


def homogeneous(scheme: Scheme, rng: np.random.Generator) -> str:
    """Multiplying every reward by a number multiplies all credit by it."""
    group = _draw(scheme, rng, dense=True)
    scaled = _changed(group, lambda turn, _: replace(turn, reward=turn.reward * 8.0))
    return _compare(scaled, scheme.assign(scaled).flat_advantages, 8.0 * scheme.assign(group).flat_advantages)


def stopping_time(scheme: Scheme, rng: np.random.Generator) -> str:
    """When all outcomes are equal, taking more or fewer turns earns nothing."""
    group = _draw(scheme, rng, outcome=float(rng.integers(2)))
    return _compare(group, scheme.assign(group).flat_advantages, 0.0)


def telescoping(scheme: Scheme, rng: np.random.Generator) -> str:
    """Shaping sums to a function of the first and last state, whatever the way."""
    group = _draw(scheme, rng)
    sums = np.array([rewards.sum() for rewards in scheme.assign(group).step_rewards])
    ends = [(m.final_state_key, m.end) for m in group.trajectories]
    expected = np.array([sums[ends.index(end)] for end in ends])
    return _compare(group, sums, expected)


def monotone(scheme: Scheme, rng: np.random.Generator) -> str:
    """From one state, a step nearer to success gets more step credit (GraphGPO, proposition 4.1)."""
    group = _draw(scheme, rng, outcome=0.6, unit_costs=False)
    graph = StateGraph.from_group(group)
    distance = graph.distances()
    if not len(graph.goals):
        return ""
    far = distance[np.isfinite(distance)].max() + 1.0
    length = np.where(np.isfinite(distance), distance, far)[graph.target] + graph.cost
    got = scheme.assign(group).flat_step_advantages
    for state in np.unique(graph.source):
        at = np.flatnonzero((graph.source == state) & group.arrays.parsed)
        order = at[np.argsort(length[at], kind="stable")]
        # far steps may round to one number beside a near one, but never turn round, nor all be alike
        near = np.concatenate([order[:-1], order[:1]])
        farther = np.concatenate([order[1:], order[-1:]])
        slack = np.append(np.full(len(order) - 1, 1e-9), 0.0) if len(order) else np.zeros(0)
        wrong = (length[farther] > length[near] + 1e-9) & ~(got[near] + slack > got[farther])
        if wrong.any():
            return _describe(group, got[farther[wrong]], got[near[wrong]])
    return ""


def keeps_sign(scheme: Scheme, rng: np.random.Generator) -> str:
    """No step part turns the sign of a trajectory's outcome."""
    group = _draw(scheme, rng, dense=True)
    scored = scheme.assign(group)
    outcome = scored.outcome_advantages[group.arrays.trajectory]
    turned = scored.flat_advantages * np.sign(outcome) < -1e-9 * np.abs(outcome)
    return _describe(group, scored.flat_advantages[turned], outcome[turned]) if turned.any() else ""


def unnamed_entity(scheme: Scheme, rng: np.random.Generator) -> str:
    """An entity of the task that no text names changes nothing."""
    group = _draw(scheme, rng)
    task = {**group.task, "entities": [*group.task["entities"], "never named"]}
    more = Group(group.trajectories, task)
    return _compare(more, scheme.assign(more).flat_advantages, scheme.assign(group).flat_advantages)


def branches(scheme: Scheme, rng: np.random.Generator) -> str:
    """A branch's own turns earn what they earn in its whole episode."""
    forked, whole = random_fork(rng, _draw(scheme, rng, dense=True))
    stored, told = scheme.assign(forked), scheme.assign(whole)
    shared = forked.trajectories[-1].fork_turn
    got = np.concatenate([stored.step_rewards[-1], stored.outcome_advantages])
    return _compare(forked, got, np.concatenate([told.step_rewards[-1][shared:], told.outcome_advantages]))


def _unrolled(trajectory: Trajectory) -> Trajectory:
    """The trajectory with every state made distinct."""
    n = len(trajectory.turns)
    turns = tuple(
        replace(turn, state_key=f"{t}", next_state_key=f"{t + 1}", text_key=f"{t}", effective=True)
        for t, turn in enumerate(trajectory.turns)
    )
    return replace(trajectory, turns=turns, final_state_key=f"{n}", final_text_key=f"{n}")


_ALL = (permutation, one_member_zero, ties_zero, all_fail_zero, shift, scale, homogeneous, stopping_time, telescoping)
PROPERTIES: dict[str, Property] = {
    check.__name__: check for check in (*_ALL, monotone, keeps_sign, unnamed_entity, branches)
}


# -- what every scheme owes -----------------------------------------------------------------------------------------------
def _check_contract(scheme: Scheme, rng: np.random.Generator) -> None:
    group = _draw(scheme, rng, dense=True, unit_costs=False)
    _check_one(scheme, group)
    # what logs hold and schemes forget: a rollout that ended before its first turn, a group of one
    first = group.trajectories[0]
    start = first.turns[0].state_key
    unmoved = Trajectory("unmoved", first.group_id, first.task_id, (), False, 0.0, "env_error", start)
    _check_one(scheme, Group((*group.trajectories, unmoved), group.task))
    _check_one(scheme, Group((first,), group.task))
    groups = [group, Group((unmoved,), group.task), Group((first,), group.task)]
    batch = scheme.assign_batch(groups)
    if [len(credit.flat_advantages) for credit in batch] != [len(g.turns) for g in groups]:
        raise SchemeContractError(f"{scheme.name}: assign_batch must return one Credit per group, in order")


def _check_one(scheme: Scheme, group: Group) -> None:
    first, second = scheme.assign(group), scheme.assign(group)
    arrays = group.arrays
    n = len(group.turns)

    def require(condition: bool, rule: str) -> None:
        if not condition:
            raise SchemeContractError(f"{scheme.name}: {rule}")

    require(isinstance(first, Credit), f"assign must return Credit, got {type(first).__name__}")
    per_turn = ("flat_step_rewards", "flat_step_advantages", "flat_loss_mask")
    for name, size in (("outcome_advantages", arrays.size), *((name, n) for name in per_turn)):
        value = getattr(first, name)
        require(value.shape == (size,), f"{name} must have shape ({size},), got {value.shape}")
        require(bool(np.isfinite(value).all()), f"{name} must be finite")
        require(np.array_equal(value, getattr(second, name)), f"assign must be pure: {name} differed on a second call")
    batch = scheme.assign_batch([group])
    require(len(batch) == 1, "assign_batch must return one Credit per group")
    require(first.flat_loss_mask.dtype == np.bool_, f"loss_mask must be bool, got {first.flat_loss_mask.dtype}")
    require(
        np.array_equal(batch[0].flat_advantages, first.flat_advantages), "assign_batch of one group must equal assign"
    )


def check_credit(scheme: Scheme, *, draws: int = 60, seed: int = 0) -> CheckReport:
    """Try all properties on random groups.

    Args:
        scheme: an instance, with the parameters to check.
        draws: random groups per property.
        seed: of the groups.

    Raises:
        SchemeContractError: a duty of every scheme, or a declared property, does not hold; with the counterexample.
    """
    unknown = scheme.checked_properties - set(PROPERTIES)
    if unknown:
        raise unknown_name_error("property", sorted(unknown)[0], PROPERTIES)
    for draw in range(draws):
        _check_contract(scheme, np.random.default_rng([seed, draw]))
    found: dict[str, str] = {}
    for name, check in PROPERTIES.items():
        for draw in range(draws):
            counterexample = check(scheme, np.random.default_rng([seed, draw]))
            if counterexample:
                found[name] = counterexample
                break
    broken = sorted(scheme.checked_properties & set(found))
    if broken:
        raise SchemeContractError(f"{scheme.name} declares {broken[0]!r} but: {found[broken[0]]}")
    return CheckReport(scheme.name, scheme.checked_properties, found)

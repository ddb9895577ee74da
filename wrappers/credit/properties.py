"""Properties of credit schemes as checks on a random group, which return "" or a counterexample.

The first line of a docstring is the rule that ``CheckReport`` prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group, backward_sums
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["PROPERTIES", "Property", "sample_group"]

Property = Callable[[Scheme, np.random.Generator], str]


def sample_group(scheme: Scheme, rng: np.random.Generator, **options: Any) -> Group:
    """Sample a random group with the annotations that the scheme needs."""
    return random_group(rng, values=scheme.needs, token_values=scheme.requires_tokens, **options)


def _changed(group: Group, change: Callable[[Turn, bool], Turn]) -> Group:
    """Apply ``change(turn, is_last)`` to every turn."""
    members = []
    for member in group.trajectories:
        last = len(member.turns) - 1
        members.append(replace(member, turns=tuple(change(turn, t == last) for t, turn in enumerate(member.turns))))
    return Group(tuple(members), group.task)


def _describe(group: Group, got: NDArray[np.float64], expected: NDArray[np.float64] | float) -> str:
    paths = "; ".join(map(_path, group.trajectories[:3]))
    worst = int(np.argmax(np.abs(got - expected))) if got.size else 0
    correct = expected if isinstance(expected, float) else float(expected.flat[worst])
    return (
        f"{len(group)} trajectories [{paths}{' …' if len(group) > 3 else ''}]: "
        f"{got.flat[worst]:.4g} instead of {correct:.4g}"
    )


def _path(member: Trajectory) -> str:
    return " ".join([*(turn.state_key for turn in member.turns), member.final_state_key]) + f" ({member.stop_reason})"


def _compare(group: Group, got: NDArray[np.float64], expected: NDArray[np.float64] | float) -> str:
    return "" if np.allclose(got, expected, rtol=1e-7, atol=1e-9) else _describe(group, got, expected)


def permutation(scheme: Scheme, rng: np.random.Generator) -> str:
    """The order of trajectories does not matter."""
    group = sample_group(scheme, rng, dense=True)
    order = rng.permutation(len(group))
    shuffled = Group(tuple(group.trajectories[i] for i in order), group.task)
    before, after = scheme.assign(group).advantages, scheme.assign(shuffled).advantages
    return _compare(shuffled, np.concatenate(after), np.concatenate([before[i] for i in order]))


def batch_permutation(scheme: Scheme, rng: np.random.Generator) -> str:
    """The order of the groups of a batch does not matter."""
    groups = [sample_group(scheme, rng, dense=True) for _ in range(int(rng.integers(2, 5)))]
    order = rng.permutation(len(groups))
    before, after = scheme.assign_batch(groups), scheme.assign_batch([groups[i] for i in order])
    different = (
        _compare(groups[i], got.flat_advantages, before[i].flat_advantages) for i, got in zip(order, after, strict=True)
    )
    return next(filter(None, different), "")


def one_member_zero(scheme: Scheme, rng: np.random.Generator) -> str:
    """A group of one has zero outcome advantage."""
    group = sample_group(scheme, rng, size=1)
    return _compare(group, scheme.assign(group).outcome_advantages, 0.0)


def ties_zero(scheme: Scheme, rng: np.random.Generator) -> str:
    """Equal trajectories get zero credit, but for rounding errors."""
    single = sample_group(scheme, rng, size=1, dense=True)
    first = single.trajectories[0]
    parsed = replace(first, turns=tuple(replace(turn, parsed=True) for turn in first.turns))
    # distinct states, so that no state is compared with itself at another turn
    unrolled = _unrolled(parsed)
    members = tuple(replace(unrolled, trajectory_id=f"t{i}") for i in range(int(rng.integers(2, 6))))
    group = Group(members, single.task)
    got = scheme.assign(group).flat_advantages
    return _compare(group, got, 0.0)


def all_fail_zero(scheme: Scheme, rng: np.random.Generator) -> str:
    """A group without success and rewards gets zero credit."""
    group = sample_group(scheme, rng, outcome=0.0, unit_costs=False)
    return _compare(group, scheme.assign(group).flat_advantages, 0.0)


def shift(scheme: Scheme, rng: np.random.Generator) -> str:
    """Adding a constant to every return changes nothing."""
    group = sample_group(scheme, rng, dense=True)
    moved = _changed(group, lambda turn, last: replace(turn, reward=turn.reward + 3.0) if last else turn)
    return _compare(moved, scheme.assign(moved).flat_advantages, scheme.assign(group).flat_advantages)


def scale(scheme: Scheme, rng: np.random.Generator) -> str:
    """Multiplying every reward by a positive number changes nothing."""
    return _scaled_rewards(scheme, rng, credit_factor=1.0)


def homogeneous(scheme: Scheme, rng: np.random.Generator) -> str:
    """Multiplying every reward by a number multiplies all credit by it."""
    return _scaled_rewards(scheme, rng, credit_factor=8.0)


def _scaled_rewards(scheme: Scheme, rng: np.random.Generator, *, credit_factor: float) -> str:
    """Multiply the rewards by 8 and expect all credit to be multiplied by ``credit_factor``."""
    group = sample_group(scheme, rng, dense=True)
    scaled = _changed(group, lambda turn, _: replace(turn, reward=turn.reward * 8.0))
    return _compare(scaled, scheme.assign(scaled).flat_advantages, credit_factor * scheme.assign(group).flat_advantages)


def stopping_time(scheme: Scheme, rng: np.random.Generator) -> str:
    """When all outcomes are equal, the number of turns does not affect credit."""
    group = sample_group(scheme, rng, outcome=float(rng.integers(2)))
    return _compare(group, scheme.assign(group).flat_advantages, 0.0)


def telescoping(scheme: Scheme, rng: np.random.Generator) -> str:
    """Step rewards sum to a function of the first and last state, on every path."""
    group = sample_group(scheme, rng)
    sums = np.array([rewards.sum() for rewards in scheme.assign(group).step_rewards])
    ends = [(m.final_state_key, m.end) for m in group.trajectories]
    expected = np.array([sums[ends.index(end)] for end in ends])
    return _compare(group, sums, expected)


def monotone(scheme: Scheme, rng: np.random.Generator) -> str:
    """From one state, a transition nearer to success gets more step credit (GraphGPO, proposition 4.1)."""
    group = sample_group(scheme, rng, outcome=0.6, unit_costs=False)
    graph = StateGraph.from_group(group)
    distance = graph.distances()
    if not len(graph.goals):
        return ""
    unreachable = distance[np.isfinite(distance)].max() + 1.0
    length = np.where(np.isfinite(distance), distance, unreachable)[graph.target] + graph.cost
    got = scheme.assign(group).flat_step_advantages
    for state in np.unique(graph.source):
        at = np.flatnonzero((graph.source == state) & group.arrays.parsed)
        order = at[np.argsort(length[at], kind="stable")]
        # rounding may make the credit of two transitions equal, but must not reverse them, nor make all of them equal
        nearer = np.concatenate([order[:-1], order[:1]])
        farther = np.concatenate([order[1:], order[-1:]])
        slack = np.append(np.full(len(order) - 1, 1e-9), 0.0) if len(order) else np.zeros(0)
        wrong = (length[farther] > length[nearer] + 1e-9) & ~(got[nearer] + slack > got[farther])
        if wrong.any():
            return _describe(group, got[farther[wrong]], got[nearer[wrong]])
    return ""


def conditional_variance(scheme: Scheme, rng: np.random.Generator) -> str:
    """Among turns of one transition, step rewards vary no more than discounted returns (GraphGPO, proposition 4.2)."""
    group = sample_group(scheme, rng, outcome=0.6)
    graph, arrays = StateGraph.from_group(group), group.arrays
    rewards = scheme.assign(group).flat_step_rewards
    returns = backward_sums(arrays.reward, arrays.offsets, 0.95)  # the feedback of GiGPO
    _, transition = np.unique(graph.source.astype(np.int64) * (graph.size + 1) + graph.target, return_inverse=True)
    _, pair = np.unique(transition * (len(arrays.actions) + 1) + arrays.action, return_inverse=True)
    for number in np.unique(pair):
        at = np.flatnonzero(pair == number)
        if rewards[at].var() > returns[at].var() + 1e-9:
            return _describe(group, rewards[at], float(rewards[at].mean()))
    return ""


def keeps_sign(scheme: Scheme, rng: np.random.Generator) -> str:
    """The step advantage never flips the sign of the outcome advantage."""
    group = sample_group(scheme, rng, dense=True)
    credit = scheme.assign(group)
    outcome = credit.outcome_advantages[group.arrays.trajectory]
    flipped = credit.flat_advantages * np.sign(outcome) < -1e-9 * np.abs(outcome)
    return _describe(group, credit.flat_advantages[flipped], outcome[flipped]) if flipped.any() else ""


def unnamed_entity(scheme: Scheme, rng: np.random.Generator) -> str:
    """An entity of the task that no text mentions changes nothing."""
    group = sample_group(scheme, rng)
    task = {**group.task, "entities": [*group.task["entities"], "never mentioned"]}
    more = Group(group.trajectories, task)
    return _compare(more, scheme.assign(more).flat_advantages, scheme.assign(group).flat_advantages)


def branches(scheme: Scheme, rng: np.random.Generator) -> str:
    """A branch's own turns get the credit that they get in the full episode."""
    forked, full = random_fork(rng, sample_group(scheme, rng, dense=True))
    stored, expected = scheme.assign(forked), scheme.assign(full)
    prefix = forked.trajectories[-1].fork_turn
    got = np.concatenate([stored.step_rewards[-1], stored.outcome_advantages])
    return _compare(forked, got, np.concatenate([expected.step_rewards[-1][prefix:], expected.outcome_advantages]))


def _unrolled(trajectory: Trajectory) -> Trajectory:
    """Make every state of the trajectory distinct."""
    n = len(trajectory.turns)
    turns = tuple(
        replace(turn, state_key=f"{t}", next_state_key=f"{t + 1}", text_key=f"{t}", effective=True)
        for t, turn in enumerate(trajectory.turns)
    )
    return replace(trajectory, turns=turns, final_state_key=f"{n}", final_text_key=f"{n}")


_ALL = (
    permutation,
    batch_permutation,
    one_member_zero,
    ties_zero,
    all_fail_zero,
    shift,
    scale,
    homogeneous,
    stopping_time,
    telescoping,
)
PROPERTIES: dict[str, Property] = {
    check.__name__: check for check in (*_ALL, monotone, conditional_variance, keeps_sign, unnamed_entity, branches)
}

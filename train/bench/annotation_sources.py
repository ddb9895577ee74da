"""Annotation sources of the benchmark: values of states, fitted on earlier rollouts or exact.

``X[fitted]`` reads estimates that a learner could make: for each state key a mean over *earlier* rollouts of the same policy and
task, shrunk towards the task's own mean by one pseudo-visit (without any rollout: success probability 1/2, value 0).
While a policy learns, earlier rollouts are those of the iterations before, weighted by ``MEMORY`` per iteration; none are
sampled in addition. For the one-step metrics they are ``HELD_OUT`` additional groups for each measured one, which other
schemes do not get. ``X[linear]`` reads a critic that is fitted to the same rollouts, on what states show: a logistic regression.
``X[exact]`` reads the exact V^π, which no method has in practice: an upper bound, and a control.

Both write the same annotations, derived from the probability of success f: ``value.pica`` is f;
``logp.answer.mean`` is log f, success standing for the golden answer; ``judge.score`` is the change of f; and
``value.critic`` is a critic of the returns as that scheme defines them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.methods import Key, base_method, bound_scheme, is_control, scheme_entry
from creditflow.wrappers.credit import Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, TRUNCATED

__all__ = [
    "HELD_OUT",
    "MEMORY",
    "AnnotationSource",
    "FittedCritic",
    "StateFeatures",
    "annotated_log",
    "one_hot",
    "open_annotation_source",
    "reads_earlier",
]

HELD_OUT: Final = 8  # additional groups per measured one, of the same size
MEMORY: Final = 0.9
MIN_PROBABILITY: Final = 1e-3  # lower bound before a logarithm is taken
TERMINAL_KEYS: Final = ("\0solved", "\0failed")  # all terminal states count as one of these two

Floats = NDArray[np.float64]


class AnnotationSource(Protocol):
    """What writes the annotations that one method reads."""

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:
        """The group with its annotations, as known before it was sampled."""
        ...

    def update(self, group: Group) -> None:
        """Update the estimates with a group that has been scored."""
        ...


def open_annotation_source(
    name: str, horizon: int, key: Key, features: StateFeatures | None = None
) -> AnnotationSource:
    """The annotation source of a method; a corrupted method has that of the method it corrupts.

    Args:
        name: name of the method.
        horizon: turn limit.
        key: the key by which estimates are stored.
        features: what fitted critics see of a state; None where the suite has none.

    Raises:
        ConfigError: the method reads a critic, and there are no features.
    """
    name = base_method(name)
    entry = None if is_control(name) else scheme_entry(name)
    if entry is None or not entry.annotation_source:
        return _NoAnnotations()
    scheme, source = bound_scheme(name, horizon, key), entry.annotation_source
    if source == "exact":
        return _Exact(scheme)
    if source == "fitted":
        return _Fitted(scheme, key)
    if features is None:
        raise ConfigError(f"{name}: a critic needs features of states, which only the suite with a shared policy has")
    return _Critic(scheme, FittedCritic(features, horizon))


def reads_earlier(name: str) -> bool:
    """Whether a method's annotations are fitted to earlier rollouts."""
    name = base_method(name)
    source = "" if is_control(name) else scheme_entry(name).annotation_source
    return source not in ("", "exact")


def annotated_log(
    name: str, horizon: int, groups: Sequence[Group], earlier: Sequence[Group], features: StateFeatures | None = None
) -> list[Group]:
    """A recorded log with the annotations that a method reads.

    Args:
        name: name of the method.
        horizon: turn limit.
        groups: groups of the log.
        earlier: for each group another one of its task and policy; may be empty.
        features: what fitted critics see of a state.
    """
    annotated = []
    for number, group in enumerate(groups):
        source = open_annotation_source(name, horizon, "state", features)
        if earlier:
            source.update(earlier[number])
        annotated.append(source.annotate(group))
    return annotated


class _NoAnnotations:
    """The source of schemes that read no annotations."""

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:  # noqa: ARG002 - the protocol's signature
        return group

    def update(self, group: Group) -> None:
        pass


class _Exact:
    """The source of ``X[exact]``: annotations computed from V^π."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:
        if evaluator is None:
            raise ConfigError(f"{self._scheme.name}[exact] needs exact values, which this suite does not have")
        at = evaluator.index_turns(group)
        value = evaluator.exact.value
        before, after = value[at.left, at.state], value[at.left - 1, at.next_state]
        return _annotated(group, _annotations(before, after, before))

    def update(self, group: Group) -> None:
        pass


class _Critic:
    """The source of ``X[linear]``: annotations are a critic's, fitted to the groups given to ``update``."""

    def __init__(self, scheme: Scheme, critic: FittedCritic) -> None:
        self._scheme, self._critic = scheme, critic

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:  # noqa: ARG002 - the protocol's signature
        before, after = self._critic.predict(_with_tables(group))
        return _annotated(group, _annotations(before, after, before))

    def update(self, group: Group) -> None:
        self._critic.add(_with_tables(group))


def _with_tables(group: Group) -> ArrayGroup:
    if not isinstance(group, ArrayGroup):
        raise ConfigError(f"group {group.group_id!r}: a critic's features are those of tasks known as tables")
    return group


class _Fitted:
    """The source of ``X[fitted]``: annotations are means over the groups given to ``update``."""

    def __init__(self, scheme: Scheme, key: Key) -> None:
        self._scheme, self._key = scheme, key
        self._weight = 1.0  # of the current group; it grows, so that older groups count less
        self._success, self._value = _Means(), _Means()
        self._rollouts = np.zeros(2)  # total weight, weighted successes
        self._turns = np.zeros(2)  # total weight, weighted value targets

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:  # noqa: ARG002 - the protocol's signature
        arrays, states = group.arrays, group.states(self._key)
        rollouts, successes = self._rollouts / self._weight
        prior = (successes + 0.5) / (rollouts + 1.0)
        probability = self._success.read((*states.keys, *TERMINAL_KEYS), self._weight, prior)
        before, after = probability[states.state], probability[states.next_state]
        terminal = arrays.last & (arrays.end[arrays.trajectory] != TRUNCATED)
        solved = arrays.end[arrays.trajectory] == GOAL
        after = np.where(terminal, np.where(solved, probability[-2], probability[-1]), after)
        turns, targets = self._turns / self._weight
        critic = self._value.read(states.keys, self._weight, targets / (turns + 1.0))
        return _annotated(group, _annotations(before, after, critic[states.state]))

    def update(self, group: Group) -> None:
        self._weight /= MEMORY
        arrays, states = group.arrays, group.states(self._key)
        keys = (*states.keys, *TERMINAL_KEYS)
        success = arrays.success.astype(np.float64)
        lasts = np.flatnonzero(arrays.last)
        owner = arrays.trajectory[lasts]
        ends = np.where(arrays.end == GOAL, len(keys) - 2, np.where(arrays.end == FAILED, len(keys) - 1, -1))[owner]
        visited = np.concatenate([states.state, np.where(ends < 0, states.next_state[lasts], ends)])
        labels = np.concatenate([success[arrays.trajectory], success[owner]])
        self._success.add(keys, visited, labels, self._weight)
        self._rollouts += self._weight * np.array([len(success), success.sum()])
        if "value.critic" in self._scheme.needs:
            value_targets = self._scheme.assign(self.annotate(group)).value_targets
            if value_targets is None:
                raise ConfigError(f"{self._scheme.name} reads a critic, but returns no value targets to fit it to")
            targets = np.concatenate(value_targets.targets)
            self._value.add(states.keys, states.state, targets, self._weight)
            self._turns += self._weight * np.array([len(targets), targets.sum()])


class _Means:
    """Weighted means by key."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[float, float]] = {}

    def add(self, keys: Sequence[str], labels: NDArray[np.integer], values: Floats, weight: float) -> None:
        counts = np.bincount(labels, minlength=len(keys)) * weight
        totals = np.bincount(labels, values, minlength=len(keys)) * weight
        for key, count, total in zip(keys, counts.tolist(), totals.tolist(), strict=True):
            if count:
                row = self._rows.get(key, (0.0, 0.0))
                self._rows[key] = row[0] + count, row[1] + total

    def read(self, keys: Sequence[str], weight: float, prior: float) -> Floats:
        """The means, each including one more value, ``prior``, of the current weight."""
        rows = np.array([self._rows.get(key, (0.0, 0.0)) for key in keys]) / weight
        means: Floats = (rows[:, 1] + prior) / (rows[:, 0] + 1.0)
        return means


def _log(probability: Floats) -> Floats:
    return np.log(np.maximum(probability, MIN_PROBABILITY))


def _annotations(before: Floats, after: Floats, critic: Floats) -> dict[str, Floats]:
    """Annotations of every turn, from the success probability before and after it and the critic's value before it."""
    return {
        "value.pica": before,
        "value.pica.next": after,
        "judge.score": after - before,
        "value.critic": critic,
        "logp.answer.mean": _log(before),
        "logp.answer.mean.next": _log(after),
    }


def _annotated(group: Group, annotations: Mapping[str, Floats]) -> Group:
    """The group with annotated turns."""
    if isinstance(group, ArrayGroup):
        return group.annotated(annotations)
    columns = {name: group.arrays.split(values) for name, values in annotations.items()}
    trajectories = []
    for i, member in enumerate(group.trajectories):
        rows = zip(*(by_trajectory[i].tolist() for by_trajectory in columns.values()), strict=True)
        turns = tuple(
            replace(turn, values={**turn.values, **dict(zip(columns, row, strict=True))})
            for turn, row in zip(member.turns, rows, strict=True)
        )
        trajectories.append(replace(member, turns=turns))
    return Group(tuple(trajectories), group.task)


Indices = NDArray[np.int64]
REMEMBERED: Final = 64  # groups that a fit uses, the latest
STEPS: Final = 10  # of Adam, per update
RATE: Final = 0.03


class StateFeatures(NamedTuple):
    """What a critic sees of a state.

    Attributes:
        size: F, the number of features.
        of: a task's tables → int64 (S, K), the features of each acting state, −1 for none.
    """

    size: int
    of: Callable[[FiniteMDP], Indices]


def one_hot(mdps: Sequence[FiniteMDP], parts: Sequence[Indices]) -> StateFeatures:
    """One feature for each value of each part.

    Args:
        mdps: the tasks.
        parts: int64 (S_i, K) of each; a negative part is none.
    """
    together = np.concatenate(parts)
    sizes = np.maximum(together.max(axis=0) + 1, 0)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    indices = {
        id(mdp): np.where(of_task >= 0, of_task + starts[:-1], -1) for mdp, of_task in zip(mdps, parts, strict=True)
    }
    return StateFeatures(int(starts[-1]), lambda mdp: indices[id(mdp)])


class FittedCritic:
    """A critic that is fitted to the outcomes of rollouts.

    Args:
        features: of the states.
        horizon: the turn limit.
    """

    def __init__(self, features: StateFeatures, horizon: int) -> None:
        self._features = features
        self._none = features.size + horizon + 1  # the place of absent features, whose weight stays 0
        self._weights = np.zeros(self._none + 1)
        self._mean, self._square = np.zeros_like(self._weights), np.zeros_like(self._weights)
        self._count = 0
        self._data: deque[tuple[Indices, Floats]] = deque(maxlen=REMEMBERED)
        self._fresh = False

    def predict(self, group: ArrayGroup) -> tuple[Floats, Floats]:
        """f before and after every turn, each float64 (N,); after the last turn of a rollout it is the outcome."""
        self._fit()
        before = self._probability(self._columns(group.mdp, group.number, group.left))
        arrays = group.arrays
        after = np.append(before[1:], 0.0)
        return before, np.where(arrays.last, arrays.success[arrays.trajectory].astype(np.float64), after)

    def add(self, group: ArrayGroup) -> None:
        """Remember the outcomes of a group for later fits."""
        columns = self._columns(group.mdp, group.number, group.left)
        self._data.append((columns, group.arrays.success[group.arrays.trajectory].astype(np.float64)))
        self._fresh = True

    def _columns(self, mdp: FiniteMDP, states: NDArray[np.integer], left: NDArray[np.integer]) -> Indices:
        seen = self._features.of(mdp)[states]
        return np.column_stack([np.where(seen >= 0, seen, self._none), self._features.size + left]).astype(np.int64)

    def _probability(self, columns: Indices) -> Floats:
        """σ of the sum of the weights of each turn's features."""
        probability: Floats = 0.5 * (1.0 + np.tanh(0.5 * self._weights[columns].sum(axis=1)))
        return probability

    def _fit(self) -> None:
        if not self._fresh:
            return
        self._fresh = False
        columns = np.concatenate([self._wide(remembered) for remembered, _ in self._data])
        outcome = np.concatenate([remembered for _, remembered in self._data])
        for _ in range(STEPS):
            gap = (self._probability(columns) - outcome) / len(outcome)
            gradient = np.bincount(columns.ravel(), np.repeat(gap, columns.shape[1]), minlength=self._none + 1)
            gradient[-1] = 0.0
            # Adam
            self._count += 1
            self._mean += 0.1 * (gradient - self._mean)
            self._square += 0.001 * (gradient**2 - self._square)
            unbiased = self._mean / (1 - 0.9**self._count), self._square / (1 - 0.999**self._count)
            self._weights -= RATE * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)

    def _wide(self, columns: Indices) -> Indices:
        """The columns padded to the most that any remembered group has, so that groups with other widths stack."""
        most = max(remembered.shape[1] for remembered, _ in self._data)
        return np.pad(columns, ((0, 0), (0, most - columns.shape[1])), constant_values=self._none)

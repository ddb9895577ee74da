"""Annotation sources of the benchmark: values of states, fitted on earlier rollouts or exact.

``X[fitted]`` reads estimates that a learner could make: for each state key a mean over *earlier* rollouts of the same policy and
task, shrunk towards the task's own mean by one pseudo-visit (without any rollout: success probability 1/2, value 0).
While a policy learns, earlier rollouts are those of the iterations before, weighted by ``MEMORY`` per iteration; none are
sampled in addition. For the one-step metrics they are ``HELD_OUT`` additional groups for each measured one, which other
schemes do not get. ``X[linear]`` and ``X[network]`` read critics that are fitted to the same rollouts, on what states show (see ``critics``).
``X[exact]`` reads the exact V^π, which no method has in practice: an upper bound, and a control; ``X[noise=S]`` reads it with a lasting normal
error of standard deviation S of its log odds.

Both write the same annotations, derived from the probability of success f: ``value.pica`` is f; ``logp.answer`` and
``logp.answer.mean`` are log f, success standing for the golden answer; ``judge.score`` is the change of f; and
``value.critic`` is a critic of the returns as that scheme defines them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.critics import HIDDEN, FittedCritic, StateFeatures, noisy
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.bench.methods import base_method, is_control, noise_of, scheme_entry
from creditflow.wrappers.credit import Scheme
from creditflow.wrappers.credit.annotations.tips import TIPS
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, TRUNCATED
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["HELD_OUT", "MEMORY", "AnnotationSource", "annotated_log", "open_annotation_source", "reads_earlier"]

HELD_OUT: Final = 8  # additional groups per measured one, of the same size
MEMORY: Final = 0.9
MIN_PROBABILITY: Final = 1e-3  # lower bound before a logarithm is taken
HIDDEN_LAYER: Final[Mapping[str, int]] = {"linear": 0, "network": HIDDEN}  # its size in a critic
TERMINAL_KEYS: Final = ("\0solved", "\0failed")  # all terminal states count as one of these two

Floats = NDArray[np.float64]
Key = Literal["state", "text"]


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
    scheme, source = _scheme(name, horizon, key), entry.annotation_source
    if (noise := noise_of(source)) is not None:
        return _Exact(scheme, noise)
    if source not in HIDDEN_LAYER:
        return _Fitted(scheme, key)
    if features is None:
        raise ConfigError(
            f"{name}: a critic needs features of states, which only the suites with a shared policy and with language models have"
        )
    return _Critic(scheme, FittedCritic(features, horizon, HIDDEN_LAYER[source]))


def reads_earlier(name: str) -> bool:
    """Whether a method's annotations are fitted to earlier rollouts."""
    name = base_method(name)
    source = "" if is_control(name) else scheme_entry(name).annotation_source
    return bool(source) and noise_of(source) is None


@lru_cache(maxsize=64)
def _scheme(name: str, horizon: int, key: Key) -> Scheme:
    """The scheme, cached: construction validates it, and every measured group needs one."""
    return scheme_entry(name).scheme_for(horizon, key)


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
    """The source of ``X[exact]`` and ``X[noise=S]``: annotations computed from V^π, with an error of the log odds."""

    def __init__(self, scheme: Scheme, noise: float) -> None:
        self._scheme, self._noise = scheme, noise

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:
        if evaluator is None:
            raise ConfigError(f"{self._scheme.name}[exact] needs exact values, which this suite does not have")
        at = evaluator.index_turns(group)
        value = evaluator.exact.value
        if self._noise:
            value = noisy(value, evaluator.mdp, self._noise)
        before, after = value[at.left, at.state], value[at.left - 1, at.next_state]
        critic = before
        if isinstance(self._scheme, TIPS):  # its returns are shaped; a truncated episode keeps its last potential
            mdp = evaluator.mdp
            potentials = replace(
                mdp, terminal_score=np.zeros_like(mdp.terminal_score), limit_score=_log(mdp.limit_score)
            )
            shaping = evaluate(potentials, evaluator.policy).value[at.left, at.state] - _log(before)
            critic = before + self._scheme.shaping_weight * shaping
        return _annotated(group, self._scheme, _annotations(before, after, critic))

    def update(self, group: Group) -> None:
        pass


class _Critic:
    """The source of ``X[linear]`` and ``X[network]``: annotations are a critic's, fitted to the groups given to ``update``."""

    def __init__(self, scheme: Scheme, critic: FittedCritic) -> None:
        self._scheme, self._critic = scheme, critic

    def annotate(self, group: Group, evaluator: ExactEvaluator | None = None) -> Group:  # noqa: ARG002 - the protocol's signature
        before, after = self._critic.predict(_with_tables(group))
        return _annotated(group, self._scheme, _annotations(before, after, before))

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
        return _annotated(group, self._scheme, _annotations(before, after, critic[states.state]))

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
    columns = {"value.pica": before, "value.pica.next": after, "judge.score": after - before, "value.critic": critic}
    for name in ("logp.answer", "logp.answer.mean"):
        columns |= {name: _log(before), f"{name}.next": _log(after)}
    return columns


def _annotated(group: Group, scheme: Scheme, annotations: Mapping[str, Floats]) -> Group:
    """The group with annotated turns; for a scheme that assigns credit to tokens, with one token per turn."""
    if isinstance(group, ArrayGroup) and not scheme.requires_tokens:
        return group.annotated(annotations)
    columns = {name: group.arrays.split(values) for name, values in annotations.items()}
    trajectories = []
    for i, member in enumerate(group.trajectories):
        rows = zip(*(by_trajectory[i].tolist() for by_trajectory in columns.values()), strict=True)
        turns = tuple(
            replace(turn, values={**turn.values, **dict(zip(columns, row, strict=True))})
            for turn, row in zip(member.turns, rows, strict=True)
        )
        tokens = _one_token_per_turn(columns["value.critic"][i]) if scheme.requires_tokens else member.tokens
        trajectories.append(replace(member, turns=turns, tokens=tokens))
    return Group(tuple(trajectories), group.task)


def _one_token_per_turn(critic: Floats) -> Tokens:
    n = len(critic)
    return Tokens(
        np.zeros(n, np.int32),
        np.ones(n, np.bool_),
        np.zeros(n, np.float32),
        np.arange(n + 1, dtype=np.int32),
        values={"value.critic": np.append(critic, 0.0).astype(np.float32)},
    )

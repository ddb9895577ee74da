"""What feeds schemes that read annotations: numbers about states, told beside the rollouts that are scored.

``X[fitted]`` reads what a learner could know: for each state key a mean over *earlier* rollouts of the same policy and
task, drawn towards the task's own mean by one pseudo-visit (an unseen task: probability 1/2, value 0). While a policy
learns, earlier means the iterations before, with a memory of ``MEMORY`` an iteration: no rollout is played for it. For
the one-step metrics it means ``HELD_OUT`` more groups for each measured one, which other schemes do not get.
``X[exact]`` reads the exact V^π, which no method has: an upper bound, and a control.

Both write the same names, from f, the probability of success: ``value.pica`` is f; ``logp.answer`` and
``logp.answer.mean`` are log f, success standing for the right answer; ``judge.score`` is the change of f; and
``value.critic`` is a critic of the very returns that the scheme pays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.columns import ORACLES, plain_name, scheme_column
from creditflow.train.bench.controls import Judge
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.values import evaluate
from creditflow.wrappers.credit import Scheme
from creditflow.wrappers.credit.annotations.tips import TIPS
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL, TRUNCATED
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["HELD_OUT", "MEMORY", "Feed", "feed_log", "open_feed"]

HELD_OUT: Final = 8  # groups, of the size of the measured one
MEMORY: Final = 0.9
LEAST: Final = 1e-3  # of a probability whose logarithm is taken
ENDS: Final = ("\0solved", "\0failed")  # an end is seen as such: whatever state it is, it is one of two

Floats = NDArray[np.float64]
Key = Literal["state", "text"]


class Feed(Protocol):
    """Writes into groups what one column reads."""

    def fed(self, group: Group, judge: Judge | None = None) -> Group:
        """The group with the numbers in it, as known before it was played."""
        ...

    def learn(self, group: Group) -> None:
        """See a group that has been scored."""
        ...


def open_feed(name: str, horizon: int, key: Key) -> Feed:
    """The feed of a column by name; spoilt columns are fed as what they spoil.

    Args:
        name: of a column.
        horizon: the turn limit.
        key: what a learner takes for equal states.
    """
    name = plain_name(name)
    column = None if name in ORACLES else scheme_column(name)
    if column is None or not column.feed:
        return _Unfed()
    scheme = _made(name, horizon, key)
    return _Exact(scheme) if column.feed == "exact" else _Fitted(scheme, key)


@lru_cache(maxsize=64)
def _made(name: str, horizon: int, key: Key) -> Scheme:
    """Schemes are checked when they are made; every measured group asks for one."""
    return scheme_column(name).made(horizon, key)


def feed_log(name: str, horizon: int, groups: Sequence[Group], earlier: Sequence[Group]) -> list[Group]:
    """A recorded log as a column reads it.

    Args:
        name: of a column.
        horizon: the turn limit.
        groups: the log.
        earlier: for each group another one of its task and policy.
    """
    found = []
    for number, group in enumerate(groups):
        feed = open_feed(name, horizon, "state")
        if earlier:
            feed.learn(earlier[number])
        found.append(feed.fed(group))
    return found


class _Unfed:
    """For schemes that read the rollouts alone."""

    def fed(self, group: Group, judge: Judge | None = None) -> Group:  # noqa: ARG002 - the protocol's
        return group

    def learn(self, group: Group) -> None:
        pass


class _Exact:
    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def fed(self, group: Group, judge: Judge | None = None) -> Group:
        if judge is None:
            raise ConfigError(f"{self._scheme.name}[exact] needs exact values, which this suite does not have")
        at = judge.locate(group)
        before = judge.exact.value[at.left, at.state]
        after = judge.exact.value[at.left - 1, at.next_state]
        critic = before
        if isinstance(self._scheme, TIPS):  # its returns are shaped; a cut-off episode keeps what it was lent
            mdp = judge.mdp
            kept = replace(mdp, end_score=np.zeros_like(mdp.end_score), limit_score=_log(mdp.limit_score))
            lent = evaluate(kept, judge.policy).value[at.left, at.state] - _log(before)
            critic = before + self._scheme.shaping_weight * lent
        return _annotated(group, self._scheme, _notes(before, after, critic))

    def learn(self, group: Group) -> None:
        pass


class _Fitted:
    def __init__(self, scheme: Scheme, key: Key) -> None:
        self._scheme, self._key = scheme, key
        self._weight = 1.0  # of what is seen now; older sights keep theirs and so fade
        self._success, self._value = _Means(), _Means()
        self._rollouts = np.zeros(2)  # weight and successes
        self._turns = np.zeros(2)  # weight and critic's targets

    def fed(self, group: Group, judge: Judge | None = None) -> Group:  # noqa: ARG002 - the protocol's
        arrays, states = group.arrays, group.states(self._key)
        seen, won = self._rollouts / self._weight
        chance = self._success.read((*states.keys, *ENDS), self._weight, (won + 0.5) / (seen + 1.0))
        before, after = chance[states.state], chance[states.next_state]
        over = arrays.last & (arrays.end[arrays.trajectory] != TRUNCATED)
        solved = arrays.end[arrays.trajectory] == GOAL
        after = np.where(over, np.where(solved, chance[-2], chance[-1]), after)
        turns, paid = self._turns / self._weight
        critic = self._value.read(states.keys, self._weight, paid / (turns + 1.0))
        return _annotated(group, self._scheme, _notes(before, after, critic[states.state]))

    def learn(self, group: Group) -> None:
        self._weight /= MEMORY
        arrays, states = group.arrays, group.states(self._key)
        keys = (*states.keys, *ENDS)
        won = arrays.success.astype(np.float64)
        lasts = np.flatnonzero(arrays.last)
        owner = arrays.trajectory[lasts]
        ends = np.where(arrays.end == GOAL, len(keys) - 2, np.where(arrays.end == FAILED, len(keys) - 1, -1))[owner]
        met = np.concatenate([states.state, np.where(ends < 0, states.next_state[lasts], ends)])
        self._success.add(keys, met, np.concatenate([won[arrays.trajectory], won[owner]]), self._weight)
        self._rollouts += self._weight * np.array([len(won), won.sum()])
        if "value.critic" in self._scheme.needs:
            targets = self._scheme.assign(self.fed(group)).value_targets
            if targets is None:
                raise ConfigError(f"{self._scheme.name} reads a critic, but does not say what it should have said")
            wanted = np.concatenate(targets.targets)
            self._value.add(states.keys, states.state, wanted, self._weight)
            self._turns += self._weight * np.array([len(wanted), wanted.sum()])


class _Means:
    """Weighted means by key."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[float, float]] = {}

    def add(self, keys: Sequence[str], labels: NDArray[np.integer], values: Floats, weight: float) -> None:
        counts = np.bincount(labels, minlength=len(keys)) * weight
        totals = np.bincount(labels, values, minlength=len(keys)) * weight
        for key, count, total in zip(keys, counts.tolist(), totals.tolist(), strict=True):
            if count:
                known = self._rows.get(key, (0.0, 0.0))
                self._rows[key] = known[0] + count, known[1] + total

    def read(self, keys: Sequence[str], weight: float, prior: float) -> Floats:
        """The means, each with one more value, ``prior``, of the present weight."""
        rows = np.array([self._rows.get(key, (0.0, 0.0)) for key in keys]) / weight
        means: Floats = (rows[:, 1] + prior) / (rows[:, 0] + 1.0)
        return means


def _log(chance: Floats) -> Floats:
    return np.log(np.maximum(chance, LEAST))


def _notes(before: Floats, after: Floats, critic: Floats) -> dict[str, Floats]:
    """Numbers of every turn from the probability of success before and after it, and a critic's before it."""
    notes = {"value.pica": before, "value.pica.next": after, "judge.score": after - before, "value.critic": critic}
    for name in ("logp.answer", "logp.answer.mean"):
        notes |= {name: _log(before), f"{name}.next": _log(after)}
    return notes


def _annotated(group: Group, scheme: Scheme, notes: Mapping[str, Floats]) -> Group:
    """The group with the numbers in its turns; for a scheme that credits tokens with one token in each turn."""
    if isinstance(group, ArrayGroup) and not scheme.requires_tokens:
        return group.annotated(notes)
    columns = {name: group.arrays.split(numbers) for name, numbers in notes.items()}
    members = []
    for i, member in enumerate(group.trajectories):
        own = {name: parts[i].tolist() for name, parts in columns.items()}
        turns = tuple(
            replace(turn, values={**turn.values, **{name: numbers[t] for name, numbers in own.items()}})
            for t, turn in enumerate(member.turns)
        )
        tokens = _one_token_a_turn(columns["value.critic"][i]) if scheme.requires_tokens else member.tokens
        members.append(replace(member, turns=turns, tokens=tokens))
    return Group(tuple(members), group.task)


def _one_token_a_turn(critic: Floats) -> Tokens:
    n = len(critic)
    return Tokens(
        np.zeros(n, np.int32),
        np.ones(n, np.bool_),
        np.zeros(n, np.float32),
        np.arange(n + 1, dtype=np.int32),
        values={"value.critic": np.append(critic, 0.0).astype(np.float32)},
    )

"""The batch of one update: its tasks and random numbers, the rollouts of every policy, their credit, and the trainer's loss.

The loss is that of ``train/policy`` without terms of KL and entropy, where every turn has one token: −Σ_t w_t A_t log π
with w from the loss aggregation (``token_weights``). Its negative gradient is Σ_sa W(s, a) ∇ log π(a|s), which ``Policy.gradient``
computes from W.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource
from creditflow.train.bench.controls import CreditFunction, ExactEvaluator, oracle_adv
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.exact.values import visitation
from creditflow.train.bench.learning.policy import Policy
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups, split_rows
from creditflow.train.bench.methods import Generators, Key, base_method, bound_scheme, is_control, with_corruption
from creditflow.train.settings.update import LossAggregation, LossConfig
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.records.group import Group

__all__ = [
    "Batch",
    "Draw",
    "LossTurns",
    "Sampling",
    "ascent_weights",
    "batch_credit",
    "draw_tasks",
    "draws",
    "loss_turns",
    "turn_weights",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the batch of an update is sampled, and its loss.

    Attributes:
        batch: B, tasks of an update, one group each.
        size: G, rollouts of a group.
        loss: the trainer's loss; its ``aggregation`` "auto" is the scheme's own.
        key: the key by which schemes compare states.
        fresh: whether every visit of a state has a new key, so that keys never repeat.
    """

    batch: int
    size: int
    loss: LossConfig = field(default_factory=LossConfig)
    key: Key = "state"
    fresh: bool = False

    def batches(
        self, mdps: Sequence[FiniteMDP], draw: Draw, policies: Sequence[Policy], *, size: int = 0
    ) -> list[Batch]:
        """Sample rollouts of every policy on the same tasks, with common random numbers.

        Args:
            mdps: all tasks.
            draw: the update's tasks and random numbers; how much is drawn does not depend on the policies.
            policies: policies over all tasks.
            size: rollouts of a group; 0 for G.
        """
        stack = StackedTasks([mdps[i] for i in draw.tasks])
        tables = np.stack([np.concatenate(policy.probabilities(draw.tasks)) for policy in policies])
        groups = self.groups(stack, tables, draw, size or self.size)
        return [Batch(list(draw.tasks), stack, *of_policy) for of_policy in zip(tables, groups, strict=True)]

    def groups(self, stack: StackedTasks, tables: Floats, draw: Draw, size: int) -> list[list[ArrayGroup]]:
        """Sample one group of ``size`` rollouts by policy, float64 (M, S, A), and task of the stack."""
        return sample_groups(stack, tables, size, draw.rng, name=draw.name, fresh=self.fresh)

    def loss_turns(self, groups: Sequence[ArrayGroup], credits_: Sequence[Credit]) -> LossTurns:
        """The turns of an update's groups that are in the loss, with a method's credit."""
        return loss_turns(groups, credits_, self.loss)


class Draw(NamedTuple):
    """What is random in one update, the same for all methods.

    Attributes:
        tasks: indices of the update's tasks; a task may occur several times.
        rng: source of randomness of the rollouts.
        seed: seed of the minibatches.
        corruption: for each task the seed of shuffled credit.
        name: prefix of the group ids, distinct for every update.
        pool: indices of the tasks from which dynamic sampling draws further ones; empty: the update's.
    """

    tasks: list[int]
    rng: np.random.Generator
    seed: tuple[int, ...]
    corruption: list[tuple[int, ...]]
    name: str
    pool: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        tasks: Sequence[int],
        rng: np.random.Generator,
        name: str,
        seed: tuple[int, ...] = (0,),
        pool: Sequence[int] = (),
    ) -> Draw:
        """A draw whose shuffling has the seed and the number of each task."""
        return cls(list(tasks), rng, seed, [(*seed, i) for i in range(len(tasks))], name, pool)


def draws(train: Sequence[int], batch: int, rng: np.random.Generator) -> Iterator[Draw]:
    """Yield updates endlessly: tasks, a seed, and the generator itself, from which the rollouts are drawn before the next."""
    for number in count(1):
        tasks = draw_tasks(train, batch, rng)
        seed = int(rng.integers(2**63))
        yield Draw.of(tasks, rng, f"{number}", (seed,), train)


def draw_tasks(train: Sequence[int], batch: int, rng: np.random.Generator) -> list[int]:
    """Sample ``batch`` of the tasks ``train`` in random order; all are used before any is used again."""
    order = list[int]()
    while len(order) < batch:
        order += rng.permutation(len(train)).tolist()
    return [train[i] for i in order[:batch]]


@dataclass(frozen=True)
class Batch:
    """The rollouts of one policy in one update.

    Attributes:
        tasks: indices of the tasks; a task may occur several times.
        stack: the tables of these tasks.
        policy: float64 (S, A), the policy on their stacked states.
        groups: one group per task.
    """

    tasks: list[int]
    stack: StackedTasks
    policy: Floats
    groups: list[ArrayGroup]

    @cached_property
    def visits(self) -> Floats:
        """float64 (S,): expected fraction of the batch's turns in each state; sums to 1."""
        return visitation(self.stack, self.policy)

    @property
    def turns(self) -> int:
        """Number of turns."""
        return sum(len(group.number) for group in self.groups)

    def split(self, table: Floats) -> list[Floats]:
        """A table (S, …) over the stacked states as one table per task."""
        return split_rows(table, [group.mdp.size for group in self.groups])

    def credit(
        self,
        name: str,
        source: AnnotationSource,
        corruption: Sequence[Sequence[int]],
        key: Key,
        cache: dict[str, list[Credit]] | None = None,
    ) -> list[Credit]:
        """Credit of a method for every group; see ``batch_credit``.

        Raises:
            CreditError: the scheme cannot score one of the groups.
        """
        policies = self.split(self.policy)
        return batch_credit(name, self.groups, policies, source, corruption, key=key, cache=cache)


def batch_credit(
    name: str,
    groups: Sequence[ArrayGroup],
    policies: Sequence[Floats],
    source: AnnotationSource | None,
    corruption: Sequence[Sequence[int]],
    *,
    key: Key = "state",
    cache: dict[str, list[Credit]] | None = None,
) -> list[Credit]:
    """Credit of one method for each group of one update, which a scheme may normalise together, as in the trainer.

    Args:
        name: name of a scheme or control, or ``shuffled(X)`` or ``flipped(X)`` of one.
        groups: the groups of the update, of tasks with one turn limit.
        policies: float64 (S_i, A) of each group, the policy that sampled its rollouts.
        source: annotation source of the method; None for the annotations that the groups have.
        corruption: for each group the seed of its shuffling, non-negative integers.
        key: the key by which schemes compare states.
        cache: the credit of these groups, by the name of the uncorrupted method; it is filled in place.

    Raises:
        ConfigError: the name is unknown.
        CreditError: the scheme cannot score one of the groups.
    """
    base, cache = base_method(name), {} if cache is None else cache
    if base not in cache:
        cache[base] = _uncorrupted(base, groups, policies, source, key)
    if name == base:
        return cache[base]
    return [
        with_corruption(name, _always(credit), Generators(seed))(group)
        for group, credit, seed in zip(groups, cache[base], corruption, strict=True)
    ]


def _uncorrupted(
    name: str, groups: Sequence[ArrayGroup], policies: Sequence[Floats], source: AnnotationSource | None, key: Key
) -> list[Credit]:
    evaluators = [ExactEvaluator(group.mdp, policy) for group, policy in zip(groups, policies, strict=True)]
    if is_control(name):
        return [oracle_adv(evaluator)(group) for group, evaluator in zip(groups, evaluators, strict=True)]
    annotated = groups if source is None else list(map(source.annotate, groups, evaluators))
    return bound_scheme(name, groups[0].mdp.horizon, key).assign_batch(annotated)


def _always(credit: Credit) -> Callable[[str], CreditFunction]:
    def method(group: Group) -> Credit:  # noqa: ARG001 - a credit function's signature
        return credit

    return lambda _: method


class LossTurns(NamedTuple):
    """The turns of one update that are in the loss; each array (N,).

    Attributes:
        state: index of the state among the stacked states of the update's tasks.
        action: index of the action.
        trajectory: number of the trajectory in the update.
        group: number of its group.
        advantage: the turn's credit.
        aggregation: loss aggregation.
        normaliser: tokens per trajectory by which "constant" divides.
    """

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    trajectory: NDArray[np.int64]
    group: NDArray[np.int64]
    advantage: Floats
    aggregation: LossAggregation
    normaliser: float = 0.0


def loss_turns(groups: Sequence[ArrayGroup], credits_: Sequence[Credit], loss: LossConfig) -> LossTurns:
    """The turns of an update's groups that are in the loss mask; the others are dropped, as a trainer drops their tokens.

    Args:
        groups: one group per task of the update.
        credits_: their credit.
        loss: its ``aggregation`` "auto" is the scheme's own.
    """
    firsts = np.cumsum([0, *(group.mdp.size for group in groups)]).tolist()
    members = np.cumsum([0, *(len(group) for group in groups)]).tolist()
    mask = np.concatenate([credit.flat_loss_mask for credit in credits_])
    states = [group.number + first for group, first in zip(groups, firsts, strict=False)]
    trajectories = [group.arrays.trajectory + first for group, first in zip(groups, members, strict=False)]
    turns = [len(group.number) for group in groups]
    return LossTurns(
        np.concatenate(states)[mask].astype(np.int64),
        np.concatenate([group.chosen for group in groups])[mask].astype(np.int64),
        np.concatenate(trajectories)[mask].astype(np.int64),
        np.repeat(np.arange(len(groups)), turns)[mask],
        np.concatenate([credit.flat_advantages for credit in credits_])[mask],
        credits_[0].aggregation if loss.aggregation == "auto" else loss.aggregation,
        loss.normaliser,
    )


def turn_weights(turns: LossTurns) -> Floats:
    """float64 (N,): weights of the turns: equal for all, or equal for groups or trajectories and within each of them.

    They sum to 1, but for "constant", where each is 1 over the number of trajectories times the normaliser.
    """
    count = len(turns.trajectory)
    if turns.aggregation == "token_mean" or not count:
        return np.full(count, 1.0 / max(count, 1))
    owner = turns.group if turns.aggregation == "group_token_mean" else turns.trajectory
    lengths = np.bincount(owner)
    if turns.aggregation == "constant":
        return np.full(count, 1.0 / (np.count_nonzero(lengths) * turns.normaliser))
    weights: Floats = 1.0 / (np.count_nonzero(lengths) * lengths[owner])
    return weights


def ascent_weights(turns: LossTurns, policy: Floats) -> Floats:
    """float64 (S, A): W with −∇ loss = Σ_sa W(s, a) ∇ log π(a|s).

    Args:
        turns: the turns of the update.
        policy: float64 (S, A), π, which sampled the rollouts, so that every ratio is 1.
    """
    flat = turns.state * policy.shape[1] + turns.action
    factor = turn_weights(turns) * turns.advantage
    result: Floats = np.bincount(flat, factor, minlength=policy.size).reshape(policy.shape).astype(np.float64)
    return result

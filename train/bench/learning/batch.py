"""The batch of one update: the tasks and random numbers drawn for it, the rollouts of every policy, and their credit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource
from creditflow.train.bench.controls import CreditFunction, ExactEvaluator
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup, simulate
from creditflow.train.bench.learning.loss import Centring, LossTurns, Scale, loss_turns
from creditflow.train.bench.learning.policy import Policy
from creditflow.train.bench.learning.stack import StackedTasks, sample_groups, split_rows
from creditflow.train.bench.methods import ORACLES, base_method, scheme_entry, with_corruption
from creditflow.train.bench.variants.entry import BatchCreditFunction
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit import Credit
from creditflow.wrappers.records.group import Group

__all__ = ["Batch", "Draw", "Sampling", "batch_credit", "draw_tasks", "draws", "sample_batches"]

Floats = NDArray[np.float64]
Key = Literal["state", "text"]
ROUNDS: Final = 3  # batches that dynamic sampling samples for an update at most


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the batch of an update is sampled, and its loss.

    Attributes:
        batch: B, tasks of an update, one group each.
        size: G, rollouts of a group.
        loss: the trainer's loss; its ``aggregation`` "auto" is the scheme's own.
        centring, scale: of each group's credit; see ``loss_turns``.
        key: the key by which schemes compare states.
        fresh: whether every visit of a state has a new key, so that keys never repeat.
        together: whether the tasks of a batch are sampled together, or one after the other from the same generator.
        wrong: probability that the outcome of a rollout is reported wrongly; a score x becomes 1 − x.
        dynamic: whether groups whose rollouts all have one score are replaced by groups of further tasks (dynamic sampling, DAPO,
            arXiv 2503.14476, section 3.2), until B groups differ or ``ROUNDS`` batches have been sampled.
    """

    batch: int
    size: int
    loss: LossConfig = field(default_factory=LossConfig)
    key: Key = "state"
    fresh: bool = False
    centring: Centring = "none"
    scale: Scale = "credit"
    together: bool = True
    wrong: float = 0.0
    dynamic: bool = False


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
        turns = self.stack.expected_turns(self.policy[None])[0]
        visits: Floats = turns / turns.sum()
        return visits

    @cached_property
    def sampled_visits(self) -> Floats:
        """float64 (S,): fraction of the sampled turns in each state; sums to 1."""
        numbers = [group.number + first for group, first in zip(self.groups, self.stack.offsets.tolist(), strict=False)]
        turns = np.bincount(np.concatenate(numbers), minlength=self.stack.size)
        visits: Floats = turns / turns.sum()
        return visits

    @property
    def turns(self) -> int:
        """Number of turns."""
        return sum(len(group.number) for group in self.groups)

    def turns_in_loss(self, credits_: Sequence[Credit], sampling: Sampling) -> LossTurns:
        """The turns that are in the loss, with a method's credit."""
        return loss_turns(self.groups, credits_, sampling.loss, sampling.centring, sampling.scale)

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


def sample_batches(
    mdps: Sequence[FiniteMDP], draw: Draw, policies: Sequence[Policy], sampling: Sampling, *, size: int = 0
) -> list[Batch]:
    """Sample rollouts of every policy on the same tasks, with common random numbers.

    Args:
        mdps: all tasks.
        draw: the update's tasks and random numbers; how much is drawn does not depend on the policies.
        policies: policies over all tasks.
        sampling: how the update is sampled.
        size: rollouts of a group; 0 for G.
    """
    stack, size = StackedTasks([mdps[i] for i in draw.tasks]), size or sampling.size
    tables = np.stack([np.concatenate(policy.probabilities(draw.tasks)) for policy in policies])
    if sampling.together:
        groups = sample_groups(stack, tables, size, draw.rng, name=draw.name, fresh=sampling.fresh)
    else:
        rows = [tables[:, first:last] for first, last in zip(stack.offsets[:-1], stack.offsets[1:], strict=True)]
        by_task = [
            simulate(mdps[i], table, size, draw.rng, name=f"{draw.name}/{number}", fresh=sampling.fresh)
            for number, (i, table) in enumerate(zip(draw.tasks, rows, strict=True))
        ]
        groups = [list(of_policy) for of_policy in zip(*by_task, strict=True)]
    if sampling.wrong:  # the same rollouts are reported wrongly under every policy
        wrong = draw.rng.random((len(draw.tasks), size)) < sampling.wrong
        groups = [list(map(ArrayGroup.misreported, of_policy, wrong)) for of_policy in groups]
    batches = [Batch(list(draw.tasks), stack, *of_policy) for of_policy in zip(tables, groups, strict=True)]
    if not sampling.dynamic:
        return batches
    return [
        _with_different_outcomes(mdps, draw, policy, sampling, batch)
        for policy, batch in zip(policies, batches, strict=True)
    ]


def _with_different_outcomes(
    mdps: Sequence[FiniteMDP], draw: Draw, policy: Policy, sampling: Sampling, first: Batch
) -> Batch:
    """The batch with groups of further tasks in place of those whose rollouts all have one score."""
    rng = np.random.default_rng([*draw.seed, 71])  # what other methods draw stays the same
    chosen, sampled = list[tuple[int, ArrayGroup]](), first
    for number in range(1, ROUNDS + 1):
        groups = zip(sampled.tasks, sampled.groups, strict=True)
        chosen += [(i, group) for i, group in groups if np.ptp(group.arrays.score)]
        if len(chosen) >= len(draw.tasks) or number == ROUNDS:
            break
        tasks = rng.choice(list(draw.pool) or draw.tasks, size=len(draw.tasks)).tolist()
        more = draw._replace(tasks=tasks, rng=rng, name=f"{draw.name}/{number}")
        (sampled,) = sample_batches(mdps, more, [policy], replace(sampling, dynamic=False))
    if not chosen:
        return first
    chosen = chosen[: len(draw.tasks)]
    tasks = [i for i, _ in chosen]
    table = np.concatenate(policy.probabilities(tasks))
    return Batch(tasks, StackedTasks([mdps[i] for i in tasks]), table, [group for _, group in chosen])


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
        corruption: for each group non-negative integers, the seed of its shuffling.
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
        with_corruption(name, _always(credit), seed)(group)
        for group, credit, seed in zip(groups, cache[base], corruption, strict=True)
    ]


def _uncorrupted(
    name: str, groups: Sequence[ArrayGroup], policies: Sequence[Floats], source: AnnotationSource | None, key: Key
) -> list[Credit]:
    evaluators = [ExactEvaluator(group.mdp, policy) for group, policy in zip(groups, policies, strict=True)]
    if name in ORACLES:
        return [ORACLES[name](evaluator)(group) for group, evaluator in zip(groups, evaluators, strict=True)]
    annotated = groups if source is None else list(map(source.annotate, groups, evaluators))
    return _bound(name, groups[0].mdp.horizon, key)(annotated)


def _always(credit: Credit) -> Callable[[str], CreditFunction]:
    def method(group: Group) -> Credit:  # noqa: ARG001 - a credit function's signature
        return credit

    return lambda _: method


@lru_cache(maxsize=256)
def _bound(name: str, horizon: int, key: Key) -> BatchCreditFunction:
    """The bound scheme, cached: construction validates it, and a learning curve would construct thousands."""
    return scheme_entry(name).bind_batch(horizon, key)

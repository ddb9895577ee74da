"""The batch of one update: the tasks sampled for it, and the rollouts of every policy on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import AnnotationSource
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup
from creditflow.train.bench.shared.credits import batch_credit
from creditflow.train.bench.shared.loss import LossTurns, loss_turns
from creditflow.train.bench.shared.policy import SharedPolicy
from creditflow.train.bench.shared.rollouts import sample_groups
from creditflow.train.bench.shared.stack import StackedTasks, split_rows
from creditflow.train.settings.update import LossConfig
from creditflow.wrappers.credit import Credit

__all__ = ["Batch", "Sampling", "draw_tasks", "sample_batches"]

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
    key: Literal["state", "text"] = "state"
    fresh: bool = False


class Batch(NamedTuple):
    """The rollouts of one policy in one update.

    Attributes:
        tasks: indices of the tasks; a task may occur several times.
        policy: float64 (S, A), the policy on the stacked states of these tasks.
        visits: float64 (S,), expected fraction of the batch's turns in each state; sums to 1.
        groups: one group per task.
    """

    tasks: list[int]
    policy: Floats
    visits: Floats
    groups: list[ArrayGroup]

    def credit(
        self,
        name: str,
        source: AnnotationSource,
        seed: Sequence[int],
        sampling: Sampling,
        known: dict[str, list[Credit]] | None = None,
    ) -> list[Credit]:
        """Credit of a method for every group; see ``batch_credit``.

        Raises:
            CreditError: the scheme cannot score one of the groups.
        """
        policies = self.split(self.policy)
        return batch_credit(name, self.groups, policies, source, seed, key=sampling.key, known=known)

    def turns(self, credits_: Sequence[Credit], sampling: Sampling) -> LossTurns:
        """The turns that are in the loss."""
        return loss_turns(self.groups, credits_, sampling.loss.aggregation)

    def split(self, table: Floats) -> list[Floats]:
        """A table (S, …) over the stacked states as one table per task."""
        return split_rows(table, [group.mdp.size for group in self.groups])


def draw_tasks(train: Sequence[int], batch: int, rng: np.random.Generator) -> list[int]:
    """Sample ``batch`` of the tasks ``train`` in random order; all are used before any is used again."""
    order = list[int]()
    while len(order) < batch:
        order += rng.permutation(len(train)).tolist()
    return [train[i] for i in order[:batch]]


def sample_batches(
    mdps: Sequence[FiniteMDP],
    tasks: Sequence[int],
    policies: Sequence[SharedPolicy],
    sampling: Sampling,
    rng: np.random.Generator,
    *,
    name: str,
    size: int = 0,
) -> list[Batch]:
    """Sample rollouts of every policy on the same tasks, with common random numbers.

    Args:
        mdps: all tasks.
        tasks: indices of the update's tasks.
        policies: policies over all tasks.
        sampling: how the update is sampled.
        rng: source of randomness; how much is drawn from it does not depend on the policies.
        name: prefix of the group ids, distinct for every update.
        size: rollouts of a group; 0 for G.
    """
    stack = StackedTasks([mdps[i] for i in tasks])
    tables = np.stack([np.concatenate(policy.probabilities(tasks)) for policy in policies])
    turns = stack.expected_turns(tables)
    visits = turns / turns.sum(axis=1, keepdims=True)
    groups = sample_groups(stack, tables, size or sampling.size, rng, name=name, fresh=sampling.fresh)
    return [Batch(list(tasks), *parts) for parts in zip(tables, visits, groups, strict=True)]

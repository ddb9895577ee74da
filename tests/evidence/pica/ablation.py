"""Arms of reinforcement learning that differ in their reward alone: F1, F1 + penalty, F1 + penalty + PiCA.

The penalty of turn t is λ α^(t−3) from the third turn on. The released λ = 0.3 and α = 1.5 were chosen for five turns:
over the eight that are allowed here the penalties sum to 6.2, and over five turns to 1.4, more than the reward of 1 for a
correct answer. Within the paper's ranges (λ up to 0.5, α from 1 to 1.5), λ = 0.1 and α = 1.1 sum to 0.77 over eight turns.
Both pairs are run, because the paper reports a collapse under the penalty alone.

The policy is a softmax table over states, initialised towards optimal actions; the scheme is ``pica`` in all
arms, with the other members of the group as baseline. In an arm without success model, f is constant and the shaping is
exactly 0. A table cannot generalise: success is measured on the training questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.tabular import TabularAgent
from creditflow.envs.tasks import Task
from creditflow.train.annotate import Annotator, annotate
from creditflow.train.rollout import play_group
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

__all__ = ["ARMS", "Arm", "run_arm"]

# λ, α and whether PiCA's model shapes the reward
ARMS: Final[Mapping[str, tuple[float, float, bool]]] = MappingProxyType(
    {
        "F1": (0.0, 1.0, False),
        "F1 + penalty": (0.1, 1.1, False),
        "F1 + penalty + PiCA": (0.1, 1.1, True),
        "F1 + released penalty": (0.3, 1.5, False),
        "F1 + released penalty + PiCA": (0.3, 1.5, True),
    }
)
OPTIMAL_PROB: Final = 0.5
KL: Final = 0.02  # nats per update


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """The learning curves of one arm and one seed.

    Attributes:
        f1, turns: float64 (iterations + 1, questions), means of the group before each update, and at the end.
    """

    f1: NDArray[np.float64]
    turns: NDArray[np.float64]


def run_arm(
    name: str,
    tasks: Sequence[Task],
    options: dict[str, Any],
    model: Annotator,
    *,
    iterations: int,
    group: int,
    seed: int,
    optimal_prob: float = OPTIMAL_PROB,
) -> Arm:
    """Train an arm on some questions from its initial policy.

    Args:
        name: one of ``ARMS``.
        tasks: the questions.
        options: of the environment.
        model: writes ``value.pica``; used only in arms with PiCA.
        iterations: updates.
        group: episodes per question and iteration.
        seed: of the rollouts; equal seeds give all arms the same rollouts in the first iteration.
        optimal_prob: probability of an optimal action under the initial policy.
    """
    penalty, growth, shaped = ARMS[name]
    scheme = credit.make("pica", baseline="group", log_floor=-3.0, penalty=penalty, penalty_growth=growth)
    rate: Callable[[Group], Group] = _constant if not shaped else lambda played: annotate([played], model)[0]
    env = GroupEnv("wikisearch", size=group, **options)
    agents = [TabularAgent(optimal_prob=optimal_prob, step_size=KL) for _ in tasks]
    f1, turns = np.empty((iterations + 1, len(tasks))), np.empty((iterations + 1, len(tasks)))
    for iteration in range(iterations + 1):
        for column, (task, agent) in enumerate(zip(tasks, agents, strict=True)):
            played = play_group(env, agent, task, seed=seed, iteration=iteration)
            f1[iteration, column] = np.mean([member.score for member in played.trajectories])
            turns[iteration, column] = len(played.turns) / len(played)
            if iteration < iterations:
                agent.update([played], [scheme.assign(rate(played))])
    return Arm(f1, turns)


def _constant(group: Group) -> Group:
    """The group with f = 1/2 in every state, which gives no shaping."""
    half = {"value.pica": 0.5, "value.pica.next": 0.5}
    members = (
        replace(m, turns=tuple(replace(turn, values={**turn.values, **half}) for turn in m.turns))
        for m in group.trajectories
    )
    return replace(group, trajectories=tuple(members))

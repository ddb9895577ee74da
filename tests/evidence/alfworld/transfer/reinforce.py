"""Policy gradients with the credit of a scheme, for the policy over features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from evidence.alfworld.transfer.play import Episode, play
from evidence.alfworld.transfer.policy import Adam, Policy, Sampled, log_gradient

from creditflow.envs.alfworld.game import Game
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["group_of", "reinforce"]

TASKS, MEMBERS = 16, 8  # per iteration; verl-agent's ALFWorld script has 16 groups of 8 too
RATE = 0.1


def group_of(game: Game, episodes: Sequence[Episode], number: int) -> Group:
    """Return episodes of one game as a group; winning is rewarded with 1."""
    members = []
    for i, episode in enumerate(episodes):
        last = len(episode.commands) - 1
        turns = tuple(
            Turn(episode.keys[t], command, episode.keys[t + 1], reward=float(episode.won and t == last))
            for t, command in enumerate(episode.commands)
        )
        ending: StopReason = "success" if episode.won else "env_limit"
        score = float(episode.won)
        name, task = f"{number}-{i}", game.task.task_id
        members.append(Trajectory(name, str(number), task, turns, episode.won, score, ending, episode.keys[-1]))
    return Group(tuple(members))


def reinforce(start: Policy, games: Sequence[Game], scheme: Scheme, iterations: int, seed: int) -> dict[str, float]:
    """Return the policy after so many steps of Adam; advantages are divided by their root mean square in every step."""
    policy, adam, names = dict(start), Adam(), list(start)
    for iteration in range(iterations):
        rng = np.random.default_rng([seed, 3, iteration])
        decisions, advantages = [], []
        for number in rng.permutation(len(games))[:TASKS].tolist():
            episodes = [play(games[number], Sampled(policy), rng, record=True) for _ in range(MEMBERS)]
            credit = scheme.assign(group_of(games[number], episodes, number))
            decisions += [decision for episode in episodes for decision in episode.decisions]
            advantages += np.where(credit.flat_loss_mask, credit.flat_advantages, 0.0).tolist()
        size = float(np.sqrt(np.mean(np.square(advantages))))
        if not size:  # every group's episodes were equally good
            continue
        found = log_gradient(policy, decisions, (np.array(advantages) / size / len(advantages)).tolist())
        names += [name for name in found if name not in policy]
        change = adam.step(np.array([found.get(name, 0.0) for name in names]), RATE * (1.0 - iteration / iterations))
        policy = {name: policy.get(name, 0.0) + step for name, step in zip(names, change.tolist(), strict=True)}
    return policy

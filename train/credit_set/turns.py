"""Episodes of the policies as turns for a credit set: the prompt that a judge reads, and the action that it rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from creditflow.agents.base import Agent, View
from creditflow.agents.prompts.template import Prompt, slots_of
from creditflow.agents.registry import make_agent
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import EpisodeError
from creditflow.envs.tasks import Task, load_panel
from creditflow.train.credit_set.ngram import NgramAgent
from creditflow.train.credit_set.settings import NGRAM, PANEL, SETTINGS
from creditflow.train.rollout.engine import RolloutEngine, RolloutReport
from creditflow.train.rollout.play import play_group
from creditflow.wrappers.group_env import GroupEnv

__all__ = ["MAX_HISTORY", "PlayedTurn", "Player", "judge_prompt"]

MAX_HISTORY: Final = 8_000  # characters of past turns in a prompt, which holds as many of the last turns as fit
TRAINING_TASKS: Final = 48  # number of training tasks of the n-gram model
TRAINING_NOISE: Final = 0.2

_HEAD: Final = "Task: {task}\n\nStep {step} of at most {steps}.\n\n"
_PAST: Final = "What happened so far:\n{history}\n\n"
_NOW: Final = "{refused}Observation now:\n{observation}"
_ACTIONS: Final = "\n\nPossible actions:\n{actions}"
_TURN: Final = "[step {step}] observation: {observation}\n[step {step}] action: {action}"
_REFUSED: Final = "The last action was rejected: {reason}\n\n"
JUDGE: Final = Prompt(
    "judge-v1", "", _HEAD + _NOW + _ACTIONS, "", _HEAD + _PAST + _NOW + _ACTIONS, _TURN, _REFUSED
)  # fmt: skip
# for environments whose list of actions gives the answer away
JUDGE_UNLISTED: Final = Prompt("judge-unlisted-v1", "", _HEAD + _NOW, "", _HEAD + _PAST + _NOW, _TURN, _REFUSED)


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One turn of an episode.

    Attributes:
        index: number of the turn in its episode, from 0.
        prompt: what a judge reads: task, past turns, observation, and the possible actions if they may be shown.
        action: text of the action.
        response: a language model's full text; "" for other agents.
        valid: whether the action was parsed and admissible.
        actions: listed admissible actions, sorted.
    """

    index: int
    prompt: str
    action: str
    response: str
    valid: bool
    actions: tuple[str, ...]


class Player:
    """Plays one environment with every policy of a credit set.

    Args:
        env: name of the environment.
        policies: names of the policies.
        seed: seed of the set.
    """

    def __init__(self, env: str, policies: Sequence[str], seed: int) -> None:
        self.env, self.seed, self.policies = env, seed, tuple(policies)
        self._group = GroupEnv(env, size=1, panel=PANEL, max_steps=SETTINGS[env].max_steps)
        self.base: AgentEnv[Any, Any, Any] = self._group.members[0].base
        self._engine = RolloutEngine(lambda: self._group)
        rows = load_panel(env, PANEL.partition(":")[0]).rows
        self.splits = {row.task_id: row.split for row in rows}
        order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
        self._ids = [rows[i].task_id for i in order.tolist()]
        self._agents = {policy: self._agent(policy) for policy in policies}

    def task(self, number: int) -> tuple[Task, int]:
        """Task of a job, and its replica: the number of complete passes over the panel before it."""
        return self.base.tasks.get(self._ids[number % len(self._ids)]), number // len(self._ids)

    def play(self, task: Task, replica: int, policy: str) -> list[PlayedTurn]:
        """Play one episode, and return all its turns.

        Raises:
            EpisodeError: the environment failed.
        """
        index = self.policies.index(policy)
        seed, iteration = self.seed * len(self.policies) + index, replica
        recording, report = _Recording(self._agents[policy]), RolloutReport()
        [group] = self._engine.play(recording, [task], seed=seed, iteration=iteration, report=report)
        if report.errors:
            raise EpisodeError(f"{policy} on {task.task_id}: {report.errors[0]}")
        return [
            PlayedTurn(t, prompt, turn.action, turn.response, turn.valid, actions)
            for t, (turn, (prompt, actions)) in enumerate(
                zip(group.trajectories[0].turns, recording.seen, strict=False)
            )
        ]

    def _agent(self, policy: str) -> Agent:
        if policy != NGRAM:
            return make_agent(policy)
        train = [task_id for task_id in sorted(self.splits) if self.splits[task_id] == "train"]
        chosen = np.random.default_rng(0).permutation(len(train))[:TRAINING_TASKS].tolist()
        expert = NoisyExpert(TRAINING_NOISE)
        return NgramAgent(play_group(self._group, expert, self.base.tasks.get(train[i]), seed=0) for i in chosen)


class _Recording:
    """An agent whose views are recorded as prompts for a judge."""

    def __init__(self, agent: Agent) -> None:
        self.name, self._agent = agent.name, agent
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def act(self, views: Sequence[View]) -> Any:
        """Record one view, and choose one action."""
        [view] = views
        self.seen.append((judge_prompt(view), tuple(sorted(view.info["admissible_actions"]))))
        return self._agent.act(views)


def judge_prompt(view: View) -> str:
    """The prompt that a judge reads before a turn, with at most ``MAX_HISTORY`` characters of past turns, the latest ones."""
    prompt = JUDGE_UNLISTED if view.env.actions_reveal_answer else JUDGE
    window = length = 0
    for turn in reversed(view.turns):
        length += len(turn.observation) + len(turn.action) + 60
        if length > MAX_HISTORY:
            break
        window += 1
    return prompt.fill("windowed" if window else "first", slots_of(prompt, view, window))

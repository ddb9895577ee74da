"""What a worker does: it receives a task as text, plays its group, and returns the group as lines of a log.

Only text passes between processes or machines, in the formats of the files. A group's episodes draw from generators
of their own (seed, iteration, task, replica), so it does not matter which worker plays it, or how often.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

from creditflow.agents.language_model.pretrained import ModelOptions
from creditflow.agents.registry import make_agent
from creditflow.envs.registration import maker
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.grading.rewards import named_reward
from creditflow.train.rollout import play_group
from creditflow.train.rollout.running import marked
from creditflow.wrappers.episode_rewards import with_reward_values
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.invalid_actions import Policy
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups, write_jsonl

__all__ = ["RolloutSpec", "RolloutWorker", "play_text", "read_group", "write_task"]


@dataclass(frozen=True, kw_only=True)
class RolloutSpec:
    """Everything that determines the episodes, as plain data.

    Attributes:
        env, options: name and arguments of the environment.
        agent: the agent's name on the command line.
        model: options of a language model (``ModelOptions``).
        group_size: number of episodes per task.
        invalid_actions, oracle: see ``GroupEnv``.
        rewards: names of transcript rewards written into the trajectories.
        seed: seed of the episodes.
        pictures: folder where pictures of observations are stored; "" for none.
        run: identity of the run as text, written into every trajectory; "" for none.
    """

    env: str
    options: dict[str, Any] = field(default_factory=dict)
    agent: str = "random"
    model: dict[str, Any] = field(default_factory=dict)
    group_size: int = 8
    invalid_actions: Policy = "keep"
    oracle: bool = False
    rewards: tuple[str, ...] = ()
    seed: int = 0
    pictures: str = ""
    run: str = ""

    def to_text(self) -> str:
        """Serialise to one line of JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> RolloutSpec:
        """Read what ``to_text`` wrote."""
        data = json.loads(text)
        return RolloutSpec(**{**data, "rewards": tuple(data["rewards"])})


def write_task(task: Task) -> str:
    """Serialise a task to one line of JSON."""
    return json.dumps({"task_id": task.task_id, "canonical_id": task.canonical_id, "content": dict(task.content)})


def read_group(text: str) -> Group:
    """Read the group from a worker's result."""
    [group] = read_groups(io.StringIO(text))
    return group


class RolloutWorker:
    """Plays tasks one after the other, with the same environments and agent."""

    def __init__(self, spec: RolloutSpec) -> None:
        self.spec = spec
        self._agent = make_agent(spec.agent, options=ModelOptions(**spec.model))
        self._rewards = {name: named_reward(name) for name in spec.rewards}
        self._env = GroupEnv(
            maker(spec.env, spec.options),
            size=spec.group_size,
            invalid_actions=spec.invalid_actions,
            oracle=spec.oracle,
            policy=spec.agent,
            pictures=spec.pictures,
        )

    def play_task(self, task: Task) -> Group:
        """Play the group of a task."""
        group = play_group(self._env, self._agent, task, seed=self.spec.seed)
        if self._rewards:
            group = with_reward_values(group, self._rewards)
        return marked(group, self.spec.run) if self.spec.run else group

    def play(self, task: str) -> str:
        """Play the group of a task given as text; returns the lines of a log."""
        stream = io.StringIO()
        write_jsonl(stream, [self.play_task(Task(**json.loads(task)))])
        return stream.getvalue()


def play_text(spec: str, task: str) -> str:
    """In a worker: play the group of a task given as text; returns the lines of a log."""
    return _worker(spec).play(task)


@lru_cache(maxsize=1)
def _worker(spec: str) -> RolloutWorker:
    return RolloutWorker(RolloutSpec.from_text(spec))

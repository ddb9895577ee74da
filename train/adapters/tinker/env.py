"""Our environments for tinker-cookbook: an ``Env`` on tokens, and an ``EnvGroupBuilder`` that credits its group.

The builder sees the whole group once it is played (``compute_group_rewards``), assigns credit there and notes it on the
transitions (``Transition.metrics``); ``data.py`` puts it on the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.episode_config import EpisodeConfig
from creditflow.train.adapters.releases import TINKER
from creditflow.train.adapters.text_episode import TextEpisode
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import assign_turns, make_group, per_completion, read_record, require_plain

TINKER.require()

import tinker
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult, Trajectory

__all__ = ["ADVANTAGE", "CreditEnv", "CreditGroupBuilder"]

ADVANTAGE = "creditflow/advantage"  # in a transition's metrics: the number of its turn


class CreditEnv(Env):
    """One episode. A completion whose format the renderer cannot parse is an invalid action, not the end.

    Args:
        episode: the episode.
        renderer: tinker-cookbook's, for the policy's model.
    """

    def __init__(self, episode: TextEpisode, renderer: Any) -> None:
        self.episode, self._renderer = episode, renderer
        self._messages: list[dict[str, Any]] = list(episode.messages)

    async def initial_observation(self) -> Any:
        """The first prompt and the stop condition."""
        return self._renderer.build_generation_prompt(self._messages), self._renderer.get_stop_sequences()

    async def step(self, action: list[int], *, extra: Any = None) -> StepResult:
        """Take the turn that these tokens write."""
        del extra  # a completion cut at its limit is judged as it stands
        message, _ = self._renderer.parse_response(action)
        reply = self.episode.step(_text(message["content"]))
        self._messages += [message, {"role": "user", "content": reply.text}]
        played = self.episode.trajectory if reply.done else None
        metrics = {} if played is None else {"success": float(played.success), "turns": len(played.turns)}
        empty = tinker.ModelInput.empty()
        return StepResult(
            reward=reply.reward,
            episode_done=reply.done,
            next_observation=empty if reply.done else self._renderer.build_generation_prompt(self._messages),
            next_stop_condition=self._renderer.get_stop_sequences(),
            metrics=metrics,
        )


@dataclass(frozen=True)
class CreditGroupBuilder(EnvGroupBuilder):
    """The group of one task.

    Attributes:
        play: environment, prompting and limits.
        content: the task's content (``panel_tasks`` lists tasks).
        renderer: tinker-cookbook's, for the policy's model.
        scheme: credit scheme; None plays without credit, as for evaluation.
        size: episodes; a group of one has zero credit.
    """

    play: EpisodeConfig
    content: Mapping[str, Any]
    renderer: Any
    scheme: Scheme | None
    size: int = 8

    async def make_envs(self) -> Sequence[Env]:
        """Fresh environments, one per episode."""
        if self.scheme is not None:
            require_plain(self.scheme)
        name = uuid4().hex
        episodes = [TextEpisode(self.play, self.content, group_id=name, replica=i) for i in range(self.size)]
        return [CreditEnv(episode, self.renderer) for episode in episodes]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, dict[str, float | int]]]:
        """Note each turn's credit on its transition; rewards stay those of the steps.

        Raises:
            TrajectoryError: a trajectory with more or fewer transitions than its episode has turns.
        """
        played = []
        for i, env in enumerate(env_group):
            if not isinstance(env, CreditEnv):
                raise TrajectoryError(f"environment {i} of the group is {type(env).__name__}, expected CreditEnv")
            env.episode.stop("token_limit")  # a budget of the rollout may have ended it
            played.append(read_record(env.episode.record(), str(i)))
        group = make_group(played[0][0].group_id if played else "?", played, alone="keep")
        taken = [[step for step in one.transitions if step.ac.tokens] for one in trajectory_group]
        if self.scheme is not None:
            [numbers] = assign_turns([group], self.scheme)
            spread = [per_completion(*one) for one in zip(group.trajectories, numbers, map(len, taken), strict=True)]
            for steps, per_step in zip(taken, spread, strict=True):
                for step, number in zip(steps, per_step, strict=True):
                    step.metrics[ADVANTAGE] = number if len(group) > 1 else 0.0
        return [(0.0, {"score": one.score}) for one in group.trajectories]

    def logging_tags(self) -> list[str]:
        """The environment's name."""
        return [self.play.env.name]


def _text(content: Any) -> str:
    """A completion as the model wrote it: renderers take its reasoning apart."""
    if isinstance(content, str):
        return content
    parts = {"thinking": "<think>{}</think>", "text": "{}"}
    return "".join(parts[part["type"]].format(part[part["type"]]) for part in content if part["type"] in parts)

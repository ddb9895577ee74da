"""tinker-cookbook: an ``Env`` on tokens, an ``EnvGroupBuilder`` that credits its group, and datums with that credit per sampled token.

The builder sees the whole group once it is played (``compute_group_rewards``), assigns credit there and notes it on the
transitions (``Transition.metrics``). tinker-cookbook computes one advantage per trajectory and has no hook for another, so its
training loop's function is replaced, once, before training::

    from tinker_cookbook.rl import train
    train.assemble_training_data = assemble_credit_data
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from creditflow.envs.errors import TrajectoryError, short_repr
from creditflow.train.adapters.releases import TINKER
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import assign_turns, make_group, per_completion, read_record, require_plain
from creditflow.wrappers.records.trajectory import is_number

TINKER.require()

import tinker
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult, Trajectory

__all__ = ["ADVANTAGE", "CreditEnv", "CreditGroupBuilder", "assemble_credit_data", "credit_datums"]

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
        if self.scheme is not None:
            [numbers] = assign_turns([group], self.scheme)
            spread = list[tuple[Any, float]]()
            for member, per_turn, rolled in zip(group.trajectories, numbers, trajectory_group, strict=True):
                steps = [step for step in rolled.transitions if step.ac.tokens]
                spread += zip(steps, per_completion(member, per_turn, len(steps)), strict=True)
            for step, number in spread:  # only when the whole group fits
                step.metrics[ADVANTAGE] = number
        return [(0.0, {"score": member.score}) for member in group.trajectories]

    def logging_tags(self) -> list[str]:
        """The environment's name."""
        return [self.play.env.name]


def _text(content: Any) -> str:
    """A completion as the model wrote it: renderers take its reasoning apart."""
    if isinstance(content, str):
        return content
    formats = {"thinking": "<think>{}</think>", "text": "{}"}
    return "".join(formats[item["type"]].format(item[item["type"]]) for item in content if item["type"] in formats)


def assemble_credit_data(
    trajectory_groups_P: Sequence[Any],  # noqa: N803 - tinker-cookbook passes it by this name
    advantages_P: Any = None,  # noqa: N803 - likewise
    include_provenance: bool = True,
) -> tuple[list[Any], list[dict[str, int]]]:
    """The datums of whole groups, with the interface of tinker-cookbook's ``assemble_training_data``.

    Args:
        trajectory_groups_P: groups that ``CreditGroupBuilder`` credited.
        advantages_P: one number per trajectory, which is not used.
        include_provenance: as in tinker-cookbook.

    Raises:
        TrajectoryError: see ``credit_datums``.
    """
    del advantages_P
    data, places = list[Any](), list[dict[str, int]]()
    for g, group in enumerate(trajectory_groups_P):
        for i, trajectory in enumerate(group.trajectories_G):
            new = credit_datums(trajectory, include_provenance=include_provenance)
            data += new
            places += [{"group_idx": g, "traj_idx": i} for _ in new]
    return data, places


def credit_datums(trajectory: Any, *, include_provenance: bool = True) -> list[Any]:
    """tinker-cookbook's own datums of a trajectory, each sampled token with the number of its turn.

    Raises:
        TrajectoryError: a transition without credit, or whose tokens tinker-cookbook masks out.
    """
    import torch
    from tinker import TensorData
    from tinker_cookbook.rl.data_processing import trajectory_to_data

    numbers: list[float] = []
    for t, step in enumerate(trajectory.transitions):
        number = step.metrics.get(ADVANTAGE)
        if step.ac.tokens and not is_number(number):
            raise TrajectoryError(
                f"transition {t} has no credit under {ADVANTAGE!r} (got {short_repr(number)}): let CreditGroupBuilder, "
                "with a scheme, make and credit the group"
            )
        numbers += [number] * len(step.ac.tokens)
    data = trajectory_to_data(trajectory, 1.0, include_provenance=include_provenance)
    masks = [datum.loss_fn_inputs["mask"].to_torch() > 0 for datum in data]
    if sum(int(mask.sum()) for mask in masks) != len(numbers):
        raise TrajectoryError(
            "tinker-cookbook masks sampled tokens out of the loss: set no ParseErrorPolicy.mask_error_turns"
        )
    begin = 0
    for datum, mask in zip(data, masks, strict=True):
        end = begin + int(mask.sum())
        advantages = torch.zeros(mask.shape)
        advantages[mask] = torch.tensor(numbers[begin:end])
        datum.loss_fn_inputs["advantages"] = TensorData.from_torch(advantages)
        begin = end
    return list(data)

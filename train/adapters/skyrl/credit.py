"""Credit in the output of SkyRL's generator: each turn's number on its last token. NumPy only.

SkyRL's estimators see rewards and masks but no states, so credit is computed where whole groups and the episodes' records are:
on ``GeneratorOutput``, whose rewards may be lists per token. ``spread_over_turns`` then puts each number on
the tokens of its turn. Register it where SkyRL's own estimators are (its trainer needs Python 3.12)::

    from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator
    register_advantage_estimator("creditflow")(spread_over_turns)
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import (
    FIELD,
    assign_episodes,
    per_completion,
    per_run,
    read_record,
    require_plain,
    sampled_runs,
)

__all__ = ["METRICS", "credit_output", "credited", "spread_over_turns"]

METRICS: Final = "creditflow_metrics"  # where our environment leaves its metrics in a row's columns when it closes


def credit_output(output: Mapping[str, Any], scheme: Scheme) -> dict[str, Any]:
    """The output with credit as token rewards.

    The rewards that SkyRL logs are then sums of advantages; success and return are among the environment's metrics.

    With ``generator.step_wise_trajectories`` each step of an episode is a row with a prompt of its own. SkyRL's trainer reads the
    reward of an episode's last row alone and copies its advantage to the others. In the result every row is therefore an
    episode of one step, of the same group, and keeps its own number.

    Args:
        output: SkyRL's ``GeneratorOutput`` of episodes in ``CreditTextEnv``: a row for each episode, or with ``is_last_step`` a
            row for each step, those of an episode one after the other.
        scheme: credit scheme.

    Raises:
        ConfigError: rows without trajectory ids; an unfitting scheme.
        TrajectoryError: a group of one, episodes without records, rows of an episode that do not stand together, or another number
            of completions than turns (tokens as sampled need ``generator.use_conversation_multi_turn=true``).
    """
    require_plain(scheme)
    ids, metrics, masks = output.get("trajectory_ids"), output.get("env_metrics"), output["loss_masks"]
    if ids is None or metrics is None or not len(ids) == len(metrics) == len(masks):
        raise ConfigError(
            "credit needs trajectory_ids and env_metrics of every row, as SkyRL's trainer and generator set them"
        )
    last = output.get("is_last_step")
    episodes = [[row] for row in range(len(ids))] if last is None else _episodes(ids, last)
    ends = [rows[-1] for rows in episodes]
    played = [read_record(metrics[row].get(FIELD), ids[row].to_string()) for row in ends]
    scored = assign_episodes(played, [str(ids[row].instance_id) for row in ends], scheme)
    rewards = [[0.0] * len(mask) for mask in masks]
    for rows, (member, per_turn) in zip(episodes, scored, strict=True):
        runs = [sampled_runs(masks[row]) for row in rows]
        if last is not None:  # a row is a completion, also one that was left out of the loss (apply_overlong_filtering)
            completions = [max(len(of_row), 1) for of_row in runs]
            numbers = iter(per_completion(member, per_turn, sum(completions)))
        elif masks[rows[0]] and not runs[0]:
            continue  # the generator left the whole episode out of the loss
        else:
            completions = [len(runs[0])]
            numbers = iter(per_run(member, per_turn, len(runs[0])))
        for row, of_row, count in zip(rows, runs, completions, strict=True):
            of_completions = [next(numbers) for _ in range(count)]
            for (_, stop), number in zip(of_row, of_completions, strict=False):
                rewards[row][stop - 1] = number
    reported = list[dict[str, Any]]()
    for each in metrics:
        reported.append({name: value for name, value in each.items() if name != FIELD})
    done = {**output, "rewards": rewards, "env_metrics": reported}
    return done if last is None else {**done, "trajectory_ids": _alone(ids), "is_last_step": [True] * len(ids)}


def _episodes(ids: Sequence[Any], last: Sequence[bool]) -> list[list[int]]:
    """The rows of every episode.

    Raises:
        ConfigError: not one flag for each row.
        TrajectoryError: rows whose ids and flags do not say the same.
    """
    if len(last) != len(ids):
        raise ConfigError(f"is_last_step has {len(last)} entries for {len(ids)} rows; expected one for each")
    episodes, seen = list[list[int]](), set[str]()
    for row, identity in enumerate(ids):
        name = identity.to_string()
        if not row or last[row - 1]:
            if name in seen:
                raise TrajectoryError(
                    f"row {row} begins episode {name!r} a second time: rows of an episode must stand together"
                )
            seen.add(name)
            episodes.append([])
        elif name != ids[row - 1].to_string():
            raise TrajectoryError(
                f"row {row} is of episode {name!r}, but is_last_step does not end {ids[row - 1].to_string()!r} before it: were rows "
                "left out or sorted?"
            )
        episodes[-1].append(row)
    if len(last) and not last[-1]:
        raise TrajectoryError(
            f"is_last_step does not end episode {ids[-1].to_string()!r}: were its last rows left out?"
        )
    return episodes


def _alone(ids: Sequence[Any]) -> list[Any]:
    """Ids of the same instances under which every row is a repetition of its own."""
    renamed = list[Any]()
    for row, identity in enumerate(ids):
        renamed.append(copy.copy(identity))
        renamed[-1].repetition_id = row
    return renamed


def credited(generator: type[Any], scheme: Scheme) -> type[Any]:
    """A subclass of a generator of SkyRL whose training output carries credit; evaluation output is left alone."""

    class CreditGenerator(generator):  # type: ignore[misc]  # a class of the caller's
        async def generate(self, input_batch: Any, *args: Any, **others: Any) -> Any:
            output = await super().generate(input_batch, *args, **others)
            batch = input_batch.get("batch_metadata")
            if batch is not None and batch.training_phase == "eval":
                return output
            if output.get("trajectory_ids") is not None:
                return credit_output(output, scheme)
            # SkyRL's own generator leaves None where rows are whole episodes
            named = {**output, "trajectory_ids": input_batch.get("trajectory_ids")}
            return {**credit_output(named, scheme), "trajectory_ids": None}

        def _setup_env_extras(self, env_class: Any, env_extras: Any, *args: Any) -> dict[str, Any]:
            """A row's columns, of which each of its episodes gets a copy: our environment writes into them."""
            return dict(super()._setup_env_extras(env_class, env_extras, *args))

        def _post_process_agent_loop_output(self, output: Any, env_extras: Any, trajectory_id: Any) -> Any:
            """Give the last step of an episode that a limit of length ended its metrics, which SkyRL keeps of ended ones only."""
            steps = getattr(output, "step_outputs", ())
            if steps and not steps[-1].env_metrics:
                steps[-1].env_metrics = env_extras.get(METRICS, {})
            return super()._post_process_agent_loop_output(output, env_extras, trajectory_id)

    return CreditGenerator


def spread_over_turns(token_level_rewards: Any, response_mask: Any, **_: Any) -> tuple[Any, Any]:
    """Advantages and returns, both (B, T): the reward on the last token of each run of the mask, over the run.

    Args:
        token_level_rewards: float (B, T), what ``credit_output`` wrote, padded by SkyRL.
        response_mask: (B, T), 1 for sampled tokens. For rows of single steps SkyRL passes ones and masks afterwards; a row's one
            number then covers the row.
        **_: what SkyRL passes to every estimator.

    Raises:
        TrajectoryError: a number on a token that does not end a turn: rewards that are not credit, or with a KL penalty.
    """
    import torch

    mask = response_mask.to(torch.bool)
    if bool(mask.all()) and bool(((token_level_rewards != 0).sum(-1) <= 1).all()):
        advantages = token_level_rewards.sum(-1, keepdim=True).expand_as(token_level_rewards)
        return advantages, advantages
    starts = mask.clone()
    starts[:, 1:] &= ~mask[:, :-1]
    ends = mask.clone()
    ends[:, :-1] &= ~mask[:, 1:]
    if bool(((token_level_rewards != 0) & ~ends).any()):
        raise TrajectoryError(
            "there is a reward on a token that does not end a turn: let credit_output write the rewards, and set "
            "trainer.algorithm.use_kl_in_reward=false"
        )
    run = starts.to(torch.long).cumsum(-1) * mask
    totals = torch.zeros(mask.shape[0], mask.shape[1] + 1, dtype=token_level_rewards.dtype, device=mask.device)
    totals.scatter_add_(1, run, token_level_rewards * ends)
    advantages = totals.gather(1, run) * mask
    return advantages, advantages

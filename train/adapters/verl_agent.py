"""Drop-in advantage function for verl-agent and its forks: arrays of their batch in, ``(advantages, returns)`` out.

In the fork's ``compute_advantage`` (``verl/trainer/ppo/ray_trainer.py``) add one branch::

    elif adv_estimator == "creditflow":
        from creditflow import credit
        from creditflow.train.adapters.verl_agent import compute_advantages
        scheme = credit.make("grouptd", key="text")
        data.batch["advantages"], data.batch["returns"] = compute_advantages(data, scheme=scheme)

and, so that shuffled and duplicated rows are identified, one line in its rollout loop, beside ``active_masks`` (without
it, only schemes that compare whole trajectories work, unless rows have ``next_obs`` or you assert ``ordered=True``)::

    batch.non_tensor_batch["step"] = np.full(batch_size, _step)

``semantics="release"`` of grpo, rloo, gigpo, graphgpo and rewardflow gives the fork's own numbers (with ties exactly zero
where float32 leaves noise); ``compute_gigpo_outcome_advantage`` has the signature of the fork's function of that name.
torch is not imported: what comes in as a tensor goes out as one, on its device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr
from creditflow.wrappers.canonical.similarity import greedy_similarity
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import GroupedTurns, TurnColumns, assign_groups, numbers, state_text
from creditflow.wrappers.credit.combined import schemes_of
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import OutcomeScheme, PenaltyScheme
from creditflow.wrappers.credit.outcomes.grpo import GRPO
from creditflow.wrappers.credit.outcomes.mt_grpo import MTGRPO
from creditflow.wrappers.credit.outcomes.rloo import RLOO
from creditflow.wrappers.credit.outcomes.stateless import Stateless
from creditflow.wrappers.credit.outcomes.step_to_go import StepToGo
from creditflow.wrappers.credit.outcomes.turn_loo import TurnLOO
from creditflow.wrappers.credit.states.gigpo import GiGPO
from creditflow.wrappers.credit.states.graphgpo import GraphGPO
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.credit.states.rewardflow import RewardFlow

__all__ = ["COLUMNS", "compute_advantages", "compute_gigpo_outcome_advantage"]

TOLERANCE = 1e-4  # relative, of the fork's float32 sums
COLUMNS: Final = {  # the bridge's columns -> verl-agent's
    "group": "uid",
    "trajectory": "traj_uid",
    "state": "anchor_obs",
    "next_state": "next_obs",
    "reward": "rewards",
    "turn": "step",
    "action": "text_actions",
    "ended": "success",
    "valid": "is_action_valid",
    "active": "active_masks",
}


def compute_advantages(data: Any, *, scheme: Scheme, ordered: bool = False) -> tuple[Any, Any]:
    """Advantages and returns of a fork's ``DataProto``, whose rows are steps.

    Args:
        data: with ``batch`` (``token_level_rewards``, (B, T), whose rows sum to the episode's reward, less the penalty of an invalid
            step, and ``response_mask``, (B, T)) and ``non_tensor_batch``, its columns named as in ``COLUMNS``: the group, the
            trajectory, the state and the environment's reward of each step are needed. ``success`` is a flag per row, without which a
            positive sum of rewards is one.
        scheme: any that needs no annotations.
        ordered: assert that the rows of each trajectory are in temporal order without duplicates. Needed if neither
            ``step`` nor ``next_obs`` is given, unless the scheme only compares whole trajectories.

    Returns:
        Two (B, T) tensors, as the fork's own estimators return them.

    Raises:
        TrajectoryError: a column is missing; rows do not fit together (see ``TurnColumns.grouped``); nothing shows their order; token
            rewards that are not the episodes'.
        ConfigError: the scheme needs annotations, or learns a critic.
    """
    columns: Mapping[str, Any] = data.non_tensor_batch
    if missing := [
        COLUMNS[name] for name in ("group", "trajectory", "state", "reward") if COLUMNS[name] not in columns
    ]:
        raise TrajectoryError(
            f"the batch has no {', '.join(missing)}; it has {', '.join(sorted(columns))}. verl-agent's rollout loop "
            "writes these columns: was the batch made by another loop?"
        )
    if needed := (*scheme.needs, *scheme.requires_tokens, *scheme.task_fields):
        raise ConfigError(f"scheme {scheme.name!r} reads {', '.join(needed)}, which a verl-agent batch does not carry")
    if "step" not in columns and "next_obs" not in columns and not ordered and not _compares_trajectories(scheme):
        raise TrajectoryError(
            f"scheme {scheme.name!r} reads the order of steps, and rows with neither step nor next_obs do not show whether "
            "they were shuffled or copied: write step in the rollout loop "
            "(batch.non_tensor_batch['step'] = np.full(batch_size, _step)), or pass ordered=True if the rows of each "
            "trajectory stand in the order of time, without copies"
        )
    turns: dict[str, Any] = {ours: columns.get(theirs) for ours, theirs in COLUMNS.items()}
    if turns["ended"] is not None:
        turns["ended"] = ["success" if won else "env_limit" for won in _flags(turns["ended"])]
    grouped = TurnColumns(**turns, called=COLUMNS).grouped()
    if turns["ended"] is None:
        _check_outcomes(np.concatenate([np.zeros(1), *(group.arrays.returns for group in grouped.groups)]), scheme)
    totals = numbers(data.batch["token_level_rewards"]).sum(-1)
    _check_rewards(grouped, scheme, totals)
    credits_ = assign_groups(grouped.groups, scheme)
    per_row = grouped.spread([np.where(each.flat_loss_mask, each.flat_advantages, 0.0) for each in credits_])
    return over_rows(per_row, data.batch["response_mask"], data.batch["token_level_rewards"])


def _flags(success: Any) -> NDArray[np.bool_]:
    """bool (B,): the column "success"."""
    flags = numbers(success)
    if not np.isin(flags, (0.0, 1.0)).all():
        raise TrajectoryError(f"success must contain True and False (or 1 and 0), got {short_repr(success)}")
    won: NDArray[np.bool_] = flags == 1.0
    return won


def compute_gigpo_outcome_advantage(
    token_level_rewards: Any,
    step_rewards: Any,
    response_mask: Any,
    anchor_obs: Any,
    index: Any,
    traj_index: Any,
    epsilon: float = 1e-6,
    step_advantage_w: float = 1.0,
    mode: str = "mean_norm",
    enable_similarity: bool = False,
    similarity_thresh: float = 0.95,
) -> tuple[Any, Any]:
    """GiGPO with the fork's own signature: every row is a sample, and penalties are already in the scores.

    The order of rows does not matter. Equal scores give exactly 0.

    Args:
        token_level_rewards: (B, T), summing to each row's score.
        step_rewards: (B,), discounted returns as the fork computed them.
        response_mask: (B, T).
        anchor_obs, index, traj_index: (B,); the fork's function does not read the last either.
        epsilon: added to standard deviations.
        step_advantage_w: ω.
        mode: "mean_norm" or "mean_std_norm".
        enable_similarity, similarity_thresh: cluster texts of anchors within a group, greedily, in row order.
    """
    if mode not in ("mean_norm", "mean_std_norm"):
        raise ConfigError(f"mode must be 'mean_norm' or 'mean_std_norm', got {short_repr(mode)}")
    del traj_index
    scale: Any = "std" if mode == "mean_std_norm" else "none"
    groups = _numbered([str(uid) for uid in index])
    keys = [state_text(anchor) for anchor in anchor_obs]
    states = _numbered(list(zip(groups.tolist(), keys, strict=True)))
    if enable_similarity:
        states = _clustered(groups, keys, similarity_thresh)
    episode = normalize(
        numbers(token_level_rewards).sum(-1), groups, _count(groups), scale=scale, std_eps=epsilon, singleton="raw"
    )
    compared = normalize(numbers(step_rewards).reshape(-1), states, _count(states), scale=scale, std_eps=epsilon)
    return over_rows(episode + step_advantage_w * compared, response_mask, token_level_rewards)


def _compares_trajectories(scheme: Scheme) -> bool:
    """Whether the scheme's advantages depend neither on the order of a trajectory's rows nor on copies of rows."""
    return all(
        isinstance(each, OutcomeScheme)
        and not isinstance(each, StateScheme)
        and getattr(each, "stats_over", "trajectories") == "trajectories"
        for each in schemes_of(scheme)
    )


def _clustered(groups: NDArray[np.int32], keys: list[str], threshold: float) -> NDArray[np.int32]:
    """int32 (N,): clusters of similar keys, each group by itself."""
    out = np.zeros(len(keys), np.int32)
    count = 0
    for group in range(_count(groups)):
        rows = np.flatnonzero(groups == group)
        distinct = list(dict.fromkeys(keys[i] for i in rows.tolist()))
        met = [distinct.index(keys[i]) for i in rows.tolist()]
        out[rows] = count + greedy_similarity(tuple(distinct), met, threshold)[met]
        count += len(distinct)
    return out


def _numbered(names: list[Any]) -> NDArray[np.int32]:
    labels: dict[Any, int] = {}
    return np.array([labels.setdefault(name, len(labels)) for name in names], np.int32)


def _count(labels: NDArray[np.int32]) -> int:
    return int(labels.max()) + 1 if len(labels) else 0


def _check_outcomes(returns: NDArray[np.float64], scheme: Scheme) -> None:
    """Raise TrajectoryError if the scheme reads success, and the episodes' rewards (M,) do not determine it."""
    positive = returns[returns > 0.0]
    plain = not len(positive) or float(np.ptp(positive)) <= TOLERANCE * float(
        positive.max()
    )  # no reward, or always the same one
    graded = bool((returns >= 0.0).all() and (returns <= 1.0).all())
    each_alone = schemes_of(scheme)
    if plain or not any(_reads_success(each) or (_outcome(each) == "score" and not graded) for each in each_alone):
        return
    raise TrajectoryError(
        f"scheme {scheme.name!r} reads success, and the batch has no such column: episode rewards between "
        f"{positive.min():g} and {positive.max():g} do not determine it; write non_tensor_batch['success'], bool, in the rollout loop"
    )


def _outcome(scheme: Scheme) -> str:
    return str(getattr(scheme, "outcome", ""))


def _reads_success(scheme: Scheme) -> bool:
    by_rewards = (
        isinstance(scheme, GRPO | RLOO | GiGPO | Stateless | StepToGo | TurnLOO | MTGRPO)
        or (isinstance(scheme, GraphGPO) and scheme.terminals == "merged")
        or (isinstance(scheme, RewardFlow) and scheme.propagation == "first_seen_rewards")
    )
    return not by_rewards or _outcome(scheme) == "success"


def _check_rewards(grouped: GroupedTurns, scheme: Scheme, totals: NDArray[np.float64]) -> None:
    penalised = next((each for each in schemes_of(scheme) if isinstance(each, PenaltyScheme)), None)
    penalty = penalised.invalid_penalty if penalised else 0.0
    for g, group in enumerate(grouped.groups):
        rows = np.flatnonzero(grouped.group == g)
        turn = grouped.turn[rows]
        expected = group.arrays.returns[group.arrays.trajectory][turn]
        penalties = penalised.penalties(group)[turn] if penalised else np.zeros(len(turn))
        tolerance = TOLERANCE * np.maximum(1.0, np.abs(expected))
        wrong = np.flatnonzero(np.abs(expected - totals[rows] - penalties) > tolerance)
        if len(wrong):
            i = int(wrong[0])
            raise TrajectoryError(
                f"row {rows[i]}: token_level_rewards sum to {totals[rows[i]]:g}, the rewards of its episode sum to "
                f"{expected[i]:g} and an invalid step loses {penalty:g} under "
                f"{scheme.name!r}: is algorithm.use_kl_in_reward on, is the fork's invalid_action_penalty_coef another "
                "than the scheme's invalid_penalty, or are rows of an episode missing?"
            )


def over_rows(per_row: NDArray[np.float64], response_mask: Any, like: Any) -> tuple[Any, Any]:
    """(B, T): each row's advantage on its response tokens, float32, of the type of ``like``."""
    out = (per_row[:, None] * numbers(response_mask)).astype(np.float32)
    if hasattr(like, "new_tensor"):
        tensor = like.new_tensor(out)
        return tensor, tensor.clone()
    return out, out.copy()

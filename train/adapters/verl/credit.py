"""Assign credit to a verl batch: whole groups of episode records in, (B, T) advantages and loss mask out. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.verl.record import EpisodeRecord
from creditflow.train.policy.samples import broadcast_to_tokens
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Aggregation, Credit, Scheme
from creditflow.wrappers.records.group import Group

__all__ = ["NAME", "CreditSettings", "CreditedBatch", "collect_groups", "credit_batch", "read_settings"]

NAME: Final = "creditflow"  # name of the estimator, the agent loop and the settings section
# loss aggregation of the scheme -> verl's actor.loss_agg_mode; verl has none over turns
LOSS_AGG_MODES: Final[Mapping[Aggregation, str]] = {
    "token_mean": "token-mean",
    "trajectory_mean": "seq-mean-token-mean",
}


@dataclass(frozen=True, kw_only=True)
class CreditSettings:
    """``algorithm.creditflow`` of verl's config.

    Attributes:
        scheme, semantics, parameters: for ``credit.make``.
        averaging: "scheme" requires an ``actor.loss_agg_mode`` that aggregates as the scheme does; "verl" keeps verl's mode.
        incomplete: groups of fewer than ``rollout.n`` episodes: "refuse" them, or "zero" their advantages (their tokens
            still count in verl's averages).
    """

    scheme: str = "grpo"
    semantics: Literal["paper", "release"] = "paper"
    parameters: dict[str, Any] = field(default_factory=dict)
    averaging: Literal["scheme", "verl"] = "scheme"
    incomplete: Literal["refuse", "zero"] = "refuse"

    def make(self) -> Scheme:
        """The scheme.

        Raises:
            ConfigError: the scheme needs annotations, and a verl run has no annotators.
        """
        scheme = credit.make(self.scheme, semantics=self.semantics, **self.parameters)
        if needed := (*scheme.needs, *scheme.requires_tokens):
            raise ConfigError(
                f"scheme {scheme.name!r} needs {', '.join(needed)}, which annotators write; a verl run has none: use "
                "creditflow's own trainer or the TRL adapter for it"
            )
        return scheme


def read_settings(section: Any) -> CreditSettings:
    """Settings from plain data; None gives the defaults.

    Raises:
        ConfigError: unknown or ill-typed settings.
    """
    return read_dataclass(CreditSettings, {} if section is None else section, f"algorithm.{NAME}")


def check_averaging(scheme_averages: Aggregation, loss_agg_mode: str) -> None:
    """Raise ConfigError unless verl aggregates token losses as the scheme requires."""
    fitting = LOSS_AGG_MODES.get(scheme_averages)
    if loss_agg_mode != fitting:
        raise ConfigError(
            f"the scheme averages token losses by {scheme_averages}, actor_rollout_ref.actor.loss_agg_mode is "
            f"{loss_agg_mode!r}; {f'{fitting!r} fits' if fitting else 'verl has none that fits'}. "
            f"algorithm.{NAME}.averaging=verl takes verl's averaging instead"
        )


@dataclass(frozen=True, slots=True, eq=False)
class CreditedBatch:
    """A batch with credit.

    Attributes:
        advantages: float64 (B, T), 0 where the mask is 0.
        mask: bool (B, T): verl's mask, less the turns that the scheme leaves out of the loss.
        groups, credits: the groups and their credit.
    """

    advantages: NDArray[np.float64]
    mask: NDArray[np.bool_]
    groups: tuple[Group, ...]
    credits: tuple[Credit, ...]


def collect_groups(
    uids: Sequence[str], records: Sequence[EpisodeRecord | None], size: int
) -> dict[str, list[tuple[int, EpisodeRecord]]]:
    """Rows of each group, with their records.

    Args:
        uids: name of each row's group, as verl gives it.
        records: of each row; None for rows that pad the batch.
        size: episodes per group.

    Raises:
        TrajectoryError: a group has more episodes.
    """
    rows: dict[str, list[tuple[int, EpisodeRecord]]] = {}
    for i, (uid, record) in enumerate(zip(uids, records, strict=True)):
        if record is not None:
            rows.setdefault(str(uid), []).append((i, record))
    for uid, members in rows.items():
        if len(members) > size:
            raise TrajectoryError(f"group {uid!r} has {len(members)} episodes, rollout.n is {size}")
    return rows


def credit_batch(
    scheme: Scheme,
    uids: Sequence[str],
    records: Sequence[EpisodeRecord | None],
    mask: NDArray[Any],
    *,
    size: int,
    incomplete: Literal["refuse", "zero"] = "refuse",
) -> CreditedBatch:
    """Advantages of every token of a batch, rows in the order given.

    Args:
        scheme: credit scheme.
        uids, records: of each row; None for rows that pad the batch, which get zeros.
        mask: (B, T), 1 for sampled tokens; right-padded with 0.
        size: episodes per group (``rollout.n``).
        incomplete: groups with fewer episodes are an error ("refuse") or get zero advantages ("zero").

    Raises:
        TrajectoryError: groups that are not whole, or records that do not fit the mask.
        ConfigError: a scheme that learns a critic.
    """
    sampled = np.asarray(mask).astype(np.bool_)
    rows = collect_groups(uids, records, size)
    whole = {uid: members for uid, members in rows.items() if len(members) == size}
    if len(whole) < len(rows) and incomplete == "refuse":
        uid, members = next((uid, members) for uid, members in rows.items() if len(members) < size)
        raise TrajectoryError(
            f"group {uid!r} has {len(members)} of {size} episodes here: credit compares all episodes of a task, so it "
            "is computed where whole groups are. Was the batch split over workers, or did an episode fail? "
            f"algorithm.{NAME}.incomplete=zero gives such groups zero advantages instead"
        )
    groups = tuple(_group(uid, [record for _, record in members]) for uid, members in whole.items())
    credits_ = tuple(scheme.assign_batch(groups)) if groups else ()
    advantages, kept = np.zeros(sampled.shape), sampled.copy()
    for members, one in zip(whole.values(), credits_, strict=True):
        if one.value_targets is not None or one.token_advantages is not None:
            raise ConfigError(f"scheme {scheme.name!r} credits tokens or trains a critic; verl's own GAE does that")
        for (i, record), numbers, in_loss in zip(members, one.advantages, one.loss_mask, strict=True):
            advantages[i], kept[i] = _over_tokens(record, numbers, in_loss, sampled[i])
    return CreditedBatch(advantages, kept, groups, credits_)


def _group(uid: str, records: Sequence[EpisodeRecord]) -> Group:
    payload = next((record.task for record in records if record.task), {})
    read = {name: text for record in records for name, text in record.task.get("documents", {}).items()}
    task = {**payload, "documents": read} if read else payload
    return Group(tuple(replace(record.trajectory, group_id=uid) for record in records), task)


def _over_tokens(
    record: EpisodeRecord, numbers: NDArray[np.float64], in_loss: NDArray[np.bool_], sampled: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Advantages per turn as float64 (T,) over a row's response tokens, and bool (T,): the tokens in the loss."""
    name = f"trajectory {record.trajectory.trajectory_id!r}"
    end = int(record.turn_offsets[-1])
    if end > len(sampled) or sampled[end:].any():
        raise TrajectoryError(
            f"{name}: its turns end at token {end}, the last sampled token of the mask is number "
            f"{int(np.flatnonzero(sampled)[-1]) + 1 if sampled.any() else 0} of {len(sampled)}: was the response cut?"
        )
    if not len(numbers):
        return np.zeros(len(sampled)), np.zeros(len(sampled), np.bool_)
    kept = sampled & (broadcast_to_tokens(in_loss.astype(np.float64), record.turn_offsets, sampled) > 0.0)
    return broadcast_to_tokens(numbers, record.turn_offsets, kept), kept

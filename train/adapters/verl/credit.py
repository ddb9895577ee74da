"""Assign credit to a verl batch: whole groups of episode records in, (B, T) advantages and loss mask out. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.verl.record import EpisodeRecord
from creditflow.train.adapters.verl.rows import EpisodeRows, RowText, TurnRow, group_rows
from creditflow.train.policy.samples import broadcast_to_tokens
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Aggregation, Credit, Scheme
from creditflow.wrappers.records.group import Group

__all__ = ["NAME", "CreditSettings", "CreditedBatch", "credit_batch", "read_settings"]

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
        incomplete: groups of fewer than ``rollout.n`` whole episodes: "refuse" them, or "zero" their advantages (their tokens
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


def check_averaging(scheme_averages: Aggregation, loss_agg_mode: str, *, windowed: bool = False) -> None:
    """Raise ConfigError unless verl aggregates token losses as the scheme requires; ``windowed``: a row is a turn."""
    fitting = LOSS_AGG_MODES.get(scheme_averages)
    if windowed and scheme_averages != "token_mean":  # verl's means over rows would be means over turns
        fitting = None
    if loss_agg_mode != fitting:
        rows = " over rows of one turn" if windowed else ""
        raise ConfigError(
            f"the scheme averages token losses by {scheme_averages}, actor_rollout_ref.actor.loss_agg_mode is "
            f"{loss_agg_mode!r}{rows}; {f'{fitting!r} fits' if fitting else 'verl has none that fits'}. "
            f"algorithm.{NAME}.averaging=verl takes verl's averaging instead"
        )


@dataclass(frozen=True, slots=True, eq=False)
class CreditedBatch:
    """A batch with credit.

    Attributes:
        advantages: float64 (B, T), 0 where the mask is 0.
        mask: bool (B, T): verl's mask, less the turns that the scheme leaves out of the loss.
        groups, credits: the groups and their credit.
        windowed: whether rows are turns.
    """

    advantages: NDArray[np.float64]
    mask: NDArray[np.bool_]
    groups: tuple[Group, ...]
    credits: tuple[Credit, ...]
    windowed: bool = False


def credit_batch(
    scheme: Scheme,
    uids: Sequence[str],
    rows: Sequence[RowText | None],
    mask: NDArray[Any],
    *,
    size: int,
    incomplete: Literal["refuse", "zero"] = "refuse",
) -> CreditedBatch:
    """Advantages of every token of a batch, rows in the order given.

    Args:
        scheme: credit scheme.
        uids, rows: group of each row and what it carries; None for rows that pad the batch, which get zeros.
        mask: (B, T), 1 for sampled tokens; right-padded with 0.
        size: episodes per group (``rollout.n``).
        incomplete: groups that lack an episode, or a row of one, are an error ("refuse") or get zero advantages ("zero").

    Raises:
        TrajectoryError: groups that are not whole, or records that do not fit the mask.
        ConfigError: a scheme that learns a critic.
    """
    sampled = np.asarray(mask).astype(np.bool_)
    members = group_rows([str(uid) for uid in uids], rows)
    whole = {uid: _whole(uid, episodes, size, incomplete) for uid, episodes in members.items()}
    complete = {uid: episodes for uid, episodes in whole.items() if episodes}
    groups = tuple(_group(uid, [one.record for one in episodes]) for uid, episodes in complete.items())
    credits_ = tuple(scheme.assign_batch(groups)) if groups else ()
    advantages, kept = np.zeros(sampled.shape), sampled.copy()
    for episodes, one in zip(complete.values(), credits_, strict=True):
        if one.value_targets is not None or one.token_advantages is not None:
            raise ConfigError(f"scheme {scheme.name!r} credits tokens or trains a critic; verl's own GAE does that")
        for episode, numbers, in_loss in zip(episodes, one.advantages, one.loss_mask, strict=True):
            name = episode.record.trajectory.trajectory_id
            for i, turns, offsets in episode.spans():
                advantages[i], kept[i] = _over_tokens(name, offsets, numbers[turns], in_loss[turns], sampled[i])
    windowed = any(isinstance(row, TurnRow) for row in rows)
    return CreditedBatch(advantages, kept, groups, credits_, windowed)


def _whole(
    uid: str, episodes: Sequence[EpisodeRows | str], size: int, incomplete: Literal["refuse", "zero"]
) -> list[EpisodeRows]:
    """The episodes of a group, by their number in it, whatever verl's order of rows; none if one may be missing."""
    if len(episodes) > size:
        raise TrajectoryError(f"group {uid!r} has {len(episodes)} episodes, rollout.n is {size}")
    found = [one for one in episodes if isinstance(one, EpisodeRows)]
    if len(found) == size:
        return sorted(found, key=lambda one: one.record.trajectory.replica)
    if incomplete == "refuse":
        reason = next((f" ({one})" for one in episodes if isinstance(one, str)), "")
        raise TrajectoryError(
            f"group {uid!r} has {len(found)} of {size} episodes here{reason}: credit compares all episodes of a task, so "
            "it is computed where whole groups are. Was the batch split over workers, or did an episode fail? "
            f"algorithm.{NAME}.incomplete=zero gives such groups zero advantages instead"
        )
    return []


def _group(uid: str, records: Sequence[EpisodeRecord]) -> Group:
    payload = next((record.task for record in records if record.task), {})
    read = {name: text for record in records for name, text in record.task.get("documents", {}).items()}
    task = {**payload, "documents": read} if read else payload
    return Group(tuple(replace(record.trajectory, group_id=uid) for record in records), task)


def _over_tokens(
    name: str,
    offsets: NDArray[np.int32],
    numbers: NDArray[np.float64],
    in_loss: NDArray[np.bool_],
    sampled: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Advantages per turn as float64 (T,) over a row's response tokens, and bool (T,): the tokens in the loss."""
    end = int(offsets[-1])
    if end > len(sampled) or sampled[end:].any():
        raise TrajectoryError(
            f"trajectory {name!r}: its turns end at token {end}, the last sampled token of the mask is number "
            f"{int(np.flatnonzero(sampled)[-1]) + 1 if sampled.any() else 0} of {len(sampled)}: was the response cut?"
        )
    if not len(numbers):
        return np.zeros(len(sampled)), np.zeros(len(sampled), np.bool_)
    kept = sampled & (broadcast_to_tokens(in_loss.astype(np.float64), offsets, sampled) > 0.0)
    return broadcast_to_tokens(numbers, offsets, kept), kept

"""Credit of a verl batch: whole groups of episode records in, (B, T) advantages and loss mask out. NumPy only.

Also the release of verl and its settings under which the advantages reach the loss unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.releases import Releases
from creditflow.train.adapters.verl.record import EpisodeRows, RowText, TurnRow, group_rows
from creditflow.train.settings.reading import plain_section, read_dataclass
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Aggregation, Credit, Scheme
from creditflow.wrappers.credit.bridge import assign_groups, make_group, over_spans, require_plain
from creditflow.wrappers.records.group import Group

__all__ = [
    "NAME",
    "VERL",
    "CreditSettings",
    "CreditedBatch",
    "check_config",
    "check_windowed",
    "credit_batch",
    "credit_settings",
    "read_settings",
]


NAME: Final = "creditflow"  # name of the estimator, the agent loop and the settings section
# loss aggregation of the scheme -> verl's actor.loss_agg_mode; verl has none over groups or turns
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
        require_plain(scheme)
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
            f"algorithm.{NAME}.averaging=verl uses verl's averaging instead"
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
    episodes_of = {uid: _whole(uid, episodes, size, incomplete) for uid, episodes in members.items()}
    complete = {uid: episodes for uid, episodes in episodes_of.items() if episodes}
    groups = []
    for uid, episodes in complete.items():
        played = [(each.record.trajectory, each.record.task) for each in episodes]
        groups.append(make_group(uid, played, alone="keep"))
    credits_ = tuple(assign_groups(groups, scheme))
    spans, per_span, in_loss = list[tuple[int, int, int]](), list[float](), list[float]()
    for episodes, credit_ in zip(complete.values(), credits_, strict=True):
        for episode, per_turn, in_loss_of in zip(episodes, credit_.advantages, credit_.loss_mask, strict=True):
            for row, turns, offsets in episode.spans():
                stops = offsets.tolist()
                spans += [(row, 0, 0), *((row, start, stop) for start, stop in pairwise(stops))]
                per_span += [0.0, *np.where(in_loss_of[turns], per_turn[turns], 0.0).tolist()]
                in_loss += [0.0, *in_loss_of[turns].astype(np.float64).tolist()]
    advantages = over_spans(np.array(per_span), spans, sampled)
    scored = np.zeros(len(sampled), np.bool_)
    scored[[row for row, _, _ in spans]] = True
    kept_tokens = np.where(scored[:, None], over_spans(np.array(in_loss), spans, sampled) > 0.0, sampled)
    windowed = any(isinstance(row, TurnRow) for row in rows)
    return CreditedBatch(advantages, kept_tokens, tuple(groups), credits_, windowed)


def _whole(
    uid: str, episodes: Sequence[EpisodeRows | str], size: int, incomplete: Literal["refuse", "zero"]
) -> list[EpisodeRows]:
    """The episodes of a group, by their number in it, whatever verl's order of rows; none if one may be missing."""
    if len(episodes) > size:
        raise TrajectoryError(f"group {uid!r} has {len(episodes)} episodes, rollout.n is {size}")
    present = [each for each in episodes if isinstance(each, EpisodeRows)]
    if len(present) == size:
        return sorted(present, key=lambda each: each.record.trajectory.replica)
    if incomplete == "refuse":
        reason = next((f" ({each})" for each in episodes if isinstance(each, str)), "")
        raise TrajectoryError(
            f"group {uid!r} has {len(present)} of {size} episodes here{reason}: credit compares all episodes of a task, so "
            "it is computed where whole groups are. Was the batch split over workers, or did an episode fail? "
            f"algorithm.{NAME}.incomplete=zero gives such groups zero advantages instead"
        )
    return []


VERL: Final = Releases("verl", "verl", "0.9.1", "0.9.2", "overrides one of verl's private methods")
# policy losses whose gradient weights each token by its own advantage (shown by the contract tests); others average
# advantages or ratios over an episode ("geo_mean", "gspo"), or were not tested
SUPPORTED_LOSSES: Final = ("vanilla",)


def credit_settings(algorithm: Any) -> CreditSettings:
    """``algorithm.creditflow`` of verl's config, which may leave it out."""
    section = algorithm.get(NAME) if algorithm is not None else None
    return read_settings(plain_section(section))


def check_config(config: Any) -> None:
    """Raise ConfigError for settings under which the loss would not use the scheme's advantages.

    Args:
        config: verl's complete config.
    """
    algorithm, rollout = config.algorithm, config.actor_rollout_ref.rollout
    if algorithm.get("use_kl_in_reward"):
        raise ConfigError(
            "algorithm.use_kl_in_reward changes rewards token by token after credit is assigned from the episode's own: "
            "use actor_rollout_ref.actor.use_kl_loss=true"
        )
    loss = config.actor_rollout_ref.actor.policy_loss.get("loss_mode", SUPPORTED_LOSSES[0])
    if loss not in SUPPORTED_LOSSES:
        raise ConfigError(
            f"actor_rollout_ref.actor.policy_loss.loss_mode={loss} is not known to give each turn's tokens that turn's "
            f"advantage; covered by the contract tests: {', '.join(SUPPORTED_LOSSES)}"
        )
    if rollout.n < 1:
        raise ConfigError(f"actor_rollout_ref.rollout.n is the group size, got {rollout.n}")
    if config.critic.get("enable"):
        raise ConfigError("credit needs no critic: critic.enable=false")
    for name, allowed in (("top_p", (1.0,)), ("top_k", (-1, 0))):
        value = rollout.get(name, allowed[0])
        if value not in allowed:
            raise ConfigError(
                f"actor_rollout_ref.rollout.{name}={value} samples from less than the whole distribution that is trained"
            )


def check_windowed(config: Any) -> None:
    """Raise ConfigError unless verl takes a row per turn, as a windowed history needs.

    Args:
        config: verl's complete config.
    """
    if not config.trainer.get("use_v1", True):
        raise ConfigError(
            "a windowed history returns a row per turn, which verl's legacy trainer does not take "
            "(AgentLoopWorker._agent_loop_postprocess reads one output): trainer.use_v1=true, or history: append"
        )
    distillation = config.get("distillation")
    if distillation and distillation.get("enabled"):
        raise ConfigError(
            "verl's distillation scores only an episode's last row (AgentLoopWorkerTQ._agent_loop_postprocess): "
            "distillation.enabled=false, or history: append"
        )

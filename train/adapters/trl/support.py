"""Releases and settings of TRL under which the scheme's advantages reach the loss unchanged.

The adapter depends on a private hook of TRL, so it names the releases that its contract tests ran with, and it rejects
settings that would change the advantages, the mask or the sampling distribution, before a model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.adapters.releases import Releases
from creditflow.wrappers.credit.base import Aggregation

__all__ = ["LOSS_TYPE_AGGREGATION", "TRL", "check_arguments", "check_averaging"]

# release 1.15 computes log-probabilities with Triton only, which has no CPU path to test
TRL: Final = Releases("trl", "TRL", "1.16", "1.17", "replaces the output of one of TRL's private methods")
# loss_type -> its loss aggregation; the contract tests cover these and no others. "dapo" averages over all tokens of a
# generation batch, "bnpo" over those of each micro-batch.
LOSS_TYPE_AGGREGATION: Final[Mapping[str, Aggregation]] = {
    "dapo": "token_mean",
    "bnpo": "token_mean",
    "cispo": "token_mean",
    "grpo": "trajectory_mean",
}
# setting -> values that leave sampling, mask and advantages as this adapter computed them
_REQUIRED_SETTINGS: Final[Mapping[str, tuple[Any, ...]]] = {
    "top_p": (1.0,),
    "top_k": (0, -1, None),
    "min_p": (None, 0.0),
    "repetition_penalty": (1.0,),
    "use_vllm": (False,),
    "use_liger_kernel": (False,),
    "mask_truncated_completions": (False,),
    "importance_sampling_level": ("token",),
    "top_entropy_quantile": (1.0,),
    "off_policy_mask_threshold": (None,),
    "delta": (None,),
}


def check_arguments(args: Any, tasks: int, *, windowed: bool = False) -> None:
    """Raise ConfigError for settings under which groups would be split or advantages changed.

    Args:
        args: a ``GRPOConfig``.
        tasks: number of training tasks.
        windowed: whether every turn is a row of its own.
    """
    local = args.train_batch_size * args.steps_per_generation
    if local % args.num_generations:
        raise ConfigError(
            "credit needs whole groups in one process: per_device_train_batch_size × steps_per_generation must be a "
            f"multiple of num_generations, got {args.train_batch_size} × {args.steps_per_generation} = {local} and "
            f"{args.num_generations}"
        )
    groups = args.generation_batch_size // args.num_generations
    if tasks < groups:
        raise ConfigError(
            f"one generation batch plays {groups} different tasks, there are only {tasks}: give more tasks, or lower "
            "per_device_train_batch_size or steps_per_generation"
        )
    if args.loss_type not in LOSS_TYPE_AGGREGATION:
        raise ConfigError(
            f"loss_type {args.loss_type!r} is not covered by the contract tests; covered: {', '.join(LOSS_TYPE_AGGREGATION)}"
        )
    if windowed and LOSS_TYPE_AGGREGATION[args.loss_type] != "token_mean":
        fitting = ", ".join(name for name, kind in LOSS_TYPE_AGGREGATION.items() if kind == "token_mean")
        raise ConfigError(
            f"loss_type {args.loss_type!r} averages over rows, and with a windowed history a row is a turn: take one of "
            f"{fitting} (with averaging='loss_type', if the scheme averages otherwise), or history='append'"
        )
    if not args.temperature > 0.0:
        raise ConfigError(f"temperature must be positive, got {short_repr(args.temperature)}")
    for name, allowed in _REQUIRED_SETTINGS.items():
        value = getattr(args, name, allowed[0])
        if value not in allowed:
            raise ConfigError(
                f"{name}={value!r} would change what is sampled or what enters the loss; this adapter needs "
                f"{name}={allowed[0]!r}"
            )


def check_averaging(wanted: Aggregation, loss_type: str) -> None:
    """Raise ConfigError unless the loss type aggregates token losses as the scheme requires."""
    if LOSS_TYPE_AGGREGATION[loss_type] != wanted:
        fitting = ", ".join(name for name, kind in LOSS_TYPE_AGGREGATION.items() if kind == wanted) or "none"
        raise ConfigError(
            f"the scheme averages token losses by {wanted}, loss_type {loss_type!r} by {LOSS_TYPE_AGGREGATION[loss_type]}; loss "
            f"types that fit: {fitting}. averaging='loss_type' takes TRL's averaging instead"
        )

"""Advantage step for verl's v1 trainers that has access to states: credit on whole groups from episode records.

verl computes advantages on the controller from columns of the whole batch. This step reads one more column, the
records written by our agent loop (``record.py``), and writes (B, T) advantages and the loss mask back. Importing this
module patches verl's three trainers (``trainer.v1.trainer_mode``: sync, colocate_async, separate_async), which use
this step if ``algorithm.adv_estimator`` is "creditflow" and are unchanged otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.verl.credit import (
    NAME,
    VERL,
    CreditedBatch,
    CreditSettings,
    check_averaging,
    check_config,
    credit_batch,
    credit_settings,
)
from creditflow.train.adapters.verl.record import FIELD, decode_row
from creditflow.wrappers.credit.base import Scheme

VERL.require()

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.trainer.ppo import v1 as _v1  # noqa: F401 - registers verl's own trainers, which are wrapped below
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.workers.utils.padding import response_to_nested

__all__ = ["CreditStep", "assign_advantages"]

_NEEDED = ["uid", "response_mask", "rm_scores", "extra_fields", "rollout_log_probs", "old_log_probs"]


def assign_advantages(
    data: DataProto, scheme: Scheme, *, size: int, settings: CreditSettings | None = None, padding: Sequence[bool] = ()
) -> CreditedBatch:
    """Write ``advantages``, ``returns`` and the ``response_mask`` of the loss into a verl batch.

    Args:
        data: with ``response_mask`` (B, T), and per row ``uid`` and what our agent loop wrote (``record.py``).
        scheme: credit scheme.
        size: episodes per group.
        settings: how to treat incomplete groups.
        padding: True for rows that only pad the batch.

    Raises:
        TrajectoryError: incomplete groups, rows without a record, records that do not match the mask.
    """
    mask = data.batch["response_mask"]
    padded = list(padding) or [False] * len(mask)
    texts = data.non_tensor_batch.get(FIELD, [None] * len(mask))
    rows = [None if pads else decode_row(text) for pads, text in zip(padded, texts, strict=True)]
    scored = credit_batch(
        scheme,
        [str(uid) for uid in data.non_tensor_batch["uid"]],
        rows,
        mask.cpu().numpy(),
        size=size,
        incomplete=(settings or CreditSettings()).incomplete,
    )
    advantages = torch.tensor(scored.advantages, dtype=torch.float32, device=mask.device)
    data.batch["advantages"], data.batch["returns"] = advantages, advantages.clone()
    data.batch["response_mask"] = torch.as_tensor(scored.mask, device=mask.device).to(mask.dtype)
    return scored


class CreditStep:
    """A mixin over verl's ``PPOTrainer``."""

    config: Any

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        """Compute advantages with the credit scheme if the estimator is "creditflow".

        Raises:
            ConfigError: settings under which the loss would not use the scheme's advantages.
        """
        if self.config.algorithm.adv_estimator != NAME:
            return super()._compute_advantage(batch, metrics)  # type: ignore[misc]  # the trainer that is mixed with
        check_config(self.config)
        settings = credit_settings(self.config.algorithm)
        columns = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=_NEEDED)
        nested = columns["response_mask"]
        data = _padded(columns)
        sampled = data.batch["response_mask"].clone()
        correction = self.config.algorithm.get("rollout_correction")
        corrected = bool(correction) and not correction.get("bypass_mode") and "rollout_log_probs" in data.batch
        if corrected:
            data, more = compute_rollout_correction_and_add_to_batch(data, correction)
            metrics.update(more)
        accepted = data.batch["response_mask"].clone()
        scored = assign_advantages(
            data,
            settings.make(),
            size=self.config.actor_rollout_ref.rollout.n,
            settings=settings,
            padding=[bool(tag.get("is_padding")) for tag in batch.tags],
        )
        if settings.averaging == "scheme":
            for credit in scored.credits:
                mode = self.config.actor_rollout_ref.actor.loss_agg_mode
                check_averaging(credit.aggregation, mode, windowed=scored.windowed)
        metrics.update(_metrics(scored))
        # verl normalizes by the tokens of this second mask, which keeps tokens that its correction rejected
        data.batch["loss_mask"] = torch.where(accepted == 0, sampled, data.batch["response_mask"])
        written = ["advantages", "returns", "response_mask", "loss_mask"]
        written += ["rollout_is_weights"] if corrected and "rollout_is_weights" in data.batch else []
        fields = {name: response_to_nested(data.batch[name], nested) for name in written}
        return tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch.keys))
        )


def _padded(columns: Any) -> DataProto:
    """The queue's ragged columns as a padded batch, with uid and records beside it."""
    n = len(columns)
    texts = {name: np.empty(n, object) for name in ("uid", FIELD)}
    texts["uid"][:] = [getattr(value, "data", value) for value in list(columns["uid"])]
    fields = [getattr(value, "data", value) for value in list(columns["extra_fields"])]
    texts[FIELD][:] = [value.get(FIELD) if hasattr(value, "get") else None for value in fields]
    tensors = columns.exclude("uid", "extra_fields").to_padded_tensor()
    return DataProto(batch=tensors, non_tensor_batch=texts)


def _metrics(scored: CreditedBatch) -> dict[str, float]:
    """Metrics for verl's log."""
    members = [member for group in scored.groups for member in group.trajectories]
    without_signal = [not credit.flat_advantages.any() for credit in scored.credits]
    if not members:
        return {}
    return {
        f"{NAME}/success": float(np.mean([member.success for member in members])),
        f"{NAME}/score": float(np.mean([member.score for member in members])),
        f"{NAME}/turns": float(np.mean([len(member.turns) for member in members])),
        f"{NAME}/groups_without_signal": float(np.mean(without_signal)),
    }


def _patch_trainers() -> None:
    """Mix the step into every trainer of verl's registry, once."""
    if not TRAINER_REGISTRY:
        raise ConfigError("verl registered no trainers; this release is not supported")
    for name, trainer in list(TRAINER_REGISTRY.items()):
        if not issubclass(trainer, CreditStep):
            TRAINER_REGISTRY[name] = type(f"Credit{trainer.__name__}", (CreditStep, trainer), {})


_patch_trainers()

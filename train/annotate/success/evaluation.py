"""Evaluation of a success model on labelled episodes, and Platt scaling of its logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.metrics import calibration_error, logistic_fit
from creditflow.train.annotate.success.model import SuccessModel
from creditflow.train.annotate.success.predict import predict_success
from creditflow.train.annotate.success.samples import Sample
from creditflow.train.statistics import auroc

__all__ = ["calibration", "evaluate_success"]


def evaluate_success(model: SuccessModel, samples: Sequence[Sample], kind: Any, batch_tokens: int) -> dict[str, float]:
    """AUC of log f(t) − log f(t−1) between pivots and others, calibration error of f, and log loss (nats), over all turn ends.

    The last turn of an episode is left out of the AUC only, because the label of an answer is the outcome itself. Without
    samples the result is empty.
    """
    if not samples:
        return {}
    success = predict_success(model, [sample.episode for sample in samples], kind, batch_tokens=batch_tokens)
    rise = np.concatenate([np.diff(np.log(np.maximum(f, 1e-9)))[:-1] for f in success])
    turns = [slice(sample.episode.shared + 1, -1) for sample in samples]
    pivot = np.concatenate([sample.pivot[at] for sample, at in zip(samples, turns, strict=True)])
    labelled = pivot | np.concatenate([sample.non_pivot[at] for sample, at in zip(samples, turns, strict=True)])
    f, succeeded = (
        np.concatenate(success),
        np.repeat([s.success for s in samples], [len(of_episode) for of_episode in success]),
    )
    clipped = np.clip(f, 1e-6, 1.0 - 1e-6)
    return {
        "pivot_auc": auroc(rise[labelled], pivot[labelled]),
        "calibration_error": calibration_error(f, succeeded),
        "log_loss": float(-np.mean(np.where(succeeded, np.log(clipped), np.log1p(-clipped)))),
    }


def calibration(model: SuccessModel, samples: Sequence[Sample], batch_tokens: int) -> tuple[float, float]:
    """Platt scaling: a and b such that σ(a·z + b) fits the outcomes, over all turn ends of some episodes.

    Raises:
        DataError: the fitted a is not positive; or there are no episodes.
    """
    if not samples:
        raise DataError("no episodes of validation tasks to calibrate by: raise data.valid")
    success = predict_success(model, [sample.episode for sample in samples], "paper", batch_tokens=batch_tokens)
    f = np.clip(np.concatenate(success), 1e-6, 1.0 - 1e-6)
    succeeded = np.repeat([sample.success for sample in samples], [len(of_episode) for of_episode in success])
    z = np.log(f) - np.log1p(-f)
    slope, shift = logistic_fit(np.column_stack([z, np.ones(len(z))]), succeeded, 1e-4)
    if not slope > 0.0:
        raise DataError(f"the fitted slope {slope:.3g} is not positive: the model does not predict success")
    return float(slope), float(shift)

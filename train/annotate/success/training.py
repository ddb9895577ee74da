"""Train a success model: labelled episodes → ids and turn ends → f or h → loss, in a run folder like a policy's.

A run folder holds ``config.yaml``, ``tokenizer/``, ``checkpoints/``, ``metrics.jsonl`` and at the end ``model/``, which
``creditflow annotate --with success:DIR`` opens. The order of episodes is seeded by (seed, epoch), so a resumed run
repeats the uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.encoding import Encoder, rewriter
from creditflow.train.annotate.success.labels import read_labels
from creditflow.train.annotate.success.model import SuccessModel, save_success
from creditflow.train.annotate.success.names import plain_words
from creditflow.train.annotate.success.objective import success_step
from creditflow.train.annotate.success.predict import predict_success
from creditflow.train.annotate.success.samples import Sample, batch_indices, labelled_samples, split_samples
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.policy.checkpoint import Progress, load_checkpoint, save_checkpoint
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.network.options import pick_device, recompute_activations
from creditflow.train.policy.network.scratch import build_model, build_tokenizer
from creditflow.train.policy.optimizer import learning_rate, make_optimizer, set_learning_rate
from creditflow.train.run.folder import export_model, init_run_folder, load_run_tokenizer, unfinished_run
from creditflow.train.run.metrics_log import open_logger
from creditflow.train.statistics import auroc, calibration_error, logistic_fit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["SuccessTrainer", "calibration", "evaluate_success"]


class SuccessTrainer:
    """One training run of a success model.

    Args:
        settings: all settings of the run.
        resume: continue from the latest checkpoint in ``settings.out``.
        stream: where log lines are printed; default standard output.

    Raises:
        ConfigError: the folder already contains a run and ``resume`` is False.
        DataError: log and labels do not fit together.
    """

    def __init__(self, settings: SuccessTrainConfig, *, resume: bool = False, stream: TextIO | None = None) -> None:
        self.settings, self.folder = settings, Path(settings.out)
        self.checkpoints = self.folder / "checkpoints"
        if settings.threads:
            torch.set_num_threads(settings.threads)
        checkpoint = unfinished_run(self.folder, resume=resume)
        groups = read_groups(settings.data.log)
        self.device = pick_device(settings.device)
        words = self._words(groups)
        backbone, tokenizer = self._backbone(groups, words, load_run_tokenizer(self.folder) if checkpoint else None)
        self.model = SuccessModel(backbone, settings.head)
        positions = int(getattr(backbone.config, "max_position_embeddings", 0) or 0)
        self.encoder = Encoder(tokenizer, settings.text, positions, words)
        samples, skipped = labelled_samples(
            groups, read_labels(settings.data.labels), self.encoder, skip_long=settings.data.too_long == "skip"
        )
        self.train, self.valid = split_samples(samples, settings.data.valid, settings.seed)
        self.skipped = skipped
        self.optimizer = make_optimizer(self.model, settings.optimizer)
        self.progress = Progress("sft", 0)
        if checkpoint is not None:
            self.progress = load_checkpoint(checkpoint, self.model, self.optimizer)
        else:
            stored = init_run_folder(self.folder, settings, tokenizer)
            self.encoder = Encoder(stored, settings.text, positions, words)
        self.logger = open_logger(self.folder, settings.log, self.progress, checkpoint, stream)

    def run(self) -> dict[str, float]:
        """Train, evaluate on the validation tasks, save. Returns the evaluation.

        Raises:
            DivergedError: a loss or gradient is not finite; the state before it was saved.
        """
        settings, log = self.settings, self.logger.print
        count = sum(p.numel() for p in self.model.parameters())
        log(
            f"success model of {count:,} parameters on {self.device}; {len(self.train)} episodes to train on, "
            f"{len(self.valid)} to validate, {self.skipped} too long; from step {self.progress.done}"
        )
        try:
            self._train(settings)
            if settings.calibrate:
                self.model.calibration = calibration(self.model, self.valid, settings.batch_tokens)
                log("log odds a z + b, a and b = {:.3f}, {:.3f}".format(*self.model.calibration))
            result = evaluate_success(self.model, self.valid, settings.loss.kind, settings.batch_tokens)
            self.logger.write("sft", settings.steps, "validation", result)
            log("validation: " + ", ".join(f"{name} {value:.3f}" for name, value in result.items()))
            export_model(self.folder / "model", self._export)
        except DivergedError:
            save_checkpoint(self.folder / "diverged", self.progress, self.model, self.optimizer)
            raise
        finally:
            self.logger.close()
        return result

    def _train(self, settings: SuccessTrainConfig) -> None:
        self.model.train()
        for step in range(self.progress.done, settings.steps):
            chosen = [self.train[i] for i in batch_indices(len(self.train), settings.batch, step, settings.seed)]
            lr = learning_rate(settings.optimizer, step, settings.steps)
            set_learning_rate(self.optimizer, lr)
            metrics = success_step(self.model, self.optimizer, chosen, settings)
            self.progress = Progress("sft", step + 1)
            self.logger.write("sft", step + 1, "step", metrics | {"lr": lr})
            if (step + 1) % max(1, settings.steps // 10) == 0:
                self.logger.print(f"step {step + 1}/{settings.steps}: loss {metrics['loss']:.4f} lr {lr:.2e}")
            if settings.checkpoint.every and (step + 1) % settings.checkpoint.every == 0:
                save_checkpoint(
                    self.checkpoints, self.progress, self.model, self.optimizer, keep=settings.checkpoint.keep,
                    extra={"records": self.logger.records},
                )  # fmt: skip
        self.model.eval()

    def _export(self, folder: Path) -> None:
        save_success(folder, self.model, self.encoder.tokenizer, self.settings.loss.kind, self.encoder)

    def _words(self, groups: Sequence[Group]) -> tuple[str, ...]:
        return plain_words(_texts(groups)) if self.settings.text.names == "origins" else ()

    def _training_texts(self, groups: Sequence[Group], words: tuple[str, ...]) -> Iterator[str]:
        """The texts that a new tokenizer is trained on, rewritten as the encoder rewrites them."""
        for group in groups:
            for member in group.trajectories:
                written = rewriter(self.settings.text, words)
                for turn in member.turns:
                    yield written(turn.observation)
                    yield written(turn.action)

    def _backbone(self, groups: Sequence[Group], words: tuple[str, ...], kept: Any) -> tuple[Any, Any]:
        """Model and tokenizer; ``kept`` is the tokenizer of a resumed run."""
        model = self.settings.model
        if model.path:
            backbone, pretrained = open_pretrained(model.path, device=str(self.device))
            tokenizer = kept or pretrained
        else:
            tokenizer = kept or build_tokenizer(self._training_texts(groups, words), model.scratch)
            backbone = build_model(model.scratch, tokenizer, seed=self.settings.seed, device=self.device)
        if model.gradient_checkpointing:
            recompute_activations(backbone)
        return backbone, tokenizer


def _texts(groups: Sequence[Group]) -> Iterator[str]:
    return (text for group in groups for turn in group.turns for text in (turn.observation, turn.action))


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

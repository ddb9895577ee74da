"""Training a success model: labelled episodes → ids and places → f or h → loss; the same kind of run folder as a policy.

A run folder holds ``config.yaml``, ``tokenizer/``, ``checkpoints/``, ``metrics.jsonl`` and at the end ``model/``, which
``creditflow annotate --with success:DIR`` opens. Order is drawn by (seed, epoch), so a resumed run repeats the
uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.encoding import Encoded, Encoder, EpisodeTooLongError, rewriter
from creditflow.train.annotate.success.labels import Labels, read_labels
from creditflow.train.annotate.success.loss import SuccessLossConfig, hazard_loss, paper_loss
from creditflow.train.annotate.success.metrics import auc, calibration_error, logistic_fit
from creditflow.train.annotate.success.model import SuccessModel, save_success
from creditflow.train.annotate.success.names import plain_words
from creditflow.train.annotate.success.predict import PlaceBatch, predict_success, read_logits
from creditflow.train.annotate.success.settings import SuccessTrainConfig
from creditflow.train.policy.batching import plan
from creditflow.train.policy.checkpoint import Progress, load_checkpoint, save_checkpoint
from creditflow.train.policy.device import pick_device
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.policy.precision import autocast
from creditflow.train.policy.recomputation import recompute_activations
from creditflow.train.policy.scratch import build_model, build_tokenizer
from creditflow.train.run.failures import DivergedError
from creditflow.train.run.folder import export_model, init_run_folder, load_run_tokenizer, unfinished_run
from creditflow.train.run.metrics_log import open_logger
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["Sample", "SuccessTrainer", "evaluate_success", "labelled_samples"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One labelled episode with T turns.

    Attributes:
        episode: ids and T + 1 places.
        pivot, plain: bool (T+1,), marks of the turn that ends at each place; False at place 0 and at shared ones.
        success: the outcome.
        task_id: what it is about.
    """

    episode: Encoded
    pivot: NDArray[np.bool_]
    plain: NDArray[np.bool_]
    success: bool
    task_id: str


def labelled_samples(
    groups: Sequence[Group], labels: Mapping[tuple[str, str], Labels], encoder: Encoder, *, skip_long: bool = False
) -> tuple[list[Sample], int]:
    """Samples of all labelled episodes with turns, and how many were too long.

    Raises:
        DataError: labels that do not match their trajectory, or belong to none; nothing labelled; or an episode is too
            long and ``skip_long`` is False.
    """
    samples, skipped = [], 0
    unused = set(labels)
    for group in groups:
        for i, member in enumerate(group.trajectories):
            one = labels.get((group.group_id, member.trajectory_id))
            if one is None:
                continue
            one.check(member)
            unused.discard((group.group_id, member.trajectory_id))
            if not member.turns:
                continue
            try:
                episode = encoder.encode_member(group, i)
            except EpisodeTooLongError:
                if not skip_long:
                    raise
                skipped += 1
                continue
            marks = np.array([""] * (episode.shared + 1) + list(one.marks))
            samples.append(Sample(episode, marks == "+", marks == "-", one.success, group.task_id))
    if unused:
        group_id, trajectory_id = sorted(unused)[0]
        raise DataError(
            f"{len(unused)} labels belong to no trajectory of the log, the first to {trajectory_id!r} of group "
            f"{group_id!r}: are they another log's?"
        )
    if not samples:
        raise DataError(f"no labelled episode with turns ({skipped} were too long)")
    return samples, skipped


class SuccessTrainer:
    """One run.

    Args:
        settings: of the run.
        resume: go on from the newest checkpoint in ``settings.out``.
        stream: receives the log lines; default standard output.

    Raises:
        ConfigError: the folder holds a run already and ``resume`` is False.
        DataError: log and labels do not fit together.
    """

    def __init__(self, settings: SuccessTrainConfig, *, resume: bool = False, stream: TextIO | None = None) -> None:
        self.settings, self.folder = settings, Path(settings.out)
        self.checkpoints = self.folder / "checkpoints"
        if settings.threads:
            torch.set_num_threads(settings.threads)
        found = unfinished_run(self.folder, resume=resume)
        groups = read_groups(settings.data.log)
        self.device = pick_device(settings.device)
        words = self._words(groups)
        backbone, tokenizer = self._backbone(groups, words, load_run_tokenizer(self.folder) if found else None)
        self.model = SuccessModel(backbone, settings.head)
        positions = int(getattr(backbone.config, "max_position_embeddings", 0) or 0)
        self.encoder = Encoder(tokenizer, settings.text, positions, words)
        samples, skipped = labelled_samples(
            groups, read_labels(settings.data.labels), self.encoder, skip_long=settings.data.too_long == "skip"
        )
        self.train, self.valid = _split(samples, settings.data.valid, settings.seed)
        self.skipped = skipped
        self.optimizer = make_optimizer(self.model, settings.optimizer)
        self.progress = Progress("sft", 0)
        if found is not None:
            self.progress = load_checkpoint(found, self.model, self.optimizer)
        else:
            kept = init_run_folder(self.folder, settings, tokenizer)
            self.encoder = Encoder(kept, settings.text, positions, words)
        self.logger = open_logger(self.folder, settings.log, self.progress, found, stream)

    def run(self) -> dict[str, float]:
        """Train, evaluate on the validation tasks, save. Returns the evaluation.

        Raises:
            DivergedError: a loss or gradient that is not finite; the state before it is saved.
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
            chosen = [self.train[i] for i in _batch(len(self.train), settings.batch, step, settings.seed)]
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

    def _spoken(self, groups: Sequence[Group], words: tuple[str, ...]) -> Iterator[str]:
        """What a tokenizer is made of: texts as the model will read them."""
        for group in groups:
            for member in group.trajectories:
                written = rewriter(self.settings.text, words)
                for turn in member.turns:
                    yield written(turn.observation)
                    yield written(turn.action)

    def _backbone(self, groups: Sequence[Group], words: tuple[str, ...], kept: Any) -> tuple[Any, Any]:
        """Model and tokenizer; of a resumed run, the kept one."""
        model = self.settings.model
        if model.path:
            backbone, found = open_pretrained(model.path, device=str(self.device))
            tokenizer = kept or found
        else:
            tokenizer = kept or build_tokenizer(self._spoken(groups, words), model.scratch)
            backbone = build_model(model.scratch, tokenizer, seed=self.settings.seed, device=self.device)
        if model.gradient_checkpointing:
            recompute_activations(backbone)
        return backbone, tokenizer


def success_step(
    model: SuccessModel, optimizer: Any, samples: Sequence[Sample], settings: SuccessTrainConfig
) -> dict[str, float]:
    """One optimiser step on some episodes, each alike.

    Raises:
        DivergedError: the loss or the gradient is not finite.
    """
    device = next(model.parameters()).device
    optimizer.zero_grad(set_to_none=True)
    total = 0.0
    for chosen in plan([len(sample.episode) for sample in samples], settings.batch_tokens):
        members = [samples[i] for i in chosen]
        with autocast(settings.model.autocast, device):
            loss = _micro_loss(model, members, settings) * (len(members) / len(samples))
        if not torch.isfinite(loss):
            raise DivergedError("the loss of the success model is not finite", [])
        loss.backward()
        total += float(loss.detach())
    norm = clip_gradient(model, settings.optimizer.grad_clip)
    optimizer.step()
    return {"loss": total, "grad_norm": norm, "tokens": float(sum(len(sample.episode) for sample in samples))}


def _micro_loss(model: SuccessModel, members: Sequence[Sample], settings: SuccessTrainConfig) -> Any:
    device = next(model.parameters()).device
    batch = PlaceBatch([sample.episode for sample in members], device)
    hidden = model.hidden(batch.ids)
    logits = read_logits(model, batch, hidden)
    loss = mark_loss(logits, batch.there, members, settings.loss)
    if settings.language_weight:
        real = torch.zeros(batch.ids.shape, dtype=torch.bool)
        for row, sample in enumerate(members):
            real[row, 1 : len(sample.episode)] = True
        scores = model.backbone.get_output_embeddings()(hidden[:, :-1][real[:, 1:].to(device)])
        loss = loss + settings.language_weight * functional.cross_entropy(scores.float(), batch.ids[real.to(device)])
    return loss


def mark_loss(logits: Any, there: Any, members: Sequence[Sample], config: SuccessLossConfig) -> Any:
    """The mean loss of some episodes from the head's numbers (B, S)."""
    device, most = logits.device, logits.shape[1]

    def padded(name: str) -> Any:
        out = np.zeros((len(members), most), np.bool_)
        for row, sample in enumerate(members):
            marks = getattr(sample, name)
            out[row, : len(marks)] = marks
        return torch.from_numpy(out).to(device)

    if config.kind == "hazard":
        turns = hazard_loss(
            logits[:, 1:],
            (padded("pivot") | padded("plain"))[:, 1:],
            padded("plain")[:, 1:],
            negative_weight=config.negative_weight,
            monotone_weight=config.monotone_weight,
        )
        return turns.loss
    success = torch.tensor([float(sample.success) for sample in members], device=device)
    return paper_loss(logits, there, padded("pivot"), padded("plain"), success, config).mean()


def evaluate_success(model: SuccessModel, samples: Sequence[Sample], kind: Any, batch_tokens: int) -> dict[str, float]:
    """AUC of log f(t) − log f(t−1) between pivots and others, calibration error of f over all places, and log loss.

    The turn that answers counts in the calibration, not in the AUC: its mark is the outcome itself.
    """
    if not samples:
        return {}
    success = predict_success(model, [sample.episode for sample in samples], kind, batch_tokens=batch_tokens)
    rise = np.concatenate([np.diff(np.log(np.maximum(f, 1e-9)))[:-1] for f in success])
    own = [slice(sample.episode.shared + 1, -1) for sample in samples]
    pivot = np.concatenate([sample.pivot[at] for sample, at in zip(samples, own, strict=True)])
    marked = pivot | np.concatenate([sample.plain[at] for sample, at in zip(samples, own, strict=True)])
    f, won = np.concatenate(success), np.repeat([s.success for s in samples], [len(one) for one in success])
    clipped = np.clip(f, 1e-6, 1.0 - 1e-6)
    return {
        "pivot_auc": auc(rise[marked], pivot[marked]),
        "calibration_error": calibration_error(f, won),
        "log_loss": float(-np.mean(np.where(won, np.log(clipped), np.log1p(-clipped)))),
    }


def calibration(model: SuccessModel, samples: Sequence[Sample], batch_tokens: int) -> tuple[float, float]:
    """a and b such that σ(a·z + b) fits the outcomes, over all places of some episodes (Platt's scaling).

    Raises:
        DataError: success falls with z, so that no scaling helps; or no episodes.
    """
    if not samples:
        raise DataError("no episodes of validation tasks to calibrate by: give data.valid a larger share")
    success = predict_success(model, [sample.episode for sample in samples], "paper", batch_tokens=batch_tokens)
    f = np.clip(np.concatenate(success), 1e-6, 1.0 - 1e-6)
    won = np.repeat([sample.success for sample in samples], [len(one) for one in success])
    z = np.log(f) - np.log1p(-f)
    slope, shift = logistic_fit(np.column_stack([z, np.ones(len(z))]), won, 1e-4)
    if not slope > 0.0:
        raise DataError(f"calibration would turn the model's order around (slope {slope:.3g}): it has learned nothing")
    return float(slope), float(shift)


def _texts(groups: Sequence[Group]) -> Iterator[str]:
    return (text for group in groups for turn in group.turns for text in (turn.observation, turn.action))


def _split(samples: Sequence[Sample], share: float, seed: int) -> tuple[list[Sample], list[Sample]]:
    """By task: no question is on both sides."""
    tasks = sorted({sample.task_id for sample in samples})
    order = np.random.default_rng([seed, 0]).permutation(len(tasks))
    kept = {tasks[i] for i in order[: round(share * len(tasks))].tolist()}
    train = [sample for sample in samples if sample.task_id not in kept]
    if not train:
        raise DataError(f"{len(tasks)} tasks and data.valid {share} leave none to train on")
    return train, [sample for sample in samples if sample.task_id in kept]


def _batch(count: int, size: int, step: int, seed: int) -> list[int]:
    """The samples of a step: epochs in an order of their own, one after the other."""
    first = step * size
    epochs = range(first // count, (first + size - 1) // count + 1)
    order = np.concatenate([np.random.default_rng([seed, 1, epoch]).permutation(count) for epoch in epochs])
    start = first - epochs[0] * count
    chosen: list[int] = order[start : start + size].tolist()
    return chosen

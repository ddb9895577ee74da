"""Train a success model: labelled episodes → ids and turn ends → f or h → loss, in a run folder like a policy's.

A run folder holds ``config.yaml``, ``tokenizer/``, ``checkpoints/``, ``metrics.jsonl`` and at the end ``model/``, which
``creditflow annotate --with success:DIR`` opens. The order of episodes is seeded by (seed, epoch), so a resumed run
repeats the uninterrupted one.

The losses are the paper's, made well-defined, and the released hazard losses. The model gives one logit z at the end of the
question and of every turn. Under "paper" f = σ(z) is the probability of success at that point. Under "hazard" h = σ(z) is the
probability that the turn is the first error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.errors import DataError
from creditflow.train.annotate.success.encoding import Encoded, Encoder, EpisodeTooLongError
from creditflow.train.annotate.success.labels import Labels, read_labels
from creditflow.train.annotate.success.model import EpisodeBatch, SuccessModel, predict_success, save_success
from creditflow.train.annotate.success.settings import SuccessLossConfig, SuccessTrainConfig
from creditflow.train.policy.batching import plan
from creditflow.train.policy.checkpoint import Progress, load_checkpoint, save_checkpoint
from creditflow.train.policy.failures import DivergedError
from creditflow.train.policy.network.options import autocast, pick_device, recompute_activations
from creditflow.train.policy.network.scratch import build_model, build_tokenizer
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.run.folder import export_model, init_run_folder, load_run_tokenizer, unfinished_run
from creditflow.train.run.metrics_log import open_logger
from creditflow.train.statistics import auroc
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["SuccessLossConfig", "SuccessTrainer", "evaluate_success", "hazard_loss", "paper_loss"]


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
        backbone, tokenizer = self._backbone(groups, load_run_tokenizer(self.folder) if checkpoint else None)
        self.model = SuccessModel(backbone)
        positions = int(getattr(backbone.config, "max_position_embeddings", 0) or 0)
        self.encoder = Encoder(tokenizer, settings.text, positions)
        samples, skipped = labelled_samples(groups, read_labels(settings.data.labels), self.encoder)
        self.train, self.valid = split_samples(samples, settings.data.valid, settings.seed)
        self.skipped = skipped
        self.optimizer = make_optimizer(self.model, settings.optimizer)
        self.progress = Progress("sft", 0)
        if checkpoint is not None:
            self.progress = load_checkpoint(checkpoint, self.model, self.optimizer)
        else:
            stored = init_run_folder(self.folder, settings, tokenizer)
            self.encoder = Encoder(stored, settings.text, positions)
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
                    self.checkpoints,
                    self.progress,
                    self.model,
                    self.optimizer,
                    keep=settings.checkpoint.keep,
                    extra={"records": self.logger.records},
                )
        self.model.eval()

    def _export(self, folder: Path) -> None:
        save_success(folder, self.model, self.encoder.tokenizer, self.settings.loss.kind, self.encoder)

    def _backbone(self, groups: Sequence[Group], stored: Any) -> tuple[Any, Any]:
        """Model and tokenizer; ``stored`` is the tokenizer of a resumed run."""
        model = self.settings.model
        if model.path:
            backbone, pretrained = open_pretrained(model.path, device=str(self.device))
            tokenizer = stored or pretrained
        else:
            tokenizer = stored or build_tokenizer(_texts(groups), model.scratch)
            backbone = build_model(model.scratch, tokenizer, seed=self.settings.seed, device=self.device)
        if model.gradient_checkpointing:
            recompute_activations(backbone)
        return backbone, tokenizer


def _texts(groups: Sequence[Group]) -> Iterator[str]:
    return (text for group in groups for turn in group.turns for text in (turn.observation, turn.action))


def evaluate_success(model: SuccessModel, samples: Sequence[Sample], kind: Any, batch_tokens: int) -> dict[str, float]:
    """AUC of log f(t) − log f(t−1) between pivots and others, and log loss (nats) of f, over all turn ends.

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
        "log_loss": float(-np.mean(np.where(succeeded, np.log(clipped), np.log1p(-clipped)))),
    }


SURVIVAL_FLOOR = 1e-5  # of 1 − Π(1 − h), as released


def paper_loss(
    logits: Any, present_mask: Any, pivot: Any, non_pivot: Any, success: Any, config: SuccessLossConfig
) -> Any:
    """The loss of every trajectory (B,).

    L_final = −log f(T) or −log(1 − f(T)) (eq. 9); L_gold = Σ over pivots of the bounded penalty (eq. 8).

    Args:
        logits: float (B, S), z at the end of the question and of each turn, in order; right-padded.
        present_mask: bool (B, S), False for padding; the first is always True.
        pivot, non_pivot: bool (B, S), label of the turn that ends there; False at the question.
        success: float (B,), 1 or 0.
        config: kind "paper".
    """
    log_f = functional.logsigmoid(logits)
    last = present_mask.sum(1, keepdim=True) - 1
    log_f_end = log_f.gather(1, last)[:, 0]
    log_not_end = functional.logsigmoid(-logits).gather(1, last)[:, 0]
    final = -(success * log_f_end + (1.0 - success) * log_not_end)
    rise = log_f[:, 1:] - log_f[:, :-1]
    gold = (_penalty(rise) * pivot[:, 1:]).sum(1)
    others = (_penalty(-rise) * non_pivot[:, 1:]).sum(1)
    return final + config.pivot_weight * gold + config.non_pivot_weight * others


def _penalty(rise: Any) -> Any:
    """The penalty of a turn at which log f should rise by much, of ``rise`` = log f(t) − log f(t−1).

    Eq. 8 is −log g, the relative gain g(t) = f(t) / f(t−1) − 1 of eq. 3. It has no value where g ≤ 0: at every pivot of a
    model that predicts the same everywhere, as it does before training, and wherever f falls. In its place stands a function
    of log(1 + g), which is ``rise``: softplus(−rise) = log(1 + 1 / (1 + g)). It falls with g as −log g does, so it draws
    pivots the same way, but it has a value and a gradient for every g > −1 and grows no faster than −rise where f falls.
    """
    return functional.softplus(-rise)


class HazardLoss(NamedTuple):
    """Scalars.

    Attributes:
        loss, loss_pos, loss_neg: the loss to minimise; its means over good and over bad samples.
        acc, acc_pos, acc_neg: mean probability of the correct label over all positions, over "+" and over "-".
    """

    loss: Any
    loss_pos: Any
    loss_neg: Any
    acc: Any
    acc_pos: Any
    acc_neg: Any


def hazard_loss(
    logits: Any, present_mask: Any, wrong: Any, *, negative_weight: float = 1.0, monotonicity_weight: float = 0.0
) -> HazardLoss:
    """The released losses: ``CRMLoss``, and with ``monotonicity_weight`` ``TACRMLoss``.

    A sample is bad if its last label is "-"; other "-" of good samples do not count. Good: −Σ log(1 − h).
    Bad, z its first "-": −log max(1 − Π(1 − h), 1e-5) − log h_z − Σ_{t<z} log(1 − h_t). The monotonicity hinge compares
    every position with its right-hand *neighbour in the tensor*: of good samples, if both are labelled, h must fall by 0.05;
    of bad ones, from z on, it must rise. Released code passes whole token sequences, where a neighbour is
    never labelled; with one column per turn it enforces monotonicity.

    Args:
        logits: float (B, L), z.
        present_mask: bool (B, L), the labelled positions.
        wrong: bool (B, L), positions labelled "-"; all others count as "+".
        negative_weight: weight of bad samples.
        monotonicity_weight: weight of the hinge.
    """
    batch, length = logits.shape
    at = torch.arange(length, device=logits.device)[None].expand(batch, length)
    wrong = wrong & present_mask
    nonempty = present_mask.any(1)
    last = (at * present_mask).max(1).values
    bad = nonempty & wrong.gather(1, last[:, None])[:, 0]
    good = nonempty & ~bad
    survive = functional.logsigmoid(-logits) * present_mask
    first = wrong.float().argmax(1)
    failed = -(1.0 - survive.sum(1).exp()).clamp(min=SURVIVAL_FLOOR).log()
    located = -functional.logsigmoid(logits).gather(1, first[:, None])[:, 0]
    before = -(survive * (at < first[:, None])).sum(1)
    of_good, of_bad = -survive.sum(1), failed + located + before
    hazard = torch.sigmoid(logits)
    if monotonicity_weight and length > 1:
        fall = hazard[:, :-1] - hazard[:, 1:]
        pairs = present_mask[:, :-1]
        rising = (0.05 + fall).clamp(min=0.0) * (pairs & (at[:, 1:] >= first[:, None]))
        falling = (0.05 - fall).clamp(min=0.0) * (pairs & present_mask[:, 1:])
        of_good, of_bad = of_good + monotonicity_weight * falling.sum(1), of_bad + monotonicity_weight * rising.sum(1)
    of_bad = negative_weight * of_bad
    sums = (of_good * good).sum(), (of_bad * bad).sum()
    correct, masks = torch.where(wrong, hazard, 1.0 - hazard), (present_mask, present_mask & ~wrong, wrong)
    return HazardLoss(
        (sums[0] + sums[1]) / nonempty.sum().clamp(min=1),
        sums[0] / good.sum().clamp(min=1),
        sums[1] / bad.sum().clamp(min=1),
        *((correct * mask).sum() / mask.sum().clamp(min=1) for mask in masks),
    )


def success_step(
    model: SuccessModel, optimizer: Any, samples: Sequence[Sample], settings: SuccessTrainConfig
) -> dict[str, float]:
    """Take one optimiser step on some episodes, of equal weight.

    Returns:
        ``loss``, ``grad_norm`` (before clipping), ``tokens``; ``reward_pivot`` and ``reward_other``, the mean step reward
        of the labelled turns (PiCA, figure 5): log f(t) − log f(t−1), or log(1 − h(t)) of a hazard model; nan if there are none.

    Raises:
        DivergedError: the loss or the gradient is not finite.
    """
    device = next(model.parameters()).device
    optimizer.zero_grad(set_to_none=True)
    total, rewards, pivots = 0.0, list[NDArray[np.float32]](), list[NDArray[np.bool_]]()
    for chosen in plan([len(sample.episode) for sample in samples], settings.batch_tokens):
        members = [samples[i] for i in chosen]
        with autocast(settings.model.autocast, device):
            batch = EpisodeBatch([sample.episode for sample in members], device)
            logits = model.logits(batch)
            loss = label_loss(logits, batch.present_mask, members, settings.loss) * (len(members) / len(samples))
        if not torch.isfinite(loss):
            raise DivergedError("the loss of the success model is not finite", [])
        loss.backward()
        total += float(loss.detach())
        for row, sample in zip(_step_rewards(logits.detach(), settings.loss.kind), members, strict=True):
            labelled = (sample.pivot | sample.non_pivot)[1:]
            rewards.append(row[: len(labelled)][labelled])
            pivots.append(sample.pivot[1:][labelled])
    norm = clip_gradient(model, settings.optimizer.grad_clip)
    optimizer.step()
    reward, pivot = np.concatenate(rewards), np.concatenate(pivots)
    return {
        "loss": total,
        "grad_norm": norm,
        "tokens": float(sum(len(sample.episode) for sample in samples)),
        "reward_pivot": _mean(reward[pivot]),
        "reward_other": _mean(reward[~pivot]),
    }


def _mean(values: NDArray[np.float32]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _step_rewards(logits: Any, kind: str) -> NDArray[np.float32]:
    """The step rewards of turns, float32 (B, S − 1), from the logits at the question and at turn ends."""
    if kind == "hazard":
        return np.asarray(functional.logsigmoid(-logits[:, 1:]).float().cpu().numpy())
    return np.asarray(functional.logsigmoid(logits).diff(dim=1).float().cpu().numpy())


def label_loss(logits: Any, present_mask: Any, members: Sequence[Sample], config: SuccessLossConfig) -> Any:
    """Mean loss of some episodes, given the logits (B, S) of the head."""
    device, most = logits.device, logits.shape[1]

    def padded(name: str) -> Any:
        out = np.zeros((len(members), most), np.bool_)
        for row, sample in enumerate(members):
            labelled = getattr(sample, name)
            out[row, : len(labelled)] = labelled
        return torch.from_numpy(out).to(device)

    if config.kind == "hazard":
        hazard = hazard_loss(
            logits[:, 1:],
            (padded("pivot") | padded("non_pivot"))[:, 1:],
            padded("non_pivot")[:, 1:],
            negative_weight=config.negative_weight,
            monotonicity_weight=config.monotonicity_weight,
        )
        return hazard.loss
    success = torch.tensor([float(sample.success) for sample in members], device=device)
    return paper_loss(logits, present_mask, padded("pivot"), padded("non_pivot"), success, config).mean()


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One labelled episode with T turns.

    Attributes:
        episode: ids and T + 1 turn ends.
        pivot, non_pivot: bool (T+1,), the label of the turn that ends there; False at the question and in a shared prefix.
        success: the outcome.
        task_id: the task.
    """

    episode: Encoded
    pivot: NDArray[np.bool_]
    non_pivot: NDArray[np.bool_]
    success: bool
    task_id: str


def labelled_samples(
    groups: Sequence[Group], labels: Mapping[tuple[str, str], Labels], encoder: Encoder
) -> tuple[list[Sample], int]:
    """Samples of all labelled episodes with turns, and the number of those that were too long.

    Raises:
        DataError: labels that match no trajectory, or not the turns of theirs; or nothing is left that is labelled.
    """
    samples, skipped = [], 0
    unused = set(labels)
    for group in groups:
        for i, member in enumerate(group.trajectories):
            entry = labels.get((group.group_id, member.trajectory_id))
            if entry is None:
                continue
            entry.check(member)
            unused.discard((group.group_id, member.trajectory_id))
            if not member.turns:
                continue
            try:
                episode = encoder.encode_member(group, i)
            except EpisodeTooLongError:
                skipped += 1
                continue
            turn_labels = np.array([""] * (episode.shared + 1) + list(entry.turn_labels))
            samples.append(Sample(episode, turn_labels == "+", turn_labels == "-", entry.success, group.task_id))
    if unused:
        group_id, trajectory_id = sorted(unused)[0]
        raise DataError(
            f"{len(unused)} labels belong to no trajectory of the log, the first to {trajectory_id!r} of group "
            f"{group_id!r}: do they belong to another log?"
        )
    if not samples:
        raise DataError(f"no labelled episode with turns ({skipped} were too long)")
    return samples, skipped


def split_samples(samples: Sequence[Sample], valid: float, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Training and validation samples, split by task.

    Args:
        samples: all of them.
        valid: fraction of the tasks for validation.
        seed: random seed.

    Raises:
        DataError: no task is left for training.
    """
    tasks = sorted({sample.task_id for sample in samples})
    order = np.random.default_rng([seed, 0]).permutation(len(tasks))
    held_out = {tasks[i] for i in order[: round(valid * len(tasks))].tolist()}
    train = [sample for sample in samples if sample.task_id not in held_out]
    if not train:
        raise DataError(f"{len(tasks)} tasks and data.valid={valid} leave none to train on")
    return train, [sample for sample in samples if sample.task_id in held_out]


def batch_indices(count: int, size: int, step: int, seed: int) -> list[int]:
    """Indices of the samples of a step: epochs, each in its own order, one after the other."""
    first = step * size
    epochs = range(first // count, (first + size - 1) // count + 1)
    order = np.concatenate([np.random.default_rng([seed, 1, epoch]).permutation(count) for epoch in epochs])
    start = first - epochs[0] * count
    indices: list[int] = order[start : start + size].tolist()
    return indices

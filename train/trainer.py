"""The training loop, top to bottom: SFT, then rollout → annotate → log-probabilities → credit → rows → update, again.

A run is a folder: ``config.yaml`` (resolved), ``run.json`` (its identity), ``tokenizer/``, ``checkpoints/``,
``metrics.jsonl``; ``reference/`` with a KL term, ``best/`` with checkpoint.best; at the end ``model/`` and, with a critic, ``critic/``. All random
numbers are seeded by (seed, purpose, iteration), so a resumed run repeats the uninterrupted one.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from creditflow.agents.language_model.pretrained import generation_ends
from creditflow.train.annotate import Annotator, annotate
from creditflow.train.annotate.scheme import make_scheme, run_annotators
from creditflow.train.policy.checkpoint import Progress, load_checkpoint, save_checkpoint
from creditflow.train.policy.critic import Critic, explained_variance
from creditflow.train.policy.failures import DivergedError, memory_errors, sampling_memory_errors
from creditflow.train.policy.network.adapter import stop_dropout
from creditflow.train.policy.old_logprobs import (
    OldLogprobs,
    compute_old_logprobs,
    sampler_mismatch,
    select_loss_tokens,
    subtract_kl,
)
from creditflow.train.policy.optimizer import OptimizerConfig, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.policy.overlong import subtract_overlong
from creditflow.train.policy.samples import Row, make_rows
from creditflow.train.policy.sft import demonstrations, describe_demonstrations, run_sft, sft_plan, sft_rows
from creditflow.train.policy.update import update_policy
from creditflow.train.progress import duration_text
from creditflow.train.rollout.evaluation import Evaluation, evaluate
from creditflow.train.rollout.task_sampling import SampledGroups, sample_groups
from creditflow.train.rollout.tasks import panel_tasks, training_tasks
from creditflow.train.run import assemble
from creditflow.train.run.folder import (
    export_run,
    init_run_folder,
    keep_best,
    load_or_save_reference,
    load_run_tokenizer,
    save_diverged_state,
    save_policy,
    unfinished_run,
)
from creditflow.train.run.iteration_log import (
    entity_sums,
    graph_sums,
    log_iteration,
    peak_flops,
    rollout_sums,
    row_sums,
    stopwatch,
)
from creditflow.train.run.metrics_log import open_logger
from creditflow.train.run.stop_request import StopRequest
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.credit.registry import assigned

__all__ = ["Trainer"]


class Trainer:
    """One training run of a policy.

    Args:
        settings: all settings of the run.
        resume: continue from the latest checkpoint in ``settings.out``.
        stream: where log lines are printed; default standard output.

    Raises:
        ConfigError: the folder contains a run already and ``resume`` is False.
        DataError: the run to resume is damaged.
    """

    def __init__(self, settings: TrainConfig, *, resume: bool = False, stream: TextIO | None = None) -> None:
        self.settings = settings
        self.folder = Path(settings.out)
        self.checkpoints = self.folder / "checkpoints"
        if settings.threads:
            torch.set_num_threads(settings.threads)
        checkpoint = unfinished_run(self.folder, resume=resume)
        self.scheme = make_scheme(settings)
        self.tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        tokenizer = load_run_tokenizer(self.folder) if checkpoint else None
        self.model, self.tokenizer = assemble.make_policy(settings, tokenizer, self.tasks)
        self.ends = generation_ends(self.model)
        self.backend = assemble.make_backend(self.model, settings)
        self.rollout_engine = assemble.make_rollout_engine(settings, self.scheme)
        self.eval_engine = assemble.make_eval_engine(settings)
        self.progress = Progress("sft", 0)
        self.optimizer = make_optimizer(self.model, settings.sft.optimizer)
        self.critic: Critic | None = None
        self.reference: Any = None
        self.annotators: list[Annotator] = []
        self._saved: Progress | None = None  # as of the last checkpoint
        if checkpoint is not None:
            self._load(checkpoint)
        else:
            self.tokenizer = init_run_folder(self.folder, settings, self.tokenizer)
        self._stop = StopRequest(lambda text: self.logger.print(text))
        self.logger = open_logger(self.folder, settings.log, self.progress, checkpoint, stream)

    def run(self) -> dict[str, Any]:
        """Train (SFT, then RL), evaluate and save. Returns the last evaluations by name.

        Raises:
            DivergedError: a loss or gradient is not finite; the state before it was saved.
            KeyboardInterrupt: Ctrl-C; the last finished step was saved, and the command that continues was printed.
        """
        try:
            with self._stop:
                results = self._train()
            self._stop_if_asked()  # asked after the last step; from here on Ctrl-C stops at once: there is no step to save
            return results | self._finish()
        except KeyboardInterrupt:
            self.logger.print(
                f"stopped after {self.progress.folder}; continue with: creditflow train --resume {shlex.quote(str(self.folder))}"
            )
            raise
        finally:
            self.logger.close()

    def _train(self) -> dict[str, Any]:
        """SFT, then RL. Returns the evaluation between them."""
        log = self.logger.print
        log(
            f"{assemble.describe_model(self.model)} on {self.backend.device}; {len(self.tasks)} tasks; "
            f"scheme {self.scheme.name}; from {self.progress.folder}"
        )
        results: dict[str, Any] = {}
        try:
            if self.progress.phase == "sft":
                self._run_sft()
            self._start_rl()
            every, total = self.settings.evaluation.every, self.settings.update.iterations
            if self.progress.done == 0:
                results["after_sft"] = self.evaluate_panel(self.settings.evaluation.panel, "valid", 0)
            self._stop_if_asked()
            for iteration in range(self.progress.done, total):
                self._train_iteration(iteration)
                self.progress = Progress("rl", iteration + 1)
                if every and (iteration + 1) % every == 0 and iteration + 1 < total:
                    self.evaluate_panel(self.settings.evaluation.panel, "valid", iteration + 1)
                if (iteration + 1) % max(1, self.settings.checkpoint.every) == 0 or iteration + 1 == total:
                    self._save()
                self._stop_if_asked()
        except DivergedError as error:
            path = save_diverged_state(self.folder, self.progress, self._trained_modules(), self.optimizer, error)
            log(f"stopped after {self.progress.folder}: {error}; the state before it was saved to {path}")
            raise
        return results

    def _finish(self) -> dict[str, Any]:
        """Evaluate the trained model, and write it as a folder of ``transformers``. Returns the evaluations."""
        evaluation, total = self.settings.evaluation, self.settings.update.iterations
        results: dict[str, Any] = {}
        if total:
            results["after_rl"] = self.evaluate_panel(evaluation.panel, "valid", total)
        results["final"] = self.evaluate_panel(evaluation.final_panel, "final", total)
        export_run(self.folder, self.model, self.tokenizer, self.settings, self.critic)
        return results

    def _stop_if_asked(self) -> None:
        """Save the state between two steps and stop, if Ctrl-C was pressed."""
        if self._stop.made:
            if self._saved != self.progress:
                self._save()
            raise KeyboardInterrupt

    def _run_sft(self) -> None:
        sft = self.settings.sft
        if not sft.episodes or not sft.steps:
            return
        start = time.perf_counter()
        groups = demonstrations(self.settings, self.tokenizer, self.tasks, self.ends)
        rows = sft_rows(groups)
        plan = sft_plan(rows, sft.steps, sft.batch_tokens, self.settings.seed)
        self.logger.print(
            f"SFT: {describe_demonstrations(groups, rows)}, generated in {time.perf_counter() - start:.1f} s; {sft.steps} steps"
        )
        printed = {max(1, sft.steps * k // 10) for k in range(1, 11)}
        last = began = time.perf_counter()
        done = self.progress.done
        for step, metrics in run_sft(self.model, self.optimizer, rows, plan, done, self.settings):
            now = time.perf_counter()
            self.logger.write("sft", step, "step", metrics | {"seconds": now - last})
            last = now
            self.progress = Progress("sft", step)
            if step in printed:
                left = duration_text((now - began) / (step - done) * (sft.steps - step))
                self.logger.print(
                    f"SFT step {step}/{sft.steps}: loss {metrics['loss']:.4f} lr {metrics['lr']:.2e}, about {left} left"
                )
            every = self.settings.checkpoint.every
            if every and step % (every * 10) == 0 and step < sft.steps:
                self._save()
            self._stop_if_asked()

    def _start_rl(self) -> None:
        """A new optimiser and critic, the reference policy (a copy of the policy after SFT), and annotators."""
        if self.progress.phase == "sft":
            self._init_rl_modules()
            self.progress = Progress("rl", 0)
            self._save()
        if self.settings.update.loss.kl_weight and self.reference is None:
            self.reference = load_or_save_reference(
                self.folder, self.model, self.optimizer, begun=self.progress.done > 0
            )
        self.annotators = run_annotators(self.settings, self.critic)
        self.backend.sync(self.progress.folder)

    def _init_rl_modules(self) -> None:
        """The critic and the optimiser of the policy update, untrained."""
        stop_dropout(self.model)
        self.critic = assemble.make_critic(self.model, self.settings)
        settings = self.settings
        self.optimizer = make_optimizer(self.model, settings.update.optimizer, self.critic, settings.critic.lr)

    def sample(self, iteration: int) -> SampledGroups:
        """The groups of an iteration; a subclass may look at them."""
        rollout = self.settings.rollout
        agent = assemble.make_policy_agent(
            self.settings,
            self.backend,
            self.tokenizer,
            temperature=rollout.temperature,
            top_p=rollout.top_p,
            top_k=rollout.top_k,
            entropies=rollout.branching.entropy_tokens if rollout.branching.max_trajectories else 0,
        )
        sampled = sample_groups(
            self.rollout_engine, agent, self.tasks, rollout, seed=self.settings.seed, iteration=iteration
        )
        self.backend.sleep()
        return sampled

    def _push_weights(self, done: int) -> dict[str, float]:
        """Give the sampler the weights after ``done`` iterations; returns the metrics of it."""
        with sampling_memory_errors(self.settings.generation):  # an engine that slept needs its memory again
            self.backend.sync(Progress("rl", done).folder)
        return self.backend.sync_numbers

    def _train_iteration(self, iteration: int) -> None:
        """Rollout → annotate → log-probabilities → credit → rows → minibatch updates → weight push → log."""
        update = self.settings.update
        seconds: dict[str, float] = {}
        timed = stopwatch(seconds, self.backend.device)
        with timed("rollout"), sampling_memory_errors(self.settings.generation):
            sampled = self.sample(iteration)
            groups, report = sampled.groups, sampled.report
        report.require_room()
        if self.annotators:
            with timed("annotate"), memory_errors(update.batch_tokens):
                for annotator in self.annotators:
                    groups = annotate(groups, annotator)
        with timed("logprobs"), memory_errors(update.batch_tokens):
            all_rows, logprobs = compute_old_logprobs(
                groups,
                self.model,
                self.reference,
                update,
                temperature=self.settings.rollout.temperature,
                precision=self.settings.model.autocast,
                truncation=self.settings.truncation,
            )
            if self.reference is not None and update.loss.kl_in == "reward":
                groups = subtract_kl(groups, all_rows, logprobs, update.loss.kl_weight, update.loss.kl_kind)
        with timed("graph"):
            graph = graph_sums(groups)
        with timed("credit"):
            groups, overlong = subtract_overlong(groups, self.settings.credit.overlong)
            credits_ = assigned(self.scheme, groups, self.settings.rollout.branching.shared_prefix_advantage)
        with timed("update"), memory_errors(update.batch_tokens):
            rows = make_rows(groups, credits_, row_layout=update.row_layout)
            logprobs = select_loss_tokens(logprobs, all_rows, rows)
            losses = self._update(rows, logprobs, credits_, iteration)
            losses |= overlong | self._push_weights(iteration + 1)
        sums = (
            rollout_sums(groups, credits_, report, sampled.discarded)
            | entity_sums(groups)
            | graph
            | row_sums(rows, self.model, self.settings)
        )
        log_iteration(
            self.logger,
            iteration + 1,
            update.iterations,
            sums,
            losses,
            seconds,
            report.errors,
            peak_flops(self.backend.device),
        )

    def _update(
        self, rows: Sequence[Row], logprobs: OldLogprobs, credits_: Sequence[Credit], iteration: int
    ) -> dict[str, float]:
        """The optimiser steps of an iteration; returns their metrics. Without rows nothing is trained."""
        settings, update = self.settings, self.settings.update
        iterations = max(update.iterations, 1)
        lr = learning_rate(update.optimizer, iteration, iterations)
        if self.critic is not None:
            warmup = OptimizerConfig(lr=settings.critic.lr, warmup_fraction=settings.critic.warmup_fraction)
            set_learning_rate(self.optimizer, learning_rate(warmup, iteration, iterations), role="critic")
        metrics: dict[str, float] = {}
        if rows:
            aggregation = update.loss.aggregation
            metrics = update_policy(
                self.model,
                self.optimizer,
                rows,
                logprobs,
                update,
                aggregation=credits_[0].aggregation if aggregation == "auto" else aggregation,
                temperature=settings.rollout.temperature,
                precision=settings.model.autocast,
                truncation=settings.truncation,
                critic=self.critic,
                lr=lr,
                rng=np.random.default_rng([settings.seed, 3, iteration]),
            )
            if logprobs.old is not None and update.old_logprobs == "trainer":
                metrics |= sampler_mismatch(rows, logprobs.old)
        if self.critic is not None:
            metrics["explained_variance"] = explained_variance(rows)
        return metrics | {"lr": lr}

    def evaluate_panel(self, spec: str, name: str, iteration: int) -> Evaluation | None:
        """Evaluate the current policy on a panel, and log the result.

        Args:
            spec: "NAME:SPLIT"; "" evaluates nothing and returns None.
            name: "valid" (at most ``evaluation.limit`` tasks) or another name (``evaluation.final_limit``), under which it is logged.
            iteration: number of finished iterations.
        """
        if not spec:
            return None
        config = self.settings.evaluation
        start = time.perf_counter()
        tasks = panel_tasks(self.settings.evaluation_env, spec, config.limit if name == "valid" else config.final_limit)
        agent = partial(assemble.make_policy_agent, self.settings, self.backend, self.tokenizer)
        sampled = agent(temperature=config.temperature, top_p=config.top_p) if config.samples else None
        with sampling_memory_errors(self.settings.generation):
            result = evaluate(
                self.eval_engine,
                agent(temperature=0.0),
                sampled,
                tasks,
                samples=config.samples,
                seed=1_000_003,
                wave=self.settings.concurrent_evaluations,
            )
        seconds = time.perf_counter() - start
        self.logger.write("rl", iteration, f"eval_{name}", result.summary() | {"panel": spec, "seconds": seconds})
        self.logger.print(f"evaluation {spec} at iteration {iteration}: {result.line()} ({seconds:.1f} s)")
        if name == "valid" and self.settings.checkpoint.best:
            keep_best(self.folder, result, iteration, self._save_policy)
        return result

    def _load(self, checkpoint: Path) -> None:
        if checkpoint.name.startswith("rl-"):
            self._init_rl_modules()
        self.progress = self._saved = load_checkpoint(checkpoint, self._trained_modules(), self.optimizer)

    def _save(self) -> None:
        save_checkpoint(
            self.checkpoints,
            self.progress,
            self._trained_modules(),
            self.optimizer,
            keep=self.settings.checkpoint.keep,
            extra={"records": self.logger.records},
        )
        self._saved = self.progress

    def _save_policy(self, folder: Path) -> None:
        save_policy(self.model, self.tokenizer, self.settings, folder)

    def _trained_modules(self) -> Any:
        """The policy, with its critic if it has one."""
        if self.critic is None:
            return self.model
        return torch.nn.ModuleDict({"policy": self.model, "critic": self.critic})

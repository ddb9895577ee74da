"""The training loop, top to bottom: warm-up, then rollout → annotations → log-probabilities → credit → update, again.

A run is a folder: ``config.yaml`` (resolved), ``tokenizer/``, ``checkpoints/``, ``metrics.jsonl``, ``model/`` at the
end. Everything drawn is seeded by (seed, what, iteration), so a resumed run repeats the uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from creditflow.agents.language_model.pretrained import AGENT_FILE, generation_ends
from creditflow.agents.language_model.saved import write_agent_file
from creditflow.envs.errors import ConfigError
from creditflow.train.annotate import Annotator, annotate
from creditflow.train.policy.checkpoint import Progress, latest_checkpoint, load_checkpoint, records_at, save_checkpoint
from creditflow.train.policy.critic import Critic, explained_variance, save_critic
from creditflow.train.policy.old_logprobs import OldLogprobs, compute_logprobs, sampler_mismatch, select_loss_tokens
from creditflow.train.policy.optimizer import learning_rate, make_optimizer
from creditflow.train.policy.samples import make_rows
from creditflow.train.policy.sft import demonstrations, run_sft, sft_plan, sft_rows
from creditflow.train.policy.update import subtract_kl, update_policy
from creditflow.train.rollout.engine import Budget, RolloutEngine
from creditflow.train.rollout.evaluation import Evaluation, evaluate
from creditflow.train.rollout.task_sampling import sample_groups
from creditflow.train.run.annotators import check_annotations, run_annotators
from creditflow.train.run.assemble import (
    group_env_factory,
    make_backend,
    make_policy,
    make_policy_agent,
    needs_texts,
    panel_tasks,
    training_tasks,
)
from creditflow.train.run.failures import DivergedError
from creditflow.train.run.folder import (
    export_whole,
    init_run_folder,
    load_or_save_reference,
    load_run_tokenizer,
    save_diverged_state,
)
from creditflow.train.run.iteration_log import format_iteration, graph_metrics, rollout_metrics, stopwatch
from creditflow.train.run.metrics_log import MetricsLogger
from creditflow.train.settings.schema import TrainConfig
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.credit.branches import share_prefixes

__all__ = ["Trainer"]


class Trainer:
    """One run.

    Args:
        settings: of the run.
        resume: go on from the newest checkpoint in ``settings.out``.
        stream: receives the log lines; default standard output.

    Raises:
        ConfigError: the folder holds a run already and ``resume`` is False.
        DataError: nothing to resume from.
    """

    def __init__(self, settings: TrainConfig, *, resume: bool = False, stream: TextIO | None = None) -> None:
        self.settings = settings
        self.folder = Path(settings.out)
        self.checkpoints = self.folder / "checkpoints"
        if settings.threads:
            torch.set_num_threads(settings.threads)
        found = latest_checkpoint(self.checkpoints)
        if found is not None and not resume:
            raise ConfigError(
                f"{self.folder} holds a run already: go on with --resume {self.folder}, or choose another out"
            )
        self.scheme = credit.make(
            settings.credit.scheme, semantics=settings.credit.semantics, **settings.credit.parameters
        )
        check_annotations(self.scheme, settings)
        self.tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        self.model, self.tokenizer = make_policy(
            settings, load_run_tokenizer(self.folder) if found else None, self.tasks
        )
        self.ends = generation_ends(self.model)
        self.backend = make_backend(self.model, settings)
        texts = needs_texts(settings, self.scheme)
        self.rollout_engine = RolloutEngine(
            group_env_factory(settings.env, settings.rollout.group_size, texts=texts),
            Budget(settings.rollout.max_turns, settings.rollout.max_tokens),
            branching=settings.rollout.branching,
            make_branch=group_env_factory(settings.env, 1, texts=texts),
        )
        self.eval_engine = RolloutEngine(
            group_env_factory(settings.env, 1, texts=settings.prompting.history == "window")
        )
        self.progress = Progress("sft", 0)
        self.optimizer = make_optimizer(self.model, settings.sft.optimizer)
        self.critic: Critic | None = None
        self.annotators: list[Annotator] = []
        if found is not None:
            self._load(found)
        else:
            self.tokenizer = init_run_folder(self.folder, settings, self.tokenizer)
        self.logger = MetricsLogger(
            self.folder,
            after=self.progress if found else None,
            records=records_at(found) if found else None,
            tensorboard=settings.log.tensorboard,
            wandb=settings.log.wandb,
            stream=stream,
        )
        self.reference: Any = None

    # -- the whole run --------------------------------------------------------------------------------------------------
    def run(self) -> dict[str, Any]:
        """Warm up, train, evaluate, save. Returns the last evaluations by name.

        Raises:
            DivergedError: a loss or gradient that is not finite; the state before it is saved.
        """
        log = self.logger.print
        count = sum(p.numel() for p in self.model.parameters())
        log(f"{type(self.model).__name__}, {count:,} parameters on {self.backend.device}; {len(self.tasks)} tasks; "
            f"scheme {self.scheme.name}; from {self.progress.folder}")  # fmt: skip
        results: dict[str, Any] = {}
        try:
            if self.progress.phase == "sft":
                self._run_sft()
            self._start_rl()
            every, total = self.settings.evaluation.every, self.settings.update.iterations
            if self.progress.done == 0:
                results["after_sft"] = self.evaluate_panel(self.settings.evaluation.panel, "valid", 0)
            for iteration in range(self.progress.done, total):
                self._iterate(iteration)
                self.progress = Progress("rl", iteration + 1)
                if every and (iteration + 1) % every == 0 and iteration + 1 < total:
                    self.evaluate_panel(self.settings.evaluation.panel, "valid", iteration + 1)
                if (iteration + 1) % max(1, self.settings.checkpoint.every) == 0 or iteration + 1 == total:
                    self._save()
            if total:
                results["after_rl"] = self.evaluate_panel(self.settings.evaluation.panel, "valid", total)
            results["final"] = self.evaluate_panel(self.settings.evaluation.final_panel, "final", total)
            export_whole(self.folder / "model", self.export)
            if self.critic is not None:
                export_whole(self.folder / "critic", partial(save_critic, self.critic))
        except DivergedError as error:
            place = save_diverged_state(self.folder, self.progress, self._learner(), self.optimizer, error)
            log(f"stopped after {self.progress.folder}: {error}; the state before it is in {place}")
            raise
        finally:
            self.logger.close()
        return results

    def export(self, folder: Path) -> None:
        """Write a Hugging Face folder that ``hf:PATH`` opens."""
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_agent_file(folder / AGENT_FILE, self.settings.prompting, self.settings.sampling)

    # -- warm-up --------------------------------------------------------------------------------------------------------
    def _run_sft(self) -> None:
        sft = self.settings.sft
        if not sft.episodes or not sft.steps:
            return
        began = time.perf_counter()
        groups = demonstrations(self.settings, self.tokenizer, self.tasks, self.ends)
        rows = sft_rows(groups, sft.observation_weight)
        plan = sft_plan(rows, sft.steps, sft.batch_tokens, self.settings.seed)
        self.logger.print(
            f"warm-up: {len(groups)} demonstrations (teacher succeeds in "
            f"{np.mean([g.trajectories[0].success for g in groups]):.3f}), {len(rows)} rows, "
            f"{sum(map(len, rows)):,} tokens, made in {time.perf_counter() - began:.1f} s; {sft.steps} steps"
        )
        last = time.perf_counter()
        marks = {max(1, sft.steps * k // 10) for k in range(1, 11)}

        def after(step: int, metrics: dict[str, float]) -> None:
            nonlocal last
            now = time.perf_counter()
            self.logger.write("sft", step, "step", metrics | {"seconds": now - last})
            last = now
            self.progress = Progress("sft", step)
            if step in marks:
                self.logger.print(f"warm-up step {step}/{sft.steps}: loss {metrics['loss']:.4f} lr {metrics['lr']:.2e}")
            every = self.settings.checkpoint.every
            if every and step % (every * 10) == 0 and step < sft.steps:
                self._save()

        todo = list(enumerate(plan))[self.progress.done :]
        run_sft(self.model, self.optimizer, rows, todo, sft.steps, self.settings, after)

    def _start_rl(self) -> None:
        """A fresh optimiser for the policy update; the reference is the policy as it now is."""
        if self.progress.phase == "sft":
            self._begin_rl()
            self.progress = Progress("rl", 0)
            self._save()
        if self.settings.update.loss.kl_weight and self.reference is None:
            self.reference = load_or_save_reference(self.folder, self.model, self.optimizer)
        self.annotators = run_annotators(self.settings, self.critic)
        self.backend.sync(self.progress.folder)

    def _begin_rl(self) -> None:
        """The critic and the optimiser of the policy update, as they are before the first."""
        critic = self.settings.critic
        if critic.kind != "none":
            self.critic = Critic(critic, self.model.get_decoder())
        self.optimizer = make_optimizer(self.model, self.settings.update.optimizer, self.critic, critic.lr)

    # -- one iteration ----------------------------------------------------------------------------------------------------
    def _iterate(self, iteration: int) -> None:
        settings, update = self.settings, self.settings.update
        seconds: dict[str, float] = {}
        timed = stopwatch(seconds, self.backend.device)
        with timed("rollout"):
            branching = settings.rollout.branching
            agent = make_policy_agent(
                settings,
                self.backend,
                self.tokenizer,
                temperature=settings.rollout.temperature,
                entropies=branching.entropy_tokens if branching.max_trajectories else 0,
            )
            groups, report, discarded = sample_groups(
                self.rollout_engine, agent, self.tasks, settings.rollout, seed=settings.seed, iteration=iteration
            )
            self.backend.sleep()
        if self.annotators:
            with timed("annotate"):
                for annotator in self.annotators:
                    groups = annotate(groups, annotator)
        with timed("logprobs"):
            unscored = [Credit.of(group, outcome=np.zeros(len(group))) for group in groups]
            needs_reference = self.reference is not None
            several = update.epochs * update.minibatches > 1 or (needs_reference and update.loss.kl_in == "reward")
            blank = make_rows(groups, unscored, row_layout=update.row_layout) if several or needs_reference else []
            scored = self._score(blank, several)
            if needs_reference and update.loss.kl_in == "reward":
                groups = subtract_kl(groups, blank, scored, update.loss.kl_weight, update.loss.kl_kind)
        with timed("graph"):
            graph = graph_metrics(groups)
        with timed("credit"):
            credits_ = self.scheme.assign_batch(groups)
            if branching.shared_prefix_advantage == "mean":
                credits_ = [share_prefixes(group, one) for group, one in zip(groups, credits_, strict=True)]
        with timed("update"):
            rows = make_rows(groups, credits_, row_layout=update.row_layout)
            scored = select_loss_tokens(scored, blank, rows)
            lr = learning_rate(update.optimizer, iteration, max(update.iterations, 1))
            stats = (
                update_policy(
                    self.model,
                    self.optimizer,
                    rows,
                    scored,
                    update,
                    aggregation=self._aggregation(credits_),
                    temperature=settings.rollout.temperature,
                    lr=lr,
                    rng=np.random.default_rng([settings.seed, 3, iteration]),
                    precision=settings.model.autocast,
                    critic=self.critic,
                )
                if rows
                else {}
            )
            self.backend.sync(f"rl-{iteration + 1:07d}")
        if scored.old is not None and rows:
            stats |= sampler_mismatch(rows, scored.old)
        if self.critic is not None:
            stats["explained_variance"] = explained_variance(rows)
        numbers = rollout_metrics(groups, credits_, report, discarded) | graph | stats | {"lr": lr}
        numbers |= self.backend.sync_numbers
        numbers |= {f"seconds_{name}": value for name, value in seconds.items()} | {"seconds": sum(seconds.values())}
        self.logger.write("rl", iteration + 1, "iteration", numbers)
        self.logger.print(format_iteration(iteration + 1, update.iterations, numbers, seconds))
        if report.errors:
            self.logger.print(f"  {len(report.errors)} environment errors, the first: {report.errors[0]}")

    def _score(self, rows: Sequence[Any], several: bool) -> OldLogprobs:
        if not rows:
            return OldLogprobs(None)
        update, settings = self.settings.update, self.settings
        old = None
        if several:
            if update.old_logprobs == "sampler":
                old = [row.sampler_logprob for row in rows]
            else:
                old = compute_logprobs(
                    self.model,
                    rows,
                    update,
                    temperature=settings.rollout.temperature,
                    precision=settings.model.autocast,
                )
        reference = None
        if self.reference is not None:
            reference = compute_logprobs(
                self.reference,
                rows,
                update,
                temperature=settings.rollout.temperature,
                precision=settings.model.autocast,
            )
        return OldLogprobs(old, reference)

    def _aggregation(self, credits_: Sequence[Credit]) -> Aggregation:
        wanted = self.settings.update.loss.aggregation
        return credits_[0].aggregation if wanted == "auto" else wanted

    # -- evaluation -------------------------------------------------------------------------------------------------------
    def evaluate_panel(self, spec: str, name: str, iteration: int) -> Evaluation | None:
        """Evaluate the present policy on "NAME:SPLIT"; None for ""."""
        if not spec:
            return None
        config = self.settings.evaluation
        began = time.perf_counter()
        tasks = panel_tasks(self.settings.env, spec, config.limit if name == "valid" else 0)
        greedy = make_policy_agent(self.settings, self.backend, self.tokenizer, temperature=0.0)
        sampled = make_policy_agent(self.settings, self.backend, self.tokenizer, temperature=config.temperature)
        result = evaluate(
            self.eval_engine, greedy, sampled if config.samples else None, tasks, samples=config.samples, seed=1_000_003
        )
        seconds = time.perf_counter() - began
        self.logger.write("rl", iteration, f"eval_{name}", result.summary() | {"panel": spec, "seconds": seconds})
        self.logger.print(f"evaluation {spec} at iteration {iteration}: {result.line()} ({seconds:.1f} s)")
        return result

    # -- folder ---------------------------------------------------------------------------------------------------------------
    def _load(self, path: Path) -> None:
        phase = path.name.partition("-")[0]
        if phase == "rl":
            self._begin_rl()
        self.progress = load_checkpoint(path, self._learner(), self.optimizer)

    def _save(self) -> None:
        keep = self.settings.checkpoint.keep
        save_checkpoint(
            self.checkpoints, self.progress, self._learner(), self.optimizer, keep=keep,
            extra={"records": self.logger.records},
        )  # fmt: skip

    def _learner(self) -> Any:
        """Everything whose weights move."""
        if self.critic is None:
            return self.model
        return torch.nn.ModuleDict({"policy": self.model, "critic": self.critic})

"""The training loop, top to bottom: warm-up, then rollout → log-probabilities → graph → credit → update, again.

A run is a folder: ``config.yaml`` (resolved), ``tokenizer/``, ``checkpoints/``, ``metrics.jsonl``, ``model/`` at the
end. Everything drawn is seeded by (seed, what, iteration), so a resumed run repeats the uninterrupted one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from creditflow.agents.pretrained import AGENT_FILE, generation_ends, open_tokenizer
from creditflow.agents.saved import write_agent_file
from creditflow.envs.atomic import atomic_writer
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.tasks import Task
from creditflow.train.assemble import (
    group_maker,
    make_agent_of,
    make_backend,
    make_policy,
    panel_tasks,
    training_tasks,
)
from creditflow.train.checkpoint import Progress, latest_checkpoint, load_checkpoint, save_checkpoint
from creditflow.train.config import plain, write_yaml
from creditflow.train.engine import Arena, Budget, Report
from creditflow.train.evaluation import Evaluation, evaluate
from creditflow.train.failures import DivergedError
from creditflow.train.journal import Journal
from creditflow.train.optimiser import learning_rate, make_optimiser
from creditflow.train.samples import make_rows
from creditflow.train.settings import TrainConfig
from creditflow.train.sft import demonstrations, sft_plan, sft_rows, warm_up
from creditflow.train.update import Scored, mismatch, score_rows, step_share, subtract_kl, update_policy
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Aggregation, Credit
from creditflow.wrappers.groups import Group
from creditflow.wrappers.state_graph import StateGraph

__all__ = ["Trainer"]


class Trainer:
    """One run.

    Args:
        settings: of the run.
        resume: go on from the newest checkpoint in ``settings.out``.
        say: where plain lines go; default standard output.

    Raises:
        ConfigError: the folder holds a run already and ``resume`` is False.
        DataError: nothing to resume from.
    """

    def __init__(self, settings: TrainConfig, *, resume: bool = False, say: Any = None) -> None:
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
        self.tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        self.model, self.tokenizer = make_policy(settings, self._kept_tokenizer() if found else None, self.tasks)
        self.ends = generation_ends(self.model)
        self.backend = make_backend(self.model, settings.rollout)
        self.arena = Arena(
            group_maker(settings.env, settings.rollout.group_size, texts=settings.speech.history == "window"),
            Budget(settings.rollout.max_turns, settings.rollout.max_tokens),
        )
        self.judge = Arena(group_maker(settings.env, 1, texts=settings.speech.history == "window"))
        self.progress = Progress("sft", 0)
        self.optimiser = make_optimiser(self.model, settings.sft.optimiser)
        if found is not None:
            self._load(found)
        elif not self.folder.exists() or not (self.folder / "config.yaml").exists():
            self._begin_folder()
        self.journal = Journal(
            self.folder,
            after=self.progress if found else None,
            tensorboard=settings.log.tensorboard,
            wandb=settings.log.wandb,
            stream=say,
        )
        self.reference: Any = None

    # -- the whole run --------------------------------------------------------------------------------------------------
    def run(self) -> dict[str, Any]:
        """Warm up, train, evaluate, save. Returns the last evaluations by name.

        Raises:
            DivergedError: a loss or gradient that is not finite; the state before it is saved.
        """
        say = self.journal.say
        count = sum(p.numel() for p in self.model.parameters())
        say(f"{type(self.model).__name__}, {count:,} parameters on {self.backend.device}; {len(self.tasks)} tasks; "
            f"scheme {self.scheme.name}; from {self.progress.folder}")  # fmt: skip
        results: dict[str, Any] = {}
        try:
            if self.progress.phase == "sft":
                self._warm_up()
            self._enter_rl()
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
            self.export(self.folder / "model")
        except DivergedError as error:
            self._save_wreck(error)
            raise
        finally:
            self.journal.close()
        return results

    def export(self, folder: Path) -> None:
        """Write a Hugging Face folder that ``hf:PATH`` opens."""
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_agent_file(folder / AGENT_FILE, self.settings.speech, self.settings.sampling)

    # -- warm-up --------------------------------------------------------------------------------------------------------
    def _warm_up(self) -> None:
        sft = self.settings.sft
        if not sft.episodes or not sft.steps:
            return
        began = time.perf_counter()
        groups = demonstrations(self.settings, self.tokenizer, self.tasks, self.ends)
        rows = sft_rows(groups, sft.observation_weight)
        plan = sft_plan(rows, sft.steps, sft.batch_tokens, self.settings.seed)
        self.journal.say(
            f"warm-up: {len(groups)} demonstrations (teacher succeeds in "
            f"{np.mean([g.trajectories[0].success for g in groups]):.3f}), {len(rows)} rows, "
            f"{sum(map(len, rows)):,} tokens, made in {time.perf_counter() - began:.1f} s; {sft.steps} steps"
        )
        last = time.perf_counter()
        marks = {max(1, sft.steps * k // 10) for k in range(1, 11)}

        def after(step: int, metrics: dict[str, float]) -> None:
            nonlocal last
            now = time.perf_counter()
            self.journal.write("sft", step, "step", metrics | {"seconds": now - last})
            last = now
            self.progress = Progress("sft", step)
            if step in marks:
                self.journal.say(f"warm-up step {step}/{sft.steps}: loss {metrics['loss']:.4f} lr {metrics['lr']:.2e}")
            every = self.settings.checkpoint.every
            if every and step % (every * 10) == 0 and step < sft.steps:
                self._save()

        todo = list(enumerate(plan))[self.progress.done :]
        warm_up(self.model, self.optimiser, rows, todo, sft.steps, self.settings, after)

    def _enter_rl(self) -> None:
        """A fresh optimiser for the policy update; the reference is the policy as it now is."""
        if self.progress.phase == "sft":
            self.optimiser = make_optimiser(self.model, self.settings.update.optimiser)
            self.progress = Progress("rl", 0)
            self._save()
        if self.settings.update.loss.kl_weight and self.reference is None:
            self.reference = self._reference()
        self.backend.sync(self.progress.folder)

    # -- one iteration ----------------------------------------------------------------------------------------------------
    def _iterate(self, iteration: int) -> None:
        settings, update = self.settings, self.settings.update
        seconds: dict[str, float] = {}
        device = self.backend.device
        timed = _stopwatch(seconds, device)
        with timed("rollout"):
            groups, report, discarded = self._rollout(iteration)
        with timed("logprobs"):
            unscored = [Credit.of(group, outcome=np.zeros(len(group))) for group in groups]
            needs_reference = self.reference is not None
            several = update.epochs * update.minibatches > 1 or (needs_reference and update.loss.kl_in == "reward")
            blank = make_rows(groups, unscored, layout=update.layout) if several or needs_reference else []
            scored = self._score(blank, several)
            if needs_reference and update.loss.kl_in == "reward":
                groups = subtract_kl(groups, blank, scored, update.loss.kl_weight, update.loss.kl_kind)
        with timed("graph"):
            graph = _graph_numbers(groups)
        with timed("credit"):
            credits_ = self.scheme.assign_batch(groups)
        with timed("update"):
            rows = make_rows(groups, credits_, layout=update.layout)
            scored = _aligned(scored, blank, rows)
            lr = learning_rate(update.optimiser, iteration, max(update.iterations, 1))
            stats = (
                update_policy(
                    self.model,
                    self.optimiser,
                    rows,
                    scored,
                    update,
                    aggregation=self._aggregation(credits_),
                    temperature=settings.rollout.temperature,
                    lr=lr,
                    rng=np.random.default_rng([settings.seed, 3, iteration]),
                    precision=settings.model.autocast,
                )
                if rows
                else {}
            )
            self.backend.sync(f"rl-{iteration + 1:07d}")
        if scored.old is not None and rows:
            stats |= mismatch(rows, scored.old)
        elif rows:
            stats["mismatch_max"] = stats.pop("off_max")
        self._log(iteration, groups, credits_, report, discarded, graph, stats | {"lr": lr}, seconds)

    def _rollout(self, iteration: int) -> tuple[list[Group], Report, int]:
        """The iteration's groups; with dynamic sampling, until enough have unequal outcomes."""
        rollout, report, discarded = self.settings.rollout, Report(), 0
        agent = make_agent_of(self.settings, self.backend, self.tokenizer, temperature=rollout.temperature)
        groups: list[Group] = []
        attempts = rollout.attempts if rollout.dynamic_sampling else 1
        for attempt in range(attempts):
            number = iteration * attempts + attempt
            rng = np.random.default_rng([self.settings.seed, 4, number])
            wanted = rollout.tasks - len(groups)
            chosen: list[Task] = []
            while len(chosen) < wanted:
                order = rng.permutation(len(self.tasks))[: wanted - len(chosen)]
                chosen += [self.tasks[i] for i in order.tolist()]
            played = self.arena.play(agent, _distinct(chosen), seed=self.settings.seed, iteration=number, report=report)
            kept = credit.filter_groups(played, keep_all=attempt == attempts - 1)
            discarded += len(played) - len(kept)
            groups += kept
            if len(groups) >= rollout.tasks:
                break
        return groups, report, discarded

    def _score(self, rows: Sequence[Any], several: bool) -> Scored:
        if not rows:
            return Scored(None)
        update, settings = self.settings.update, self.settings
        old = None
        if several:
            if update.old_logprobs == "sampler":
                old = [row.sampler_logprob for row in rows]
            else:
                old = score_rows(
                    self.model,
                    rows,
                    update,
                    temperature=settings.rollout.temperature,
                    precision=settings.model.autocast,
                )
        reference = None
        if self.reference is not None:
            reference = score_rows(
                self.reference,
                rows,
                update,
                temperature=settings.rollout.temperature,
                precision=settings.model.autocast,
            )
        return Scored(old, reference)

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
        greedy = make_agent_of(self.settings, self.backend, self.tokenizer, temperature=0.0)
        sampled = make_agent_of(self.settings, self.backend, self.tokenizer, temperature=config.temperature)
        result = evaluate(
            self.judge, greedy, sampled if config.samples else None, tasks, samples=config.samples, seed=1_000_003
        )
        seconds = time.perf_counter() - began
        self.journal.write("rl", iteration, f"eval_{name}", result.summary() | {"panel": spec, "seconds": seconds})
        self.journal.say(f"evaluation {spec} at iteration {iteration}: {result.line()} ({seconds:.1f} s)")
        return result

    # -- folder ---------------------------------------------------------------------------------------------------------------
    def _begin_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_yaml(self.folder / "config.yaml", plain(self.settings))
        self.tokenizer.save_pretrained(self.folder / "tokenizer")

    def _kept_tokenizer(self) -> Any:
        folder = self.folder / "tokenizer"
        if not folder.is_dir():
            raise DataError(f"{folder}: the run's tokenizer is missing; this folder cannot be resumed")
        return open_tokenizer(folder)

    def _load(self, path: Path) -> None:
        phase = path.name.partition("-")[0]
        if phase == "rl":
            self.optimiser = make_optimiser(self.model, self.settings.update.optimiser)
        self.progress = load_checkpoint(path, self.model, self.optimiser)

    def _save(self) -> None:
        keep = self.settings.checkpoint.keep
        save_checkpoint(self.checkpoints, self.progress, self.model, self.optimiser, keep=keep)

    def _reference(self) -> Any:
        """The policy that the KL term stays near to: as it was when reinforcement learning began."""
        import copy

        folder = self.folder / "reference"
        reference = copy.deepcopy(self.model)
        if folder.is_dir():
            load_checkpoint(folder / "rl-0000000", reference)
        else:
            save_checkpoint(folder, Progress("rl", 0), self.model, self.optimiser)
        return reference.eval().requires_grad_(False)

    def _save_wreck(self, error: DivergedError) -> None:
        """Keep what there is when a loss was not finite, and say where."""
        place = save_checkpoint(self.folder / "diverged", self.progress, self.model, self.optimiser)
        report = {"error": str(error), "phase": self.progress.phase, "done": self.progress.done,
                  "trajectories": error.trajectories}  # fmt: skip
        with atomic_writer(self.folder / "diverged" / "report.json") as stream:
            stream.write(json.dumps(report, indent=1) + "\n")
        self.journal.say(f"stopped after {self.progress.folder}: {error}; the state before it is in {place}")

    def _log(
        self,
        iteration: int,
        groups: Sequence[Group],
        credits_: Sequence[Credit],
        report: Report,
        discarded: int,
        graph: dict[str, float],
        stats: dict[str, float],
        seconds: dict[str, float],
    ) -> None:
        episodes = [t for group in groups for t in group.trajectories]
        turns = [turn for t in episodes for turn in t.turns]
        numbers = {
            "episodes": len(episodes),
            "turns": len(turns),
            "success": float(np.mean([t.success for t in episodes])),
            "return": float(np.mean([t.episode_return for t in episodes])),
            "invalid_share": float(np.mean([not turn.valid for turn in turns])) if turns else 0.0,
            "groups_with_success": float(np.mean([any(t.success for t in group.trajectories) for group in groups])),
            "groups_discarded": discarded,
            "groups_lost": report.lost_groups,
            "env_errors": len(report.errors),
            "step_credit_share": step_share(credits_),
            "prompt_tokens": report.prompt_tokens,
            "answer_tokens": report.answer_tokens,
        }
        for name, value in seconds.items():
            numbers[f"seconds_{name}"] = value
        numbers["seconds"] = sum(seconds.values())
        self.journal.write("rl", iteration + 1, "iteration", numbers | graph | stats)
        self.journal.say(
            f"iteration {iteration + 1}/{self.settings.update.iterations}: success {numbers['success']:.3f} "
            f"invalid {numbers['invalid_share']:.3f} entropy {stats.get('entropy', float('nan')):.3f} "
            f"step credit {numbers['step_credit_share']:.2f} "
            f"mismatch {stats.get('mismatch_max', float('nan')):.1e} | {numbers['seconds']:.2f} s "
            f"({', '.join(f'{name} {value:.2f}' for name, value in seconds.items())})"
        )
        if report.errors:
            self.journal.say(f"  {len(report.errors)} environment errors, the first: {report.errors[0]}")


def _distinct(tasks: Sequence[Task]) -> list[Task]:
    """Tasks without repetition: a group per task and iteration (a pool smaller than the batch gives fewer groups)."""
    return list({task.task_id: task for task in tasks}.values())


def _aligned(scored: Scored, before: Sequence[Any], after: Sequence[Any]) -> Scored:
    """Scores of all model tokens, cut down to those that the scheme left in the loss."""
    if not before or (scored.old is None and scored.reference is None):
        return scored
    place = {(row.trajectory, row.only_turn): i for i, row in enumerate(before)}

    def cut(parts: list[Any] | None) -> list[Any] | None:
        if parts is None:
            return None
        out = []
        for row in after:
            i = place[row.trajectory, row.only_turn]
            out.append(parts[i][np.searchsorted(before[i].target, row.target)])
        return out

    return Scored(cut(scored.old), cut(scored.reference))


def _graph_numbers(groups: Sequence[Group]) -> dict[str, float]:
    """Means over groups of what the papers report about their graphs, and unique / total states."""
    statistics = [StateGraph.from_group(group).statistics() for group in groups if group.turns]
    if not statistics:
        return {}
    turns = sum(s.turns for s in statistics)
    return {
        "graph_nodes": float(np.mean([s.nodes for s in statistics])),
        "graph_edges": float(np.mean([s.edges for s in statistics])),
        "unique_states": sum(s.unique_states for s in statistics) / max(turns, 1),
    }


def _stopwatch(seconds: dict[str, float], device: Any) -> Callable[[str], Any]:
    @contextmanager
    def timed(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds[name] = time.perf_counter() - began

    return timed

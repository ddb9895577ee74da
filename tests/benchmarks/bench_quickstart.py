"""The claim of the quickstart: held-out success after RL minus that after SFT, compared with more SFT of equal compute.

Per seed: one SFT phase; from its weights (a) RL as configured, (b) SFT continues for as many CPU seconds as (a) used, with a
new cosine schedule, on the same demonstrations and as many new ones on further training tasks. All three policies are
evaluated on every task of the final panel with the same random numbers. Differences are paired by seed and by task; the 95 %
intervals are Student's t over seeds, and over tasks.

  python tests/benchmarks/bench_quickstart.py --config train/configs/quickstart.yaml --out tests/evidence/quickstart.json

The results so far are written after every seed, so that an interrupted run still leaves results.
"""

from __future__ import annotations

import copy
import json
import math
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.train.commands.arguments.parser import CommandParser
from creditflow.train.statistics import t_quantile


def bound(differences: Sequence[float]) -> dict[str, float]:
    """Mean and 95 % t-interval over seeds; infinite for one seed."""
    n, mean = len(differences), float(np.mean(differences))
    half = t_quantile(n - 1) * float(np.std(differences, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return {"mean": mean, "low": mean - half, "high": mean + half, "seeds": n}


def over_tasks(differences: Sequence[np.ndarray[Any, Any]]) -> dict[str, float]:
    """Mean over seeds and tasks with a 95 % interval over tasks (seeds averaged within each)."""
    per_task = np.mean(differences, axis=0)
    half = 1.96 * float(per_task.std(ddof=1)) / math.sqrt(len(per_task))
    mean = float(per_task.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half, "tasks": len(per_task)}


def one_seed(settings: Any) -> dict[str, Any]:
    """Train and evaluate the three policies of one seed."""
    from creditflow.train.rollout.evaluation import Evaluation, evaluate
    from creditflow.train.run.assemble import make_policy_agent, panel_tasks
    from creditflow.train.trainer import Trainer

    class Instrumented(Trainer):
        """Keeps the weights after SFT, and the CPU seconds of SFT steps and iterations."""

        def _run_sft(self) -> None:
            began = time.process_time()
            super()._run_sft()
            self.cpu_step = (time.process_time() - began) / settings.sft.steps

        def _start_rl(self) -> None:
            super()._start_rl()
            self.warm = copy.deepcopy(self.model.state_dict())
            self.cpu_iterations = 0.0

        def _train_iteration(self, iteration: int) -> None:
            began = time.process_time()
            super()._train_iteration(iteration)
            self.cpu_iterations += time.process_time() - began

    began = time.process_time()
    run = Instrumented(settings)
    run.run()
    cpu_total = time.process_time() - began
    tasks = panel_tasks(settings.env, settings.evaluation.final_panel)

    def assess(name: str) -> Evaluation:
        run.backend.sync(name)
        greedy = make_policy_agent(settings, run.backend, run.tokenizer, temperature=0.0)
        sampled = make_policy_agent(settings, run.backend, run.tokenizer, temperature=settings.evaluation.temperature)
        result = evaluate(run.eval_engine, greedy, sampled, tasks, samples=settings.evaluation.samples, seed=99)
        print(f"seed {settings.seed} {name}: {result.line()}", flush=True)
        return result

    after_rl = assess("after RL")
    run.model.load_state_dict(run.warm)
    after_sft = assess("after SFT")
    steps, spent = _more_sft(run, settings)
    control = assess("after SFT with the same extra compute")
    return {
        "seed": settings.seed,
        "cpu_seconds": {"run": cpu_total, "iterations": run.cpu_iterations, "control": spent},
        "control_steps": steps,
        **{
            name: result.summary() | {"per_task": (result.sampled / result.samples).tolist(),
                                      "greedy_per_task": result.greedy.astype(int).tolist()}
            for name, result in (("sft", after_sft), ("rl", after_rl), ("control", control))
        },
    }  # fmt: skip


def _more_sft(run: Any, settings: Any) -> tuple[int, float]:
    """Train on twice as many demonstrations for as many CPU seconds as RL took; returns steps and CPU seconds."""
    from creditflow.train.policy.optimizer import make_optimizer
    from creditflow.train.policy.sft import demonstrations, run_sft, sft_plan, sft_rows

    began = time.process_time()
    twice = replace(settings, sft=replace(settings.sft, episodes=2 * settings.sft.episodes))
    rows = sft_rows(demonstrations(twice, run.tokenizer, run.tasks, run.ends), settings.sft.observation_weight)
    left = run.cpu_iterations - (time.process_time() - began)
    steps = max(1, int(left / run.cpu_step))
    plan = sft_plan(rows, steps, settings.sft.batch_tokens, settings.seed + 1000)
    optimizer = make_optimizer(run.model, settings.sft.optimizer)
    for _ in run_sft(run.model, optimizer, rows, plan, 0, settings):
        pass
    return steps, time.process_time() - began


def compare(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Paired differences over the seeds that have finished."""
    out: dict[str, Any] = {}
    for name, a, b in (
        ("rl - sft", "rl", "sft"),
        ("control - sft", "control", "sft"),
        ("rl - control", "rl", "control"),
    ):
        for kind, per_task in (("sampled", "per_task"), ("greedy", "greedy_per_task")):
            gaps = [np.array(s[a][per_task], float) - np.array(s[b][per_task], float) for s in seeds]
            out[f"{name}, {kind}"] = {
                "over_seeds": bound([float(gap.mean()) for gap in gaps]),
                "over_tasks": over_tasks(gaps),
            }
    return out


def main() -> int:
    """Run the comparison."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--config", default="train/configs/quickstart.yaml", help="settings of the run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of training (default 0 1 2)")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="change a setting; may be repeated")
    parser.add_argument("--out", default="tests/evidence/quickstart.json", help="JSON file to write")
    args = parser.parse_args()
    import torch
    import transformers

    from creditflow.train.settings.schema import load_settings

    done: list[dict[str, Any]] = []
    for seed in args.seeds:
        with tempfile.TemporaryDirectory() as folder:
            done.append(one_seed(load_settings(args.config, (*args.set, f"seed={seed}", f"out={folder}/run"))))
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        evidence = {
            "what": "held-out success: RL, SFT, and SFT with the same extra compute, paired by seed and task",
            "command": " ".join(sys.argv),
            "commit": commit,
            "machine": {"cpu": platform.processor() or platform.machine(), "threads": torch.get_num_threads()},
            "versions": {"python": platform.python_version(), "torch": torch.__version__,
                         "transformers": transformers.__version__, "numpy": np.__version__},
            "overrides": args.set,
            "differences": compare(done),
            "seeds": done,
        }  # fmt: skip
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(args.out + ".tmp")
        temporary.write_text(json.dumps(evidence, indent=1) + "\n", encoding="ascii")
        temporary.replace(args.out)
        for name, gap in compare(done).items():
            s, t = gap["over_seeds"], gap["over_tasks"]
            print(f"{name}: {s['mean']:+.3f} [{s['low']:+.3f}, {s['high']:+.3f}] over {s['seeds']} seeds, "
                  f"[{t['low']:+.3f}, {t['high']:+.3f}] over {t['tasks']} tasks", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())

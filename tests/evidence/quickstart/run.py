"""What reinforcement learning adds in the quickstart, beyond a temperature and beyond more imitation; judged exactly.

  python tests/evidence/quickstart/run.py [--seeds 0 1 2 3] [--out tests/evidence/quickstart]

Per seed: SFT on the few demonstrations of the configuration (``start``); from its weights

* ``rl``: reinforcement learning as configured;
* ``same``: SFT goes on with the same demonstrations, for at least as many CPU seconds as reinforcement learning used, and in a
  second, short run of 800 steps, because so few demonstrations are soon learnt by heart;
* ``unlimited``: SFT goes on with new demonstrations of the same expert (``--unlimited`` episodes), for as long; 0 leaves out this and the short run.

Success is exact as in ``creditflow eval --exact`` (up to ``TOLERANCE``), so it has no sampling noise. ``rl`` is judged after its last iteration, greedily and at
temperature 1, as it was trained. Its rivals may choose on the valid split: a checkpoint (their start included) and a temperature of
``TEMPERATURES`` for sampling, and a checkpoint for greedy decoding. Everything is then judged on all tasks of the final panel.
Differences are paired by seed and task; intervals are 95 % over both (two-way clustered), p-values adjusted by Holm.

The results so far are written after every seed, so that an interrupted run still leaves results.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.bench.report.figures import COLOURS, new_figure, require_plots, save_figure, tidy
from creditflow.train.statistics import contrasts_of, crossed_mean

CONFIG: Final = "train/configs/quickstart.yaml"
TEMPERATURES: Final = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
HEADROOM: Final = 1.7  # of the steps of more SFT, whose speed is only known from the start
SHORT: Final = (100, 200, 400, 800)  # checkpoints of the short run, in steps; the last is its length
POINTS: Final = 3  # checkpoints of every curve after its start
VALID_TASKS: Final = 32  # of the valid split, evenly spaced
# largest probability per turn that may be left out and counts as invalid
TOLERANCE: Final = {"valid": 1e-3, "test": 1e-4}
RIVALS: Final = ("start", "same", "unlimited")
PLANNED: Final = {f"rl - {rival}, {kind}": ("rl", rival, kind) for rival in RIVALS for kind in ("sampled", "greedy")}


class Judge:
    """Exact success of a run's present weights on a panel, by task."""

    def __init__(self, run: Any, panel: str, tolerance: float, limit: int = 0) -> None:
        import creditflow
        from creditflow.train.bench.language_model.policy import ExactPolicy
        from creditflow.train.bench.language_model.tables import prompt_table
        from creditflow.train.rollout.tasks import panel_tasks
        from creditflow.train.run.assemble import make_policy_agent

        settings = run.settings
        env: Any = creditflow.make(settings.env.name, **settings.env.options).unwrapped
        agent = make_policy_agent(settings, run.backend, run.tokenizer, temperature=1.0)
        tasks = panel_tasks(settings.env, panel)
        places = np.linspace(0, len(tasks) - 1, limit or len(tasks)).round().astype(int)
        self.tables = [prompt_table(agent, env, tasks[i]) for i in places]
        self.policy = ExactPolicy.of_agent(agent, run.tokenizer, env, self.tables[0].actions, tolerance=tolerance)

    def success(self, temperature: float) -> np.ndarray[Any, Any]:
        """float64 (tasks,); temperature 0 is greedy."""
        from creditflow.train.bench.language_model.evaluate import table_values

        rows = self.policy.probabilities(self.tables, temperature)
        return np.array([table_values(t.mdp, row).success for t, row in zip(self.tables, rows, strict=True)])

    def point(self, cpu_seconds: float, temperatures: Sequence[float]) -> dict[str, Any]:
        """Mean success of a checkpoint after so many CPU seconds."""
        return {
            "cpu_seconds": round(cpu_seconds, 1),
            "greedy": float(self.success(0.0).mean()),
            "sampled": {f"{t:g}": float(self.success(t).mean()) for t in temperatures},
        }


def one_seed(settings: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Train and judge the policies of one seed."""
    from creditflow.train.trainer import Trainer

    panels = settings.evaluation

    class Measured(Trainer):
        """Keeps the weights after SFT, CPU seconds, and a curve on the valid split."""

        def _run_sft(self) -> None:
            began = time.process_time()
            super()._run_sft()
            self.sft_seconds = time.process_time() - began

        def _start_rl(self) -> None:
            super()._start_rl()
            self.warm = copy.deepcopy(self.model.state_dict())
            self.rl_seconds, self.valid = 0.0, Judge(self, panels.panel, TOLERANCE["valid"], args.valid)
            self.start = self.valid.point(0.0, TEMPERATURES)
            self.curve = [self.start]

        def _train_iteration(self, iteration: int) -> None:
            began = time.process_time()
            super()._train_iteration(iteration)
            self.rl_seconds += time.process_time() - began
            if (iteration + 1) * POINTS % settings.update.iterations < POINTS:
                self.curve.append(self.valid.point(self.rl_seconds, (1.0,)))

    run = Measured(replace(settings, evaluation=replace(panels, panel="", final_panel="")))  # no sampled evaluation
    run.run()
    test = Judge(run, panels.final_panel, TOLERANCE["test"], args.test)
    arms: dict[str, dict[str, Any]] = {"rl": {"cpu_seconds": run.rl_seconds, "curve": run.curve, "temperature": 1.0,
                   "sampled": test.success(1.0), "greedy": test.success(0.0)}}  # fmt: skip
    start = _best(run, [(run.start, run.warm)], test, {})
    arms["start"] = {"cpu_seconds": run.sft_seconds, "curve": [run.start]} | start
    rivals = {"same": settings.sft.episodes} | ({"unlimited": args.unlimited} if args.unlimited else {})
    for name, episodes in rivals.items():
        steps, spent, points = _imitate_on(run, episodes, args.headroom)
        points.insert(0, (run.start, run.warm))
        arms[name] = {"cpu_seconds": spent, "steps": steps, "curve": [point for point, _ in points]}
        if name == "same" and args.unlimited:
            short = _imitate_on(run, episodes, args.headroom, SHORT)[2]
            arms[name]["short"] = [point for point, _ in short]
            points += short
        arms[name] |= _best(run, points, test, start)
    for name, arm in arms.items():
        arm["sampled"], arm["greedy"] = (np.round(arm[kind], 5).tolist() for kind in ("sampled", "greedy"))
        print(f"seed {settings.seed} {name}: greedy {np.mean(arm['greedy']):.4f}, sampled at {arm['temperature']:g} "
              f"{np.mean(arm['sampled']):.4f}, {arm['cpu_seconds']:.0f} CPU s", flush=True)  # fmt: skip
    return {"seed": settings.seed, "states": sum(table.mdp.size for table in test.tables), "arms": arms}


def _imitate_on(
    run: Any, episodes: int, headroom: float, marks: Sequence[int] = ()
) -> tuple[int, float, list[tuple[dict[str, Any], Any]]]:
    """SFT from the start on so many demonstrations: steps, CPU seconds, and checkpoints with their points.

    It takes at least as many CPU seconds as RL took, or ends with the last of ``marks``, the steps of the checkpoints.
    """
    from creditflow.train.policy.optimizer import make_optimizer
    from creditflow.train.policy.sft import demonstrations, run_sft, sft_plan, sft_rows

    settings, began = run.settings, time.process_time()
    more = replace(settings, sft=replace(settings.sft, episodes=episodes))
    rows = sft_rows(demonstrations(more, run.tokenizer, run.tasks, run.ends), settings.sft.observation_weight)
    spent = time.process_time() - began
    if not marks:
        steps = max(POINTS, round(headroom * run.rl_seconds / run.sft_seconds * settings.sft.steps))
        marks = [round(steps * k / POINTS) for k in range(1, POINTS + 1)]
    plan = sft_plan(rows, marks[-1], settings.sft.batch_tokens, settings.seed + 1000)
    run.model.load_state_dict(run.warm)
    optimizer = make_optimizer(run.model, settings.sft.optimizer)
    points = list[tuple[dict[str, Any], Any]]()
    began = time.process_time()
    for step, _ in run_sft(run.model, optimizer, rows, plan, 0, settings):
        if step in marks:
            spent += time.process_time() - began
            points.append((run.valid.point(spent, TEMPERATURES), copy.deepcopy(run.model.state_dict())))
            began = time.process_time()
    return marks[-1], spent, points


def _best(run: Any, points: Sequence[tuple[dict[str, Any], Any]], test: Judge, start: dict[str, Any]) -> dict[str, Any]:
    """Choose checkpoint and temperature on the valid split, and judge the choice; that of the start is known already."""
    numbers = range(len(points))
    place, temperature = max(
        ((i, t) for i in numbers for t in TEMPERATURES), key=lambda it: points[it[0]][0]["sampled"][f"{it[1]:g}"]
    )
    greedy_place = max(numbers, key=lambda i: points[i][0]["greedy"])
    chosen: dict[str, Any] = {
        "temperature": temperature,
        "sampled_checkpoint": place,
        "greedy_checkpoint": greedy_place,
    }
    for kind, at, degree in (("sampled", place, temperature), ("greedy", greedy_place, 0.0)):
        if at == 0 and start:
            chosen[kind] = start[kind]
            continue
        run.model.load_state_dict(points[at][1])
        chosen[kind] = test.success(degree)
    return chosen


def compare(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Planned differences on the final panel, over the seeds that have finished."""
    means = {}
    for name, (one, other, kind) in ((name, it) for name, it in PLANNED.items() if it[1] in seeds[0]["arms"]):
        gaps = [np.subtract(seed["arms"][one][kind], seed["arms"][other][kind]) for seed in seeds]
        means[name] = crossed_mean(gaps)
    return {
        name: {
            "mean": round(contrast.difference.mean, 4),
            "low": round(contrast.difference.interval.low, 4),
            "high": round(contrast.difference.interval.high, 4),
            "p_adjusted": float(f"{contrast.p_adjusted:.2g}"),
        }
        for name, contrast in contrasts_of(means).items()
    }


def figure(seeds: Sequence[dict[str, Any]], path: Path) -> None:
    """Curves on the valid split: mean over seeds against CPU seconds after the start."""
    drawing = new_figure(9.0, 3.4)
    labels = {
        "rl": "reinforcement learning",
        "same": "more SFT, same demonstrations",
        "unlimited": "more SFT, new demonstrations",
    }
    for place, kind in enumerate(("greedy", "sampled")):
        axes = drawing.add_subplot(1, 2, place + 1)
        for colour, (name, label) in zip(COLOURS, labels.items(), strict=False):
            curves = [seed["arms"][name]["curve"] for seed in seeds if name in seed["arms"]]
            if not curves:
                continue
            times = np.mean([[point["cpu_seconds"] for point in curve] for curve in curves], axis=0)
            values = np.array([[_shown(point, kind, name) for point in curve] for curve in curves])
            axes.plot(times, values.mean(axis=0), color=colour, marker="o", label=label)
            axes.fill_between(times, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15)
        axes.set_title("greedy" if kind == "greedy" else "sampled: RL at T = 1, SFT at its best T")
        axes.set_xlabel("CPU seconds after the start")
        axes.set_ylabel("success on held-out levels (valid)")
        tidy(axes)
    axes.legend(frameon=False, fontsize=8)
    save_figure(drawing, path)


def _shown(point: dict[str, Any], kind: str, arm: str) -> float:
    """Greedy success, or sampled: of RL at temperature 1, of its rivals at their best."""
    if kind == "greedy":
        return float(point["greedy"])
    return float(point["sampled"]["1"] if arm == "rl" else max(point["sampled"].values()))


def main() -> int:
    """Run the comparison."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--config", default=CONFIG, help="settings of the run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3], help="seeds of training (default 0 to 3)")
    for name, default, text in (
        ("unlimited", 3000, "demonstrations of the unlimited expert; 0: without it"),
        ("valid", VALID_TASKS, "tasks of the valid split"),
        ("test", 0, "tasks of the final panel; 0: all"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})")
    parser.add_argument("--headroom", type=float, default=HEADROOM, help=f"see HEADROOM (default {HEADROOM})")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="change a setting; may be repeated")
    parser.add_argument("--out", default="tests/evidence/quickstart", help="folder of the results and the figure")
    parser.add_argument(
        "--figure", choices=("yes", "no", "only"), default="yes", help="draw it, or only that of stored results"
    )
    args = parser.parse_args()
    out = Path(args.out)
    if args.figure != "no":
        require_plots()
    stem = Path(args.config).stem
    if args.figure != "only":
        experiment(args, out / f"{stem}.json")
    evidence = json.loads((out / f"{stem}.json").read_text(encoding="ascii"))
    if args.figure != "no":
        figure(evidence["seeds"], out / f"{stem}.png")
    print(json.dumps(evidence["differences"], indent=1))
    return 0


def experiment(args: argparse.Namespace, out: Path) -> None:
    """Run all seeds and write the results."""
    import torch
    import transformers

    from creditflow.train.settings.schema import load_settings

    done = list[dict[str, Any]]()
    out.parent.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    for seed in args.seeds:
        with tempfile.TemporaryDirectory() as folder:
            settings = load_settings(args.config, (*args.set, f"seed={seed}", f"out={folder}/run"))
            done.append(one_seed(settings, args))
        evidence = {
            "command": f"python tests/evidence/quickstart/run.py {' '.join(sys.argv[1:])}".strip(),
            "commit": commit,
            "config_sha256": sha256(Path(args.config).read_bytes()).hexdigest(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__,
                         "transformers": transformers.__version__, "numpy": np.__version__},
            "differences": compare(done),
            "seeds": done,
        }  # fmt: skip
        with atomic_writer(out) as stream:
            stream.write(json.dumps(evidence) + "\n")


if __name__ == "__main__":
    sys.exit(main())

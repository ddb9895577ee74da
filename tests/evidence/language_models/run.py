"""Which credit scheme do small language models learn best from? Writes ``results.json`` into a folder.

  python tests/evidence/language_models/run.py --out DIR [--seed N] [--workers N] [--device cuda] [--resume]

Warm-ups, then learning from them with every method, then floors: the success that is reached without reinforcement learning, by
more imitation or by a lower sampling temperature.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.language_models.setting import Setting, open_setting, parameters_text, save_parameters
from evidence.language_models.training import assess, demonstrated_states, imitate, reinforce
from evidence.language_models.work import WORK, LanguageModelWork, WarmUpWork

from creditflow.train.bench.document import RunOptions, measure_once
from creditflow.train.bench.jobs import Job, JobRunner

__all__ = ["TEMPERATURES", "floors", "learn", "measure_families", "more_imitation", "warm_up"]

BASELINE: Final = "grpo"
TEMPERATURES: Final = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
BISECTIONS: Final = 12


def measure_families(work: LanguageModelWork, seed: int, device: str, runner: JobRunner) -> dict[str, Any]:
    """Run all jobs; the results by family. Every training run has a seed of its own, from ``seed`` on."""
    cells = [(family, seed + s) for family in work.families for s in range(work.seeds)]
    starts = runner.run([Job(f"{f}/{s}/warm-up", warm_up, (f, s, work, device)) for f, s in cells], "warm-up")
    parameters = {(f, s): starts[f"{f}/{s}/warm-up"].pop("parameters") for f, s in cells}
    curves = runner.run(
        [
            Job(f"{f}/{s}/{name}", learn, (f, s, name, work, device, parameters[f, s]))
            for f, s in cells
            for name in work.methods
        ],
        "learning",
    )
    last_jobs = []
    for f, s in cells:
        ends = {name: curves[f"{f}/{s}/{name}"][-1] for name in work.methods}
        tokens = max(end["tokens"] for end in ends.values())
        entropies = {name: ends[name]["train"]["entropy"] for name in (BASELINE, "oracle_adv")}
        last_jobs.append(Job(f"{f}/{s}/floors", floors, (f, s, work, device, parameters[f, s], tokens, entropies)))
    reached = runner.run(last_jobs, "floors")
    seeds = range(seed, seed + work.seeds)
    return {
        f: {
            "start": [starts[f"{f}/{s}/warm-up"] for s in seeds],
            "runs": {name: [curves[f"{f}/{s}/{name}"] for s in seeds] for name in work.methods},
            "floors": [reached[f"{f}/{s}/floors"] for s in seeds],
        }
        for f in work.families
    }


# -- the jobs, each a pure function of plain arguments ------------------------------------------------------------------------
def warm_up(family: str, seed: int, work: LanguageModelWork, device: str, file: str = "") -> dict[str, Any]:
    """The warm-up from which all methods of a seed start: its ``parameters``, evaluations, loss, and ``tokens`` processed.

    Args:
        family, seed, work, device: as for ``open_setting``.
        file: path to write the parameters to, whose name the result then has in their place.
    """
    setting, size = open_setting(family, work, seed, device), work.warm_up[family]
    policy, rng = setting.policy, np.random.default_rng([seed, 1])
    visited = demonstrated_states(setting.pool, size.episodes, size.noise, rng)

    def enough() -> bool:
        evaluated = assess(setting.evaluated_policies()["train"])
        policy.model.train()
        return float(np.mean(evaluated["sampled"])) >= size.until

    loss = imitate(policy, visited, size, size.steps, rng, enough=enough if size.until else None)
    evaluated = {name: assess(of_set) for name, of_set in setting.evaluated_policies().items()}
    if file:
        save_parameters(setting.model, Path(file))
    parameters = Path(file).name if file else parameters_text(setting.model)
    return {"parameters": parameters, "loss": loss, "tokens": policy.tokens, **evaluated}


def learn(
    family: str, seed: int, method: str, work: LanguageModelWork, device: str, parameters: str
) -> list[dict[str, Any]]:
    """The learning curve of one method from the warm-up of its seed."""
    setting = open_setting(family, work, seed, device, parameters)
    return reinforce(setting, method, work.learning, seed)


def floors(
    family: str,
    seed: int,
    work: LanguageModelWork,
    device: str,
    parameters: str,
    tokens: int,
    entropies: Mapping[str, float],
) -> dict[str, Any]:
    """The floors of a seed: more imitation with as many tokens as reinforcement learning, and lower temperatures."""
    setting = open_setting(family, work, seed, device, parameters)
    samplers = sharper_samplers(setting, entropies)
    return {"imitation": more_imitation(setting, work.warm_up[family], tokens, seed), **samplers}


def more_imitation(setting: Setting, work: WarmUpWork, tokens: int, seed: int) -> dict[str, Any]:
    """Continue the warm-up on newly sampled demonstrations until it has processed as many tokens as reinforcement learning.

    Both variants start from the warm-up: one imitates the same noisy expert, the other an expert without noise, so that the
    model learns the best actions and not the mixture that it started with.

    Args:
        setting: the family with the warm-up's model.
        work: sizes of the warm-up.
        tokens: number of tokens that reinforcement learning processed.
        seed: seed of the demonstrations.

    Returns:
        By variant (``same``, with the noise of the warm-up; ``clean``, without noise) the evaluations of ``assess`` by set of
        tasks, and the number of ``steps``.
    """
    rng = np.random.default_rng([seed, 21])
    start = {name: value.detach().clone() for name, value in setting.model.state_dict().items()}
    result: dict[str, Any] = {}
    for name, noise in (("same", work.noise), ("clean", 0.0)):
        setting.model.load_state_dict(start)
        visited = demonstrated_states(setting.pool, work.episodes, work.noise, rng)
        policy = setting.policy
        per_step = (
            3.0 * work.batch * float(np.mean([len(policy.tasks[task].prompts[state]) for task, state in visited]))
        )
        steps = max(round(tokens / per_step), 1)
        longer = WarmUpWork(work.episodes, noise, steps, work.batch, work.lr)
        imitate(policy, visited, longer, steps, rng)
        result[name] = {key: assess(evaluated) for key, evaluated in setting.evaluated_policies().items()} | {
            "steps": steps
        }
    setting.model.load_state_dict(start)
    return result


def sharper_samplers(setting: Setting, entropies: Mapping[str, float]) -> dict[str, Any]:
    """Evaluate the warm-up's model at other sampling temperatures.

    Args:
        setting: the family with the warm-up's model.
        entropies: by method, entropy (nats) per turn of the trained policy on the evaluated training tasks.

    Returns:
        Evaluations of ``assess`` with their ``temperature``: ``best``, of the temperature in ``TEMPERATURES`` with the highest
        success on the evaluated training tasks; ``matched``, by method, of the temperature that gives the method's entropy.
    """

    def evaluate(temperature: float) -> dict[str, Any]:
        sets = setting.evaluated_policies(temperature)
        return {name: assess(policy) for name, policy in sets.items()} | {"temperature": temperature}

    grid = [evaluate(temperature) for temperature in TEMPERATURES]
    best = max(grid, key=lambda one: float(np.mean(one["train"]["sampled"])))
    matched = {name: evaluate(_temperature_of(setting, entropy)) for name, entropy in entropies.items()}
    return {"best": best, "matched": matched}


def _temperature_of(setting: Setting, entropy: float) -> float:
    """The temperature in [0.05, 1] at which the model has this entropy per turn on the evaluated training tasks."""
    low, high = 0.05, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if assess(setting.evaluated_policies(middle)["train"])["entropy"] < entropy:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def main() -> int:
    """Run the study, or go on with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder")
    parser.add_argument("--seed", type=int, default=201, help="of the tasks, and of the first training run")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    arguments = parser.parse_args()
    work = replace(WORK, task_seed=arguments.seed)

    def measure(runner: JobRunner) -> dict[str, Any]:
        return {"language_models": {"families": measure_families(work, arguments.seed, arguments.device, runner)}}

    arguments.out.mkdir(parents=True, exist_ok=True)
    options = RunOptions(arguments.out, arguments.workers, tuple(sys.argv), arguments.resume)
    identity = {"preset": "lm", "amounts": asdict(work), "seed": arguments.seed, "device": arguments.device}
    measure_once(measure, options, identity)
    return 0


if __name__ == "__main__":
    sys.exit(main())

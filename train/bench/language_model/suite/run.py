"""One run of the suite ``lm``: warm-ups, then learning and one-step metrics, then floors, then one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.train.bench.document import RunOptions, measure_once
from creditflow.train.bench.jobs import Job, JobRunner
from creditflow.train.bench.language_model.suite.floors import more_imitation, sharper_samplers
from creditflow.train.bench.language_model.suite.learning import assess, reinforce
from creditflow.train.bench.language_model.suite.one_step import measure_one_step
from creditflow.train.bench.language_model.suite.setting import FILE, open_setting, parameters_text, save_parameters
from creditflow.train.bench.language_model.suite.warmup import demonstrated_states, imitate
from creditflow.train.bench.language_model.suite.work import LM_PRESETS, LanguageModelWork
from creditflow.train.bench.methods import is_control, settings_of

__all__ = ["BASELINE", "floors", "learn", "one_step", "run_language_models", "warm_up"]

BASELINE: Final = "grpo"


def run_language_models(
    preset: str,
    options: RunOptions,
    *,
    seed: int,
    methods: Sequence[str] = (),
    device: str = "cpu",
) -> dict[str, Any]:
    """Run the suite and write ``results.json`` into the output folder.

    Args:
        preset: name of a preset in ``LM_PRESETS``.
        options: how the run is executed.
        seed: seed of the tasks, and of the first training run; every training run has its own.
        methods: schemes that train a model, instead of the preset's; its controls and the baseline are always included.
        device: device of the models.

    Returns:
        The document: plain JSON values.

    Raises:
        OtherRunError: the run to be resumed has other settings or was made by other code.
    """
    work = replace(_chosen(LM_PRESETS[preset], methods), task_seed=seed)

    def measure(runner: JobRunner) -> dict[str, Any]:
        return {
            "language_models": {
                "preset": preset,
                "baseline": BASELINE,
                "settings": settings_of([name for name in work.methods if not is_control(name)]),
                "families": _families(work, seed, device, runner),
            }
        }

    identity = {"preset": preset, "amounts": work.to_json(), "seed": seed, "device": device}
    return measure_once(measure, options, identity)


def _chosen(work: LanguageModelWork, methods: Sequence[str]) -> LanguageModelWork:
    if not methods:
        return work
    controls = [name for name in work.methods if is_control(name)]
    return replace(work, methods=tuple(dict.fromkeys([BASELINE, *methods, *controls])))


def _families(work: LanguageModelWork, seed: int, device: str, runner: JobRunner) -> dict[str, Any]:
    """Run all jobs; the results by family."""
    cells = [(family, seed + s) for family in work.families for s in range(work.seeds)]
    files = {cell: runner.folder / f"start-{cell[0]}-{cell[1]}{FILE}" for cell in cells}  # large networks alone
    starts = runner.run(
        [
            Job(
                f"lm/{family}/{s}/warm-up",
                warm_up,
                (family, s, work, device, *([str(files[family, s])] if work.size else [])),
            )
            for family, s in cells
        ],
        "lm: warm-up",
    )
    parameters = {
        cell: str(files[cell]) if work.size else starts[f"lm/{cell[0]}/{cell[1]}/warm-up"]["parameters"]
        for cell in cells
    }
    measured = [cell for cell in cells if cell[1] < seed + work.one_step.seeds]
    methods = (*work.methods, *work.controls)
    second = [
        Job(f"lm/{family}/{s}/one-step", one_step, (family, s, methods, work, device, parameters[family, s]))
        for family, s in measured
    ] + [
        Job(f"lm/{family}/{s}/learn/{name}", learn, (family, s, name, work, device, parameters[family, s]))
        for family, s in cells
        for name in work.methods
    ]
    learned = runner.run(second, "lm: learning")
    third = []
    for family, s in cells:
        curves = {name: learned[f"lm/{family}/{s}/learn/{name}"] for name in work.methods}
        tokens = max(curve[-1]["tokens"] for curve in curves.values())
        entropies = {BASELINE: curves[BASELINE][-1]["train"]["entropy"]}
        if "oracle_adv" in curves:
            entropies["oracle_adv"] = curves["oracle_adv"][-1]["train"]["entropy"]
        third.append(
            Job(
                f"lm/{family}/{s}/floors",
                floors,
                (family, s, work, device, parameters[family, s], tokens, entropies),
            )
        )
    reached = runner.run(third, "lm: floors")
    return {
        family: {
            "start": [_without_parameters(start) for start in _of_family(starts, family, "warm-up")],
            "runs": {name: _of_family(learned, family, f"learn/{name}") for name in work.methods},
            "floors": _of_family(reached, family, "floors"),
            "one_step": _of_family(learned, family, "one-step"),
        }
        for family in work.families
    }


def _of_family(results: Mapping[str, Any], family: str, what: str) -> list[Any]:
    """The results of one kind of job in a family, in the order of the seeds."""
    return [value for name, value in results.items() if name.startswith(f"lm/{family}/") and _what(name) == what]


def _what(name: str) -> str:
    """The part of a job's name after its family and seed."""
    return name.split("/", 3)[3]


def _without_parameters(start: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in start.items() if name != "parameters"}


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


def one_step(
    family: str, seed: int, methods: Sequence[str], work: LanguageModelWork, device: str, parameters: str
) -> dict[str, Any]:
    """M1, M2 and M3 of all methods at the warm-up of a seed."""
    setting = open_setting(family, work, seed, device, parameters)
    return measure_one_step(setting, methods, work.one_step, work.learning, seed)


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

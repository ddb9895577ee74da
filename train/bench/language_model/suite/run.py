"""One run of the suite ``lm``: warm-ups, then learning and one-step metrics, then floors, then one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from creditflow.train.bench.document import RunOptions, measure_once
from creditflow.train.bench.jobs import Job, JobRunner
from creditflow.train.bench.language_model.suite import jobs
from creditflow.train.bench.language_model.suite.setting import FILE
from creditflow.train.bench.language_model.suite.work import LM_PRESETS, LanguageModelWork
from creditflow.train.bench.methods import is_control, settings_of

__all__ = ["BASELINE", "run_language_models"]

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
                jobs.warm_up,
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
        Job(f"lm/{family}/{s}/one-step", jobs.one_step, (family, s, methods, work, device, parameters[family, s]))
        for family, s in measured
    ] + [
        Job(f"lm/{family}/{s}/learn/{name}", jobs.learn, (family, s, name, work, device, parameters[family, s]))
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
                jobs.floors,
                (family, s, work, device, parameters[family, s], tokens, entropies),
            )
        )
    floors = runner.run(third, "lm: floors")
    return {
        family: {
            "start": [_without_parameters(starts[f"lm/{family}/{s}/warm-up"]) for f, s in cells if f == family],
            "runs": {
                name: [learned[f"lm/{family}/{s}/learn/{name}"] for f, s in cells if f == family]
                for name in work.methods
            },
            "floors": [floors[f"lm/{family}/{s}/floors"] for f, s in cells if f == family],
            "one_step": [learned[f"lm/{family}/{s}/one-step"] for f, s in measured if f == family],
        }
        for family in work.families
    }


def _without_parameters(start: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in start.items() if name != "parameters"}

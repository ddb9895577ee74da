"""One run of the suite ``lm``: warm-ups, then learning and one-step metrics, then floors, then one document.

Floors are the success that is reached without reinforcement learning, by more imitation or by a lower sampling temperature.

The one-step metrics M1, M2 and M3 are measured in the model's own parameter space, at the start of learning. Every batch has
the same training tasks, so that rollouts (and the credit computed from them) are the only noise; g is the
gradient of the trainer's loss, g* = ∇J of the mean exact success on these tasks. M2 takes a step of a given KL divergence
along g, and one along the first step of a new Adam, and evaluates the moved model on the batch's tasks and on held-out ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.train.bench.annotation_sources import open_annotation_source
from creditflow.train.bench.document import RunOptions, measure_once
from creditflow.train.bench.jobs import Job, JobRunner
from creditflow.train.bench.language_model.suite.setting import Setting, open_setting, parameters_text, save_parameters
from creditflow.train.bench.language_model.suite.training import (
    assess,
    demonstrated_states,
    imitate,
    prompt_features,
    reinforce,
)
from creditflow.train.bench.language_model.suite.work import (
    LM_PRESETS,
    LanguageModelWork,
    LearningWork,
    OneStepWork,
    WarmUpWork,
)
from creditflow.train.bench.learning.batch import Draw, Sampling, sample_batches
from creditflow.train.bench.learning.one_step import OneStep, Start
from creditflow.train.bench.learning.steps import Search
from creditflow.train.bench.methods import is_control, settings_of
from creditflow.train.settings.update import LossConfig

__all__ = [
    "BASELINE",
    "TEMPERATURES",
    "floors",
    "learn",
    "more_imitation",
    "one_step",
    "run_language_models",
    "warm_up",
]

BASELINE: Final = "grpo"
TEMPERATURES: Final = (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
BISECTIONS: Final = 12
Floats = NDArray[np.float64]
SEARCH = Search(tolerance=0.01, trials=25, first=0.01)


def run_language_models(
    preset: str, options: RunOptions, *, seed: int, methods: Sequence[str] = (), device: str = "cpu"
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
    starts = runner.run(
        [Job(f"lm/{family}/{s}/warm-up", warm_up, (family, s, work, device)) for family, s in cells], "lm: warm-up"
    )
    parameters = {cell: starts[f"lm/{cell[0]}/{cell[1]}/warm-up"]["parameters"] for cell in cells}
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
            Job(f"lm/{family}/{s}/floors", floors, (family, s, work, device, parameters[family, s], tokens, entropies))
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


def measure_one_step(
    setting: Setting, names: Sequence[str], work: OneStepWork, learning: LearningWork, seed: int
) -> dict[str, Any]:
    """M1, M2 and M3 of every method.

    Args:
        setting: a family with the warm-up's model.
        names: names of the methods.
        work: sizes.
        learning: group size and loss aggregation.
        seed: seed of the rollouts, the same for all methods.

    Returns:
        By method ``cos_mean``, ``cos_batch`` (M1), ``bias2``, ``variance`` (M3), and ``sgd`` and ``adam``, the gains of exact
        success on training and held-out tasks (M2, means over batches); the exact gradient's gains as "gradient".
    """
    tasks, held_out = range(work.tasks), range(len(setting.pool), len(setting.pool) + len(setting.held_out))
    policy, mdps = setting.policy, [task.mdp for task in (*setting.pool, *setting.held_out)]
    steps = {"sgd": _as_it_is, "adam": _first_of_adam}
    start = Start(policy, mdps, tasks, held_out, kls=(work.kl,), steps=steps, search=SEARCH)
    measured = {name: OneStep(start, work.steps) for name in names}
    features = prompt_features(setting.pool)
    # fitted to the batches before
    sources = {name: open_annotation_source(name, mdps[0].horizon, "state", features) for name in names}
    # credit has unit scale, as in learning
    sampling = Sampling(work.tasks, learning.size, LossConfig(aggregation=learning.aggregation), together=False)
    for number in range(work.batches):
        rng = np.random.default_rng([seed, 31, number])
        draw = Draw.of(tasks, rng, f"{number}", (seed, 32, number))
        (batch,) = sample_batches(mdps, draw, [policy], sampling)
        for name in names:
            credits_ = batch.credit(name, sources[name], draw.corruption, sampling.key)
            for group in batch.groups:
                sources[name].update(group)
            measured[name].add(batch, credits_, sampling, unit=True)
    results: dict[str, Any] = {"gradient": {kind: start.exact_gains(kind, work.kl).tolist() for kind in steps}}
    for name, one_step in measured.items():
        moments = one_step.moments()
        results[name] = {
            **moments,
            "variance": moments["variance"] if np.isfinite(moments["variance"]) else None,
            **{kind: start.gains(one_step.steps(kind, work.kl)).tolist() for kind in steps},
        }
    return results


def _as_it_is(gradient: Floats) -> Floats:
    return gradient


def _first_of_adam(gradient: Floats) -> Floats:
    """The direction of the first step of a new Adam."""
    return gradient / (np.abs(gradient) + 1e-8)

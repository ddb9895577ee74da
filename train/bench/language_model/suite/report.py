"""Tables of the suite ``lm`` as rows of text, for the terminal and the page. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from creditflow.train.bench.language_model.suite.summary import (
    ENDPOINTS,
    PRIMARY,
    checked_predictions,
    family_contrasts,
    method_means,
    pooled_contrasts,
)
from creditflow.train.bench.methods import is_control
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import Table
from creditflow.train.bench.report.verdicts import contrast_texts
from creditflow.train.statistics import ClusteredMean, Contrast, crossed_mean
from creditflow.train.text_table import text_table

__all__ = ["language_model_conclusions", "language_model_tables", "language_model_text", "learning_title"]


def language_model_text(part: Mapping[str, Any]) -> str:
    """All tables as text."""
    return "\n\n".join(f"{t.title}\n{t.note}\n\n{text_table(t.rows, t.controls)}" for t in language_model_tables(part))


def language_model_tables(part: Mapping[str, Any]) -> list[Table]:
    """The tables of ``document["language_models"]``."""
    families, baseline = part["families"], part["baseline"]
    tables = []
    for name, family in families.items():
        tables += [_learning(name, family), _floors(name, family, baseline)]
        tables += [_one_step(name, family)] if family["one_step"] else []
    for endpoint in PRIMARY:
        tables += [
            _contrasts(f"{name}: {endpoint}", family_contrasts(family, endpoint, baseline), baseline)
            for name, family in families.items()
        ]
        if len(families) > 1:
            title = f"{' and '.join(families)}, equal weights: {endpoint}"
            tables.append(_contrasts(title, pooled_contrasts(families, endpoint, baseline), baseline))
    tables.append(_predictions(families))
    return tables


def learning_title(family: str) -> str:
    """Title of a family's table of learning."""
    return f"{family}: learning"


def _parted(scores: Mapping[str, ClusteredMean]) -> tuple[list[str], list[str]]:
    """Schemes and controls, each with the highest mean first."""
    order = sorted(scores, key=lambda name: (-scores[name].mean, name))
    controls = [name for name in order if is_control(name) or "(" in name]
    return [name for name in order if name not in controls], controls


def _over_seeds(values: Iterable[float]) -> Estimate:
    return Estimate.of(crossed_mean(np.array(list(values), np.float64)[:, None]))


def _learning(name: str, family: Mapping[str, Any]) -> Table:
    means = {endpoint: method_means(family, endpoint) for endpoint in ENDPOINTS}
    rows = [["method", *ENDPOINTS, "entropy, nats per turn", "turns played"]]
    schemes, controls = _parted(means[PRIMARY[0]])
    for method in (*schemes, *controls):
        curves = family["runs"][method]
        cells = [Estimate.of(means[endpoint][method]).short(3) for endpoint in ENDPOINTS]
        entropy = _over_seeds(curve[-1]["train"]["entropy"] for curve in curves)
        turns = _over_seeds(curve[-1]["turns"] for curve in curves)
        rows.append([method, *cells, entropy.short(), turns.short(0)])
    seeds = len(family["start"])
    start = {
        tasks: Estimate.of(crossed_mean([point[tasks]["sampled"] for point in family["start"]]))
        for tasks in ("held_out", "train")
    }
    return Table(
        learning_title(name),
        f"Exact success rate over {seeds} seeds and {len(family['start'][0]['train']['sampled'])} tasks; ± is half the 95 % interval over "
        "seeds and tasks (entropy and turns: over seeds). All methods of a seed start from one warm-up, whose sampled success rate is "
        f"{start['held_out'].short(3)} on held-out and {start['train'].short(3)} on training tasks. Area: mean under the curve over "
        "updates; final: after the last one, with sampled actions; greedy: with the most probable action instead. Entropy: at the end.",
        rows,
        len(schemes),
        question=f"What does each method reach on {name}?",
    )


def _floors(name: str, family: Mapping[str, Any], baseline: str) -> Table:
    floors, runs = family["floors"], family["runs"]
    points: dict[str, Sequence[Mapping[str, Any]]] = {
        "warm-up": family["start"],
        "more imitation, same expert": [floor["imitation"]["same"] for floor in floors],
        "more imitation, expert without noise": [floor["imitation"]["clean"] for floor in floors],
        "best temperature": [floor["best"] for floor in floors],
    }
    for m in floors[0]["matched"]:
        points[f"temperature with the entropy of {m}"] = [floor["matched"][m] for floor in floors]
    best = _parted(method_means(family, PRIMARY[1]))[0][:1]
    learned = {f"reinforcement learning with {m}": [c[-1] for c in runs[m]] for m in dict.fromkeys([*best, baseline])}
    rows = [["floor", "held-out sampled", "held-out greedy", "trained sampled", "trained greedy", "temperature"]]
    bars = []
    for label, evaluated in (points | learned).items():
        estimates = [
            Estimate.of(crossed_mean([policy[tasks][decoding] for policy in evaluated]))
            for tasks in ("held_out", "train")
            for decoding in ("sampled", "greedy")
        ]
        chosen = [policy["temperature"] for policy in evaluated if "temperature" in policy]
        rows.append(
            [label, *(estimate.short(3) for estimate in estimates), _over_seeds(chosen).short() if chosen else "1"]
        )
        bars.append(estimates[0])
    steps = _over_seeds(floor["imitation"]["same"]["steps"] for floor in floors)
    return Table(
        f"{name}: floors",
        f"Exact success rate without reinforcement learning, and below the line with it. More imitation: {steps.short(0)} further steps, which "
        "process as many tokens as the most expensive method. Temperatures divide the logits; they are chosen on training tasks. ± is "
        "half the 95 % interval over seeds and tasks (steps and temperature: over seeds).",
        rows,
        len(points),
        tuple(bars),
        f"What is reached on {name} without reinforcement learning?",
        "exact success rate on held-out tasks, sampled",
    )


def _one_step(name: str, family: Mapping[str, Any]) -> Table:
    measured = family["one_step"]
    rows = [
        ["method", "cosine, mean", "cosine, one batch", "bias²", "variance", "gain, points", "held-out gain, points",
         "Adam's gain, points", "Adam's held-out gain, points"]
    ]  # fmt: skip

    def gains(method: str) -> list[Estimate]:
        values = np.array([[measures[method][kind] for kind in ("sgd", "adam")] for measures in measured])  # (S, 2, 2)
        return [_over_seeds(100.0 * values[:, i, j]) for i in range(2) for j in range(2)]

    names = [key for key in measured[0] if key != "gradient"]
    schemes, controls = _parted(
        {method: crossed_mean([[measures[method]["sgd"][0]] for measures in measured]) for method in names}
    )
    bars: list[Estimate | None] = []
    for method in (*schemes, *controls):
        of = [measures[method] for measures in measured]
        variance = [measures["variance"] for measures in of if measures["variance"] is not None]
        numbers = [_over_seeds(measures[key] for measures in of).short() for key in ("cos_mean", "cos_batch", "bias2")]
        of_method = gains(method)
        rows.append(
            [method, *numbers, f"{np.median(variance):.2f}" if variance else "–", *(gain.short() for gain in of_method)]
        )
        bars.append(None if method.startswith("flipped(") else of_method[0])
    exact = gains("gradient")
    rows.append(["exact gradient", "1", "1", "0", "0", *(gain.short() for gain in exact)])
    return Table(
        f"{name}: one step",
        "In the model's parameters, before learning: M1 and M3 of the trainer's gradient against ∇J of the batch's tasks; M2, gain of exact "
        "success in percentage points after one step of matched KL along the gradient, and along a new Adam's first step, on the "
        f"batch's tasks and on held-out ones. ± is half the 95 % interval over {len(measured)} seeds; the variance is a median, without one. "
        "The exact gradient is computed, not sampled.",
        rows,
        len(schemes),
        (*bars, exact[0]),
        f"How good is one step on {name}?",
        "gain of exact success by one step, in percentage points",
    )


def _contrasts(title: str, contrasts: Mapping[str, Contrast], baseline: str) -> Table:
    schemes, controls = _parted({name: contrast.difference for name, contrast in contrasts.items()})
    rows = [["method", "difference in success rate [95 % CI]", "p", "detectable"]]
    rows += [[method, *contrast_texts(contrasts[method])] for method in (*schemes, *controls)]
    return Table(
        f"{title}, minus {baseline}",
        f"Paired by seed and task. p is adjusted by Holm over the {len(contrasts)} methods; detectable is the true difference that this design "
        "finds with probability .8 at Holm's smallest level.",
        rows,
        len(schemes),
        tuple(Estimate.of(contrasts[row[0]].difference) for row in rows[1:]),
        f"Which method is better than {baseline} ({title})?",
        f"exact success rate, minus {baseline} (0.01 is one percentage point)",
    )


def _predictions(families: Mapping[str, Any]) -> Table:
    rows = [["id", "result", "observed", "prediction"]]
    rows += [[p["id"], p["outcome"], p["observed"], p["statement"]] for p in checked_predictions(families)]
    return Table(
        "Predictions",
        "Written before the run. Observed: the difference with its 95 % interval; a prediction is open if that contains 0.",
        rows,
        len(rows),
        question="Which predictions came true?",
    )


def language_model_conclusions(part: Mapping[str, Any]) -> list[str]:
    """Conclusions on the primary endpoints and the predictions, one sentence each."""
    families, baseline = part["families"], part["baseline"]
    sentences = []
    for endpoint in PRIMARY:
        contrasts = pooled_contrasts(families, endpoint, baseline)
        schemes, _ = _parted({name: contrast.difference for name, contrast in contrasts.items()})
        if not schemes:
            continue
        separated = [name for name in schemes if contrasts[name].separates]
        better = [name for name in separated if contrasts[name].difference.mean > 0.0]
        worse = [name for name in separated if name not in better]
        difference, detectable = (
            Estimate.of(contrasts[schemes[0]].difference),
            float(np.median([contrast.detectable for contrast in contrasts.values()])),
        )
        sentences.append(
            f"Language models, {endpoint}: {schemes[0]} has the highest mean, {difference.times(100).text(1, '+')} percentage points compared with {baseline}; "
            f"{_some(better, schemes)} better than {baseline}, {_some(worse, schemes) if worse else 'none is'} worse (Holm, 5 %); the design "
            f"detects a difference of {100 * detectable:.1f} points with probability .8."
        )
    outcomes = [prediction["outcome"] for prediction in checked_predictions(families)]
    sentences.append(
        f"Of {len(outcomes)} predictions {outcomes.count('hit')} came true, {outcomes.count('miss')} did not, "
        f"{outcomes.count('open')} are open, {outcomes.count('not run')} were not tested."
    )
    return sentences


def _some(names: Sequence[str], all_names: Sequence[str]) -> str:
    """How many of the schemes, and which, as the subject of a sentence."""
    if len(names) == len(all_names):
        return f"all {len(names)} other schemes are"
    missing = [name for name in all_names if name not in names]
    if len(missing) < len(names):
        return f"{len(names)} of {len(all_names)} other schemes (all but {', '.join(missing)}) are"
    return f"{len(names)} of {len(all_names)} other schemes" + (f" ({', '.join(names)})" if names else "") + " are"

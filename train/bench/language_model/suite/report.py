"""Tables of the suite ``lm`` as rows of text, for the terminal and the page. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import Table
from creditflow.train.statistics.contrasts import Contrast
from creditflow.train.text_table import text_table

__all__ = ["language_model_conclusions", "language_model_tables", "language_model_text"]


def language_model_text(part: Mapping[str, Any]) -> str:
    """All tables as text."""
    return "\n\n".join(f"{t.title}\n{t.note}\n\n{text_table(t.rows)}" for t in language_model_tables(part))


def language_model_tables(part: Mapping[str, Any]) -> list[Table]:
    """The tables of ``document["language_models"]``."""
    families, baseline = part["families"], part["baseline"]
    tables = []
    for name, family in families.items():
        tables += [_learning(name, family), _floors(name, family)]
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


def _learning(name: str, family: Mapping[str, Any]) -> Table:
    means = {endpoint: method_means(family, endpoint) for endpoint in ENDPOINTS}
    rows = [["method", *ENDPOINTS, "entropy", "turns"]]
    for method, curves in family["runs"].items():
        cells = [
            _with_error(means[endpoint][method].mean, means[endpoint][method].standard_error) for endpoint in ENDPOINTS
        ]
        entropy = float(np.mean([curve[-1]["train"]["entropy"] for curve in curves]))
        turns = float(np.mean([curve[-1]["turns"] for curve in curves]))
        rows.append([method, *cells, f"{entropy:.2f}", f"{turns:,.0f}"])
    seeds = len(family["start"])
    start = {s: float(np.mean([one[s]["sampled"] for one in family["start"]])) for s in ("held_out", "train")}
    return Table(
        f"{name}: learning",
        f"Exact success, mean ± standard error over {seeds} seeds and {len(family['start'][0]['train']['sampled'])} tasks. "
        f"All methods of a seed start from one warm-up: sampled {start['held_out']:.3f} held out, {start['train']:.3f} on "
        "training tasks. Area: mean under the curve over iterations; entropy in nats per turn at the end, turns played.",
        rows,
        len(rows),
        question=f"What does each method reach on {name}?",
    )


def _floors(name: str, family: Mapping[str, Any]) -> Table:
    rows = [["floor", "held-out sampled", "held-out greedy", "trained sampled", "trained greedy", "temperature"]]
    floors = family["floors"]
    points: dict[str, Sequence[Mapping[str, Any]]] = {
        "warm-up": family["start"],
        "more imitation, same expert": [one["imitation"]["same"] for one in floors],
        "more imitation, expert without noise": [one["imitation"]["clean"] for one in floors],
        "best temperature": [one["best"] for one in floors],
        **{f"temperature with the entropy of {m}": [one["matched"][m] for one in floors] for m in floors[0]["matched"]},
    }
    for label, evaluated in points.items():
        cells = [
            f"{np.mean([one[tasks][decoding] for one in evaluated]):.3f}"
            for tasks in ("held_out", "train")
            for decoding in ("sampled", "greedy")
        ]
        temperature = float(np.mean([one.get("temperature", 1.0) for one in evaluated]))
        rows.append([label, *cells, f"{temperature:.2f}"])
    steps = float(np.mean([one["imitation"]["same"]["steps"] for one in floors]))
    return Table(
        f"{name}: floors",
        f"Success without reinforcement learning. More imitation: {steps:.0f} further steps, which process as many tokens as "
        "the most expensive method. Temperatures are chosen on training tasks. Means over seeds and tasks, without intervals.",
        rows,
        len(rows),
        question=f"What is reached on {name} without reinforcement learning?",
    )


def _one_step(name: str, family: Mapping[str, Any]) -> Table:
    measured = family["one_step"]
    rows = [["method", "cos E g", "cos one batch", "bias²", "variance", "gain", "held out", "Adam", "held out"]]
    best = {kind: np.mean([one["gradient"][kind] for one in measured], axis=0) for kind in ("sgd", "adam")}
    rows.append(["exact gradient", "1", "1", "0", "0", *(f"{100 * x:.2f}" for kind in best for x in best[kind])])
    for method in [key for key in measured[0] if key != "gradient"]:
        of = [one[method] for one in measured]
        variance = [one["variance"] for one in of if one["variance"] is not None]
        numbers = [f"{np.mean([one[key] for one in of]):.2f}" for key in ("cos_mean", "cos_batch", "bias2")]
        gains = [np.mean([one[kind] for one in of], axis=0) for kind in ("sgd", "adam")]
        shown = f"{np.median(variance):.2f}" if variance else "–"
        rows.append([method, *numbers, shown, *(f"{100 * x:.2f}" for gain in gains for x in gain)])
    return Table(
        f"{name}: one step",
        f"At the start of {len(measured)} seeds, in the model's parameters: M1 and M3 of the trainer's gradient against ∇J of the "
        "batch's tasks; M2, gain of exact success in points after one step of matched KL along the gradient, and along a new "
        "Adam's first step, on the batch's tasks and on held-out ones. Means over seeds, without intervals.",
        rows,
        len(rows),
        question=f"How good is one step on {name}?",
    )


def _contrasts(title: str, contrasts: Mapping[str, Contrast], baseline: str) -> Table:
    rows = [["method", "difference", "95 % CI", "p (Holm)", "separates", "detectable"]]
    for method, contrast in sorted(contrasts.items(), key=lambda one: -one[1].difference.mean):
        low, high = contrast.difference.interval
        rows.append(
            [
                method,
                f"{contrast.difference.mean:+.4f}",
                f"{low:+.4f} to {high:+.4f}",
                f"{contrast.p_adjusted:.3f}",
                "yes" if contrast.separates else "no",
                f"{contrast.detectable:.4f}",
            ]
        )
    return Table(
        f"{title}, minus {baseline}",
        "Paired by seed and task. Detectable: the true difference that this design finds with probability .8 at Holm's smallest level.",
        rows,
        len(rows),
        tuple(Estimate.of(contrasts[row[0]].difference) for row in rows[1:]),
        f"Which method is better than {baseline} ({title})?",
        f"exact success, minus {baseline} (0.01 is one percentage point)",
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


def _with_error(mean: float, error: float) -> str:
    return f"{mean:.3f} ± {error:.3f}"


def language_model_conclusions(part: Mapping[str, Any]) -> list[str]:
    """Conclusions on the primary endpoints and the predictions, one sentence each."""
    families, baseline = part["families"], part["baseline"]
    sentences = []
    for endpoint in PRIMARY:
        contrasts = pooled_contrasts(families, endpoint, baseline)
        better = [name for name, one in contrasts.items() if one.separates and one.difference.mean > 0.0]
        worse = [name for name, one in contrasts.items() if one.separates and one.difference.mean < 0.0]
        detectable = float(np.median([one.detectable for one in contrasts.values()]))
        sentences.append(
            f"Language models, {endpoint}: {', '.join(better) or 'no method'} better than {baseline}, "
            f"{', '.join(worse) or 'none'} worse (Holm, 5 %); the design detects a difference of {detectable:.3f} with probability .8."
        )
    outcomes = [prediction["outcome"] for prediction in checked_predictions(families)]
    sentences.append(
        f"Of {len(outcomes)} predictions {outcomes.count('hit')} came true, {outcomes.count('miss')} did not, "
        f"{outcomes.count('open')} are open, {outcomes.count('not run')} were not tested."
    )
    return sentences

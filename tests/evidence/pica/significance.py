"""PiCA's significance test: training runs with its reward against runs with a baseline's, paired by backbone and seed.

The paper (appendix F) compares PiCA with its strongest baseline over 12 runs, four backbones × seeds 1 to 3; it names neither the test nor
its result. A *run* is the unit, questions are not: a run's number is its mean F1. Here the four backbones are four initial policies.
Ours, where the paper is silent: differences of runs with the same backbone and seed; the backbones are strata, because they were chosen,
and the seeds the samples; beside the t test an exact one over all flips of signs, which assumes no distribution; p-values are adjusted by
Holm over the baselines, because which is the strongest is known only afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from creditflow.envs.errors import ConfigError
from creditflow.train.statistics import contrasts_of, crossed_mean, holm, sign_flip_test, stratified_mean

__all__ = ["COMPARED", "STARTS", "significance", "significance_text"]

STARTS: Final = (0.35, 0.45, 0.55, 0.65)  # initial probability of an optimal action: the backbones
COMPARED: Final = ("F1 + penalty + PiCA", "F1", "F1 + penalty")  # the treated arm first; F1 is Search-R1's reward


def significance(runs: Mapping[str, ArrayLike], treated: str = COMPARED[0]) -> dict[str, Any]:
    """The treated arm against every other one.

    Args:
        runs: by arm one number per run, float64 (backbones, seeds); rows and columns are the same in all arms.
        treated: the arm that is compared with the others.

    Returns:
        "unit", "pairs", and by rival the mean "difference" with its 95 % interval ("low", "high"), how many "pairs_won", and the
        p-values of the t test ("p_t") and of the exact test ("p_exact"), both adjusted by Holm; "strongest": the rival with the largest mean.

    Raises:
        ConfigError: the arms differ in their runs, or there is no rival or no second seed.
    """
    values = {name: np.asarray(rows, np.float64) for name, rows in runs.items()}
    shapes = {rows.shape for rows in values.values()}
    rivals = [name for name in values if name != treated]
    if treated not in values or not rivals or len(shapes) != 1 or len(shape := shapes.pop()) != 2 or shape[1] < 2:
        raise ConfigError(
            f"significance: expected runs (backbones, at least 2 seeds) of {treated!r} and of a rival, got "
            f"{ {name: rows.shape for name, rows in values.items()} }"
        )
    differences = {name: values[treated] - values[name] for name in rivals}
    means = contrasts_of(
        {n: stratified_mean([crossed_mean(row[:, None]) for row in d]) for n, d in differences.items()}
    )
    exact = holm([sign_flip_test(d) for d in differences.values()])
    compared = {}
    for (name, d), p_exact in zip(differences.items(), exact, strict=True):
        mean = means[name].difference
        compared[name] = {
            "difference": mean.mean, "low": _known(mean.interval.low), "high": _known(mean.interval.high), "pairs_won": int((d > 0).sum()),
            "pairs_lost": int((d < 0).sum()), "p_t": _known(means[name].p_adjusted), "p_exact": p_exact,
        }  # fmt: skip
    return {
        "unit": "a training run, paired by backbone and seed",
        "treated": treated,
        "pairs": int(np.prod(shape)),
        "means": {name: float(rows.mean()) for name, rows in values.items()},
        "strongest": max(rivals, key=lambda name: float(values[name].mean())),
        "rivals": compared,
    }


def _known(x: float) -> float | None:
    """None for NaN, which JSON lacks: runs that do not vary have no interval."""
    return None if np.isnan(x) else float(x)


def significance_text(found: Mapping[str, Any]) -> str:
    """The comparison as lines of text."""
    lines = [
        f"{found['treated']} against its rivals, {found['pairs']} runs paired by backbone and seed (mean F1 {found['means'][found['treated']]:.3f}):"
    ]
    for name, row in found["rivals"].items():
        interval = "" if row["low"] is None else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
        p = "–" if row["p_t"] is None else f"{row['p_t']:.3f}"
        strongest = ", the strongest" if name == found["strongest"] else ""
        lines.append(
            f"  minus {name} ({found['means'][name]:.3f}{strongest}): {row['difference']:+.3f}{interval}, p {p} by t, {row['p_exact']:.3f} exact, "
            f"won {row['pairs_won']}, lost {row['pairs_lost']}"
        )
    return "\n".join(lines)

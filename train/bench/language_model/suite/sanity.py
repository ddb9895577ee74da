"""Sanity checks of the suite ``lm``: what holds whenever the suite is correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["language_model_checks"]


def language_model_checks(part: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Yield of every check the suite, the statement, whether it holds, and what was observed.

    All methods of a seed start from one policy. At this start the exact advantage has the direction of ∇J (M1), the negated
    one loses success in one step (M2), and the shuffled one has a worse one-batch cosine; the mean of a few batches would not
    show that, because its variance is too large.
    """
    for name, family in part["families"].items():
        different = 0
        for seed in range(len(family["start"])):
            starts = {tuple(curves[seed][0]["held_out"]["sampled"]) for curves in family["runs"].values()}
            different += len(starts) > 1
        yield f"lm {name}", "all methods of a seed start from one policy", not different, f"{different} seeds differ"
        controls = ("oracle_adv", "flipped(oracle_adv)", "shuffled(oracle_adv)")
        if not family["one_step"] or any(control not in family["one_step"][0] for control in controls):
            continue

        def average(method: str, metric: str, measured: Any = family["one_step"]) -> float:
            return float(np.mean([np.mean(np.atleast_1d(of_seed[method][metric])[0]) for of_seed in measured]))

        exact, flipped, shuffled = controls
        cosine = average(exact, "cos_mean")
        yield f"lm {name}", "the exact advantage has the direction of the gradient (M1)", cosine > 0.8, f"{cosine:.2f}"
        loss = average(flipped, "sgd")
        yield f"lm {name}", "the negated exact advantage loses success (M2)", loss < 0.0, f"{100.0 * loss:+.2f} points"
        worse, batch = average(shuffled, "cos_batch"), average(exact, "cos_batch")
        yield (
            f"lm {name}",
            "the shuffled exact advantage has a worse one-batch cosine (M1)",
            worse < batch,
            f"{worse:.2f}, unshuffled {batch:.2f}",
        )

"""The tables of the study: means with 95 % intervals over seeds and questions, and differences paired by both.

Where each seed has a world of its own, as in the replication, the seeds are the samples: an interval then covers bases, worlds and questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from evidence.entity_learning.measures import MEASURES
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.train.statistics.clustered import ClusteredMean, crossed_mean
from creditflow.train.statistics.contrasts import contrasts_of
from creditflow.train.text_table import text_table

Part = Mapping[str, Any]
ORDER: Final = (
    "warm_up", "more_imitation", "grpo", "gdcr", "sapo", "egrpo", "stepsearch", "egrpo_sapo", "grouptd", "sapo_shuffled",
)  # fmt: skip
BEST: Final = " at its best temperature"
RIVALS: Final = tuple(f"{name}{BEST}" for name in ("warm_up", "more_imitation"))
BASELINES: Final = {"sampled": ("grpo", *RIVALS), "greedy": ("grpo", "warm_up", "more_imitation")}
PRIMARY: Final = ("grouptd", "sapo")  # what the replication tests
WATCHED: Final = ("named", "unasked", "searches", "repeated", "limit", "tokens")  # what a hacked reward would raise


def by_arm(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of every arm by seed, for the seeds that all arms have; rivals at their best temperature under a name of their own.

    Raises:
        DataError: there is no part, or no seed that all arms have.
    """
    arms = {name: {part["seed"]: part for part in parts if part["arm"] == name} for name in ORDER}
    arms = {name: found for name, found in arms.items() if found}
    seeds = sorted(set.intersection(*(set(found) for found in arms.values()))) if arms else []
    if not seeds:
        raise DataError(
            f"no seed has parts of all arms ({', '.join(arms) or 'there are no parts'}): run the missing ones"
        )
    out = {}
    for name, found in arms.items():
        out[name] = [found[seed] for seed in seeds]
        if name in ("warm_up", "more_imitation"):
            out[f"{name}{BEST}"] = [part.get("best", part) for part in out[name]]
    return out


def values(parts: Sequence[Part], kind: str, metric: str) -> NDArray[np.float64]:
    """float64 (seeds, questions)."""
    return np.array([part[kind][metric] for part in parts], np.float64)


def own_worlds(parts: Sequence[Part]) -> bool:
    """Whether each seed has a world, and so questions, of its own."""
    return len({part.get("world") for part in parts}) > 1


def mean_of(parts: Sequence[Part], found: NDArray[np.float64]) -> ClusteredMean:
    """Mean of float64 (seeds, questions), values of ``parts``."""
    return crossed_mean(found.mean(axis=1, keepdims=True) if own_worlds(parts) else found)


def interval_text(mean: ClusteredMean, *, signed: bool = False) -> str:
    low, high = mean.interval
    if not signed:  # a share
        low, high = max(low, 0.0), min(high, 1.0)
    form = "{:+.1f} [{:+.1f}, {:+.1f}]" if signed else "{:.1f} [{:.1f}, {:.1f}]"
    return form.format(*(100 * x for x in (mean.mean, low, high)))


def _scores(arms: Mapping[str, Sequence[Part]]) -> str:
    rows = [["percent", "exact match", "F1", "exact match, greedy", "F1, greedy", "CPU s"]]
    for name, parts in arms.items():
        cells = [
            interval_text(mean_of(parts, values(parts, kind, metric)))
            for kind in ("sampled", "greedy")
            for metric in ("em", "f1")
        ]
        spent = [part["cpu_seconds"] for part in parts if "cpu_seconds" in part]
        rows.append([name, *cells, f"{np.mean(spent):.0f}" if spent else ""])
    return text_table(rows)


def learners(arms: Mapping[str, Sequence[Part]]) -> list[str]:
    """The arms that learn by reinforcement."""
    return [name for name, parts in arms.items() if all(part.get("behaviour") for part in parts)]


def differences(
    arms: Mapping[str, Sequence[Part]], baseline: str, kind: str, metric: str, family: Sequence[str] = ()
) -> list[list[str]]:
    """Rows of arm, difference with interval in points, Holm's p-value over the family, which is all learners by default, detectable difference."""
    base = values(arms[baseline], kind, metric)
    names = [name for name in family or learners(arms) if name != baseline]
    means = {name: mean_of(arms[name], values(arms[name], kind, metric) - base) for name in names}
    return [
        [name, interval_text(one.difference, signed=True), f"{one.p_adjusted:.2g}", f"{100 * one.detectable:.1f}"]
        for name, one in contrasts_of(means).items()
    ]


def _watched(arms: Mapping[str, Sequence[Part]]) -> str:
    """Behaviour on held-out questions minus grpo's, paired by seed; the p-value is Holm's over the learners."""
    names = [name for name in learners(arms) if name != "grpo"]
    rows = [["minus grpo, 95 % over seeds (p, Holm)", *WATCHED]] + [[name] for name in names]
    for measure in WATCHED:
        base = np.array([[part["held_out"][measure]] for part in arms["grpo"]])
        gaps = {name: crossed_mean(np.array([[p["held_out"][measure]] for p in arms[name]]) - base) for name in names}
        for row, one in zip(rows[1:], contrasts_of(gaps).values(), strict=True):
            mean, (low, high) = one.difference.mean, one.difference.interval
            row.append(f"{mean:+.2f} [{low:+.2f}, {high:+.2f}] ({one.p_adjusted:.2g})")
    return text_table(rows)


def _by_hops(arms: Mapping[str, Sequence[Part]]) -> str:
    """Exact match on the questions of two hops, which come first, and of three."""
    rows = [["exact match, percent", *(f"{hops} hops, {kind}" for kind in ("sampled", "greedy") for hops in (2, 3))]]
    for name, parts in arms.items():
        cells = []
        for kind in ("sampled", "greedy"):
            found = values(parts, kind, "em")
            half = found.shape[1] // 2
            cells += [interval_text(mean_of(parts, part)) for part in (found[:, :half], found[:, half:])]
        rows.append([name, *cells])
    return text_table(rows)


def _learning(arms: Mapping[str, Sequence[Part]]) -> str:
    """Success in training, its mean over all iterations, by seed: how fast an arm learns; minus grpo, paired by seed."""
    curves = {name: np.array([[np.mean([one["success"] for one in part["behaviour"]])] for part in parts])
              for name, parts in arms.items() if all(part.get("behaviour") for part in parts)}  # fmt: skip
    rows = [["success in training, percent", "mean over iterations", "minus grpo", "p (Holm)"]]
    gaps = contrasts_of(
        {
            name: crossed_mean(found - curves["grpo"])
            for name, found in curves.items()
            if name != "grpo" and "grpo" in curves
        }
    )
    for name, found in curves.items():
        gap = (
            [interval_text(gaps[name].difference, signed=True), f"{gaps[name].p_adjusted:.2g}"]
            if name in gaps
            else ["", ""]
        )
        rows.append([name, interval_text(crossed_mean(found)), *gap])
    return text_table(rows)


def _behaviour(arms: Mapping[str, Sequence[Part]]) -> str:
    rows = [["mean over seeds (range)", *MEASURES]]
    for name, parts in arms.items():
        cells = []
        for measure in MEASURES:
            found = [part["held_out"][measure] for part in parts]
            cells.append(f"{np.mean(found):.2f} ({min(found):.2f}, {max(found):.2f})")
        rows.append([name, *cells])
    return text_table(rows)


def _over_training(arms: Mapping[str, Sequence[Part]]) -> str:
    """Mean over seeds of the first, middle and last tenth of the iterations."""
    shown = ("success", "named", "unasked", "searches", "repeated", "limit")
    rows = [["first, middle, last tenth", *shown]]
    for name, parts in arms.items():
        curves = [part.get("behaviour") for part in parts]
        if not all(curves):
            continue
        cells = []
        for measure in shown:
            curve = np.array([[one[measure] for one in found] for found in curves if found]).mean(axis=0)
            tenth = max(1, len(curve) // 10)
            middle = len(curve) // 2
            thirds = (curve[:tenth], curve[middle : middle + tenth], curve[-tenth:])
            cells.append(", ".join(f"{part.mean():.2f}" for part in thirds))
        rows.append([name, *cells])
    return text_table(rows)


def tables(parts: Sequence[Part]) -> str:
    """All tables as text."""
    arms = by_arm(parts)
    first = next(iter(arms.values()))
    asked = len(first[0]["sampled"]["em"])
    seeds = f"{len(first)} seed{'s' if len(first) > 1 else ''} ({', '.join(str(part['seed']) for part in first)})"
    over, own = "both" if len(first) > 1 else "questions", own_worlds(first)
    each = " in each seed's own world; 95 % intervals over seeds." if own else f"; 95 % intervals over {over}."
    out = [f"{seeds}, {asked} held-out questions{each}"]
    if own and {"grpo", *PRIMARY} <= set(arms):
        head = ["primary: sampled em minus grpo", "points", "p (Holm over these)", "detectable"]
        out.append(text_table([head, *differences(arms, "grpo", "sampled", "em", PRIMARY)]))
    out += [_scores(arms), _by_hops(arms)]
    out += [_learning(arms)] if len(first) > 1 else []  # its units are seeds
    for kind, baselines in BASELINES.items():
        for baseline in (b for b in baselines if b in arms):
            for metric in ("em", "f1") if baseline == "grpo" else ("em",):
                head = [f"{kind} {metric} minus {baseline}", "points", "p (Holm)", "detectable"]
                out.append(text_table([head, *differences(arms, baseline, kind, metric)]))
    if {"sapo", "sapo_shuffled"} <= set(arms):
        gap = mean_of(first, values(arms["sapo"], "sampled", "em") - values(arms["sapo_shuffled"], "sampled", "em"))
        out.append(
            f"sampled em, sapo minus sapo_shuffled: {interval_text(gap, signed=True)} points, p = {gap.p_value:.2g}"
        )
    out += [
        "Behaviour on held-out questions, sampled",
        _behaviour(arms),
        *([_watched(arms)] if len(first) > 1 and "grpo" in arms else []),
        "Behaviour in training",
        _over_training(arms),
    ]
    return "\n\n".join(out) + "\n"

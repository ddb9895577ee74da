"""Decision lists over the features of a log, fitted by exhaustive search and evaluated by regret.

The regret of a choice in a cell is the best scheme's area under the learning curve minus the chosen scheme's. The best of several
measured schemes is partly best by chance, so that no choice has regret 0; only differences between choices matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEANING", "ChoiceCell", "Condition", "LogFeatures", "Rules", "common_methods", "fit_rules", "regrets"]

MIN_CELLS: Final = 3  # that a condition must hold in, and that must be left to those after it
TIE: Final = 1e-9
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LogFeatures:
    """Numbers on which a choice can depend; fractions in [0, 1].

    Attributes:
        repeated: fraction of turns in a state that the group acted in more than once.
        conflicted: fraction of turns in a state in which some action had different results.
        size: trajectories in a group, mean.
        batch: groups in an update.
        success: fraction of trajectories.
        all_failed: fraction of groups without a success.
        graded: fraction of trajectories with a score between 0 and 1.
        step_rewards: fraction of turns but the last with a reward.
        length: turns of a trajectory, mean.
        length_spread: standard deviation of the lengths over their mean.
    """

    repeated: float
    conflicted: float
    size: float
    batch: float
    success: float
    all_failed: float
    graded: float
    step_rewards: float
    length: float
    length_spread: float

    def to_json(self) -> dict[str, float]:
        """Plain JSON values, four digits."""
        return {name: float(f"{value:.4g}") for name, value in asdict(self).items()}


# feature -> what it is, in a sentence of the form "if X is at least ..."
MEANING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "repeated": "the fraction of turns in states that the group acted in more than once",
        "conflicted": "the fraction of turns in states in which one action had different results",
        "size": "the group size",
        "batch": "the number of groups in an update",
        "success": "the fraction of successes",
        "all_failed": "the fraction of groups without a success",
        "graded": "the fraction of trajectories with a score between 0 and 1",
        "step_rewards": "the fraction of turns with a reward before the end",
        "length": "the mean number of turns",
        "length_spread": "the standard deviation of lengths over their mean",
    }
)


@dataclass(frozen=True, slots=True)
class ChoiceCell:
    """A setting in which several schemes learned from one start.

    Attributes:
        suite: the run and suite that it belongs to; rules are tested on suites that they were not fitted on.
        title: the setting in a few words.
        features: of logs of the start.
        areas: area under the curve of exact success, by method.
    """

    suite: str
    title: str
    features: LogFeatures
    areas: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "suite": self.suite,
            "title": self.title,
            "features": self.features.to_json(),
            "areas": {name: float(f"{area:.5g}") for name, area in self.areas.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChoiceCell:
        """Read what ``to_json`` returned."""
        return cls(data["suite"], data["title"], LogFeatures(**data["features"]), data["areas"])


@dataclass(frozen=True, slots=True)
class Condition:
    """A feature compared with a threshold, and the method to take where it holds.

    Attributes:
        feature: name of the feature.
        at_least: whether the feature must be at least the threshold, or below it.
        threshold: the threshold.
        method: the method.
    """

    feature: str
    at_least: bool
    threshold: float
    method: str

    def holds(self, features: LogFeatures) -> bool:
        """Whether the condition holds for a log."""
        value = float(getattr(features, self.feature))
        return value >= self.threshold if self.at_least else value < self.threshold

    def __str__(self) -> str:
        comparison = "is at least" if self.at_least else "is below"
        return f"if {MEANING[self.feature]} {comparison} {self.threshold:.3g}: {self.method}"


@dataclass(frozen=True, slots=True)
class Rules:
    """A decision list: the first condition that holds decides.

    Attributes:
        conditions: the conditions in order.
        otherwise: the method where none holds.
    """

    conditions: tuple[Condition, ...]
    otherwise: str

    def choose(self, features: LogFeatures) -> tuple[str, str]:
        """The method for a log, and the condition that decided, in words."""
        for condition in self.conditions:
            if condition.holds(features):
                return condition.method, str(condition)
        return self.otherwise, f"{'otherwise' if self.conditions else 'always'}: {self.otherwise}"

    def __str__(self) -> str:
        return "; ".join([*map(str, self.conditions), self.choose_otherwise()])

    def choose_otherwise(self) -> str:
        """The last line in words."""
        return f"{'otherwise' if self.conditions else 'always'} {self.otherwise}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"conditions": [asdict(condition) for condition in self.conditions], "otherwise": self.otherwise}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rules:
        """Read what ``to_json`` returned."""
        return cls(tuple(Condition(**row) for row in data["conditions"]), data["otherwise"])


def common_methods(cells: Sequence[ChoiceCell]) -> tuple[str, ...]:
    """The methods that learned in every cell, in the order of the first."""
    return tuple(name for name in cells[0].areas if all(name in cell.areas for cell in cells)) if cells else ()


def regrets(cells: Sequence[ChoiceCell], methods: Sequence[str], rules: Rules) -> Floats:
    """float64 (C,): regret of the rules in each cell, in points of success."""
    best = np.array([max(cell.areas[name] for name in methods) for cell in cells])
    own = np.array([cell.areas[rules.choose(cell.features)[0]] for cell in cells])
    points: Floats = 100.0 * (best - own)
    return points


def fit_rules(
    cells: Sequence[ChoiceCell], methods: Sequence[str], *, depth: int, features: Sequence[str] = tuple(MEANING)
) -> Rules:
    """The decision list with the least mean regret, suites weighted equally; of equal ones the shorter, then the first.

    Args:
        cells: cells to fit on.
        methods: methods to choose from.
        depth: number of conditions, 0, 1 or 2.
        features: features that conditions may use.

    Raises:
        ValueError: there are no cells, or the depth is another one.
    """
    if not cells or depth not in (0, 1, 2):
        raise ValueError(f"expected cells and a depth of 0, 1 or 2, got {len(cells)} cells and depth {depth}")
    areas = np.array([[cell.areas[name] for name in methods] for cell in cells])
    weight = _suite_weights(cells)
    gain = weight[:, None] * areas  # (C, M): summed over the cells of a branch, the objective of each method there
    whole = gain.sum(axis=0)
    best, chosen = float(whole.max()), Rules((), methods[int(whole.argmax())])
    splits = _splits(cells, features)
    if depth == 0 or not splits:
        return chosen
    held = np.array([mask for mask, _ in splits])  # (K, C)
    inside = held @ gain  # (K, M)
    for i, total in enumerate(inside.max(axis=1) + (whole - inside).max(axis=1)):
        if total > best + TIE:
            best = float(total)
            chosen = Rules((_condition(splits[i][1], methods, inside[i]),), _name(methods, whole - inside[i]))
    if depth == 1:
        return chosen
    for i, j in product(range(len(splits)), repeat=2):
        second = ~held[i] & held[j]
        left = ~held[i] & ~held[j]
        if min(int(second.sum()), int(left.sum())) < MIN_CELLS:
            continue
        parts = inside[i], gain[second].sum(axis=0), gain[left].sum(axis=0)
        total = sum(float(part.max()) for part in parts)
        if total > best + TIE:
            best = total
            first, then = _condition(splits[i][1], methods, parts[0]), _condition(splits[j][1], methods, parts[1])
            chosen = Rules((first, then), _name(methods, parts[2]))
    return chosen


def _suite_weights(cells: Sequence[ChoiceCell]) -> Floats:
    """float64 (C,): weights that sum to 1 over all cells, and to the same over every suite."""
    names = [cell.suite for cell in cells]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return np.array([1.0 / (len(counts) * counts[name]) for name in names])


Split = tuple[NDArray[np.bool_], tuple[str, bool, float]]


def _splits(cells: Sequence[ChoiceCell], features: Sequence[str]) -> list[Split]:
    """Every comparison of a feature with a value between two that occur, with the cells in which it holds."""
    found: list[Split] = []
    for name in features:
        values = np.array([getattr(cell.features, name) for cell in cells])
        known = np.unique(values)
        for low, high in pairwise(known):
            threshold = float(f"{0.5 * (low + high):.3g}")
            for at_least in (True, False):
                mask = values >= threshold if at_least else values < threshold
                if min(int(mask.sum()), int((~mask).sum())) >= MIN_CELLS:
                    found.append((mask, (name, at_least, threshold)))
    return found


def _name(methods: Sequence[str], objective: Floats) -> str:
    return methods[int(objective.argmax())]


def _condition(comparison: tuple[str, bool, float], methods: Sequence[str], objective: Floats) -> Condition:
    return Condition(*comparison, _name(methods, objective))

"""Rules evaluated on suites that they were not fitted on, compared with always taking one scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.choice.cell import ChoiceCell
from creditflow.train.choice.rules import Rules, common_methods, fit_rules, regrets
from creditflow.train.statistics import ClusteredMean, crossed_mean, stratified_mean

__all__ = ["DEPTHS", "Evaluation", "evaluate", "fitted_name"]

DEPTHS: Final = (0, 1, 2)
STANDARD: Final = "grouptd_relative"  # what the package recommends where nothing is known of a log
Floats = NDArray[np.float64]


def fitted_name(depth: int) -> str:
    """How a fitted policy is called."""
    return {0: "the best single scheme of the other suites", 1: "one condition", 2: "two conditions"}[depth]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Regrets on held-out suites.

    Attributes:
        cells: all cells.
        methods: methods to choose from.
        regret: by policy float64 (C,), regret in each cell in points; fitted policies were fitted without the cell's suite.
        fitted: by depth the rules fitted on all suites.
    """

    cells: tuple[ChoiceCell, ...]
    methods: tuple[str, ...]
    regret: Mapping[str, Floats]
    fitted: Mapping[int, Rules]

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites, in order."""
        return tuple(dict.fromkeys(cell.suite for cell in self.cells))

    def mean(self, policy: str, over: str = "") -> ClusteredMean:
        """Mean regret of a policy, or minus that of another, cells as samples and suites as strata of equal weight."""
        values = self.regret[policy] - (self.regret[over] if over else 0.0)
        suite = np.array([cell.suite for cell in self.cells])
        return stratified_mean([crossed_mean(values[suite == name][:, None]) for name in self.suites])

    def best_in(self, cell: int) -> str:
        """The method with the largest area in a cell."""
        return max(self.methods, key=self.cells[cell].areas.__getitem__)

    def best_single(self) -> str:
        """The policy that always takes one scheme, to which rules are compared.

        It is the standard one, unless the scheme with the least mean regret over all suites is better, its interval without 0.
        """
        best, standard = f"always {self.fitted[0].otherwise}", f"always {STANDARD}"
        if standard in self.regret and not self.mean(best, standard).interval[1] < 0.0:
            return standard
        return best

    def used(self) -> Rules:
        """The rules to use."""
        depth = self.accepted()
        return self.fitted[depth] if depth else Rules((), self.best_single().removeprefix("always "))

    def accepted(self) -> int:
        """The depth to use: the deepest rules whose held-out regret is below the best single scheme's, its interval without 0."""
        for depth in sorted(DEPTHS, reverse=True):
            if depth and self.mean(fitted_name(depth), self.best_single()).interval[1] < 0.0:
                return depth
        return 0


def evaluate(cells: Sequence[ChoiceCell], always: Sequence[str] = ()) -> Evaluation:
    """Leave one suite out: fit on all others and evaluate on it, for every suite.

    Args:
        cells: cells of at least two suites.
        always: schemes to compare with; those that every cell has count, besides the best single one.

    Raises:
        ConfigError: there are fewer than two suites, or no method that learned in every cell.
    """
    methods = common_methods(cells)
    suites = tuple(dict.fromkeys(cell.suite for cell in cells))
    if len(suites) < 2 or len(methods) < 2:
        raise ConfigError(
            f"rules are tested on suites left out: expected two suites or more with two methods in common, got "
            f"{', '.join(suites) or 'none'} with {', '.join(methods) or 'none'}"
        )
    fitted = {depth: fit_rules(cells, methods, depth=depth) for depth in DEPTHS}
    regret = {fitted_name(depth): _held_out(cells, suites, methods, _fitter(methods, depth)) for depth in DEPTHS}
    for name in dict.fromkeys([*always, fitted[0].otherwise]):
        if name in methods:
            regret[f"always {name}"] = regrets(cells, methods, Rules((), name))
    return Evaluation(tuple(cells), methods, regret, fitted)


def _fitter(methods: Sequence[str], depth: int) -> Callable[[Sequence[ChoiceCell]], Rules]:
    return lambda cells: fit_rules(cells, methods, depth=depth)


def _held_out(
    cells: Sequence[ChoiceCell],
    suites: Sequence[str],
    methods: Sequence[str],
    fit: Callable[[Sequence[ChoiceCell]], Rules],
) -> Floats:
    out = np.zeros(len(cells))
    for suite in suites:
        own = np.array([cell.suite == suite for cell in cells])
        rules = fit([cell for cell in cells if cell.suite != suite])
        out[own] = regrets([cell for cell in cells if cell.suite == suite], methods, rules)
    return out

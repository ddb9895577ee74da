"""Can features of a log choose the scheme? Rules fitted to stored settings, and evaluated on suites that they were not fitted on.

  python tests/evidence/choice/run.py [--cells tests/evidence/choice/cells.json] --out DIR

Writes DIR/choice.txt, the tables. The settings were made from stored runs at 7f504eb7, see the README.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.choice.rules import MEANING, ChoiceCell, Rules, common_methods, fit_rules, regrets

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.statistics import ClusteredMean, crossed_mean, stratified_mean
from creditflow.train.text_table import text_table

__all__ = ["Evaluation", "add_arguments", "choice_text", "evaluate", "fitted_name", "main", "run", "verdict"]

ALWAYS: Final = ("grouptd_relative", "grouptd_relative_pooled", "grouptd_base", "graphgpo", "gigpo", "grpo")
WORST: Final = 3  # settings named in the verdict
REFERENCE: Final = ("grouptd_relative", "grouptd_relative_pooled", "graphgpo", "grpo")
TABLES: Final = "choice.txt"
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


def verdict(found: Evaluation) -> tuple[str, ...]:
    """What the evaluation says, in sentences."""
    depth, single = found.accepted(), found.best_single()
    where = f"{len(found.cells)} settings of {len(found.suites)} suites, each left out in turn"
    own = _text(found.mean(single))
    if depth:
        gain = _text(found.mean(fitted_name(depth), single))
        return (
            f"On {where}, these rules have {_text(found.mean(fitted_name(depth)))} points of regret; {single} has {own} "
            f"(difference {gain}).",
        )
    tried = "; ".join(f"{fitted_name(d)}: {_text(found.mean(fitted_name(d), single))}" for d in DEPTHS if d)
    rivals = "; ".join(
        f"always {name}: {_text(found.mean(f'always {name}', single))}"
        for name in REFERENCE
        if f"always {name}" in found.regret and f"always {name}" != single
    )
    return (
        f"No rule fitted to features of logs beat taking {single.removeprefix('always ')} every time, on {where}: regret minus "
        f"its, in points: {tried}.",
        f"It has {own} points of regret; minus its: {rivals}.",
        f"Its largest regrets: {_worst(found, single)}.",
    )


def _worst(found: Evaluation, policy: str) -> str:
    """The settings in which a policy has its largest regrets."""
    values = found.regret[policy]
    order = np.argsort(-values, kind="stable")[:WORST].tolist()
    return "; ".join(
        f"{found.cells[i].title} ({found.cells[i].suite}) {values[i]:.1f}, best {found.best_in(i)}" for i in order
    )


def choice_text(found: Evaluation) -> str:
    """All tables."""
    single = found.best_single()
    by_suite = [["policy", "regret", f"minus {single}", *found.suites]]
    for name, values in sorted(found.regret.items(), key=lambda one: found.mean(one[0]).mean):
        own = [values[[cell.suite == suite for cell in found.cells]].mean() for suite in found.suites]
        minus = "–" if name == single else _text(found.mean(name, single))
        by_suite.append([name, _text(found.mean(name)), minus, *(f"{x:.2f}" for x in own)])
    cells = [["suite", "setting", "best", f"regret of {single.removeprefix('always ')}", *MEANING]]
    for i, cell in enumerate(found.cells):
        numbers = [f"{value:.3g}" for value in cell.features.to_json().values()]
        cells.append([cell.suite, cell.title, found.best_in(i), f"{found.regret[single][i]:.2f}", *numbers])
    parts = [
        "Regret in points of success: the best of the schemes minus the chosen one, area under the learning curve. Fitted policies were "
        "fitted without the suite on which they are evaluated. Intervals: 95 %, settings as samples, suites as strata of equal weight.",
        text_table(by_suite),
        "Rules fitted to all suites:\n"
        + "\n".join(f"  {fitted_name(d)}: {rules}" for d, rules in found.fitted.items()),
        f"Schemes to choose from: {', '.join(found.methods)}.",
        f"Used: {found.used()}.\n" + "\n".join(verdict(found)),
        "Settings",
        text_table(cells),
    ]
    return "\n\n".join(parts) + "\n"


def _text(mean: Any) -> str:
    return Estimate.of(mean).text(2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_input(
        parser, "--cells", default=str(Path(__file__).with_name("cells.json")), metavar="FILE",
        help="measured settings (default: the stored ones)",
    )  # fmt: skip
    add_output(
        parser, "--out", Output(kind="folder", owned=named(TABLES)), required=True, metavar="DIR",
        help="folder of the tables",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Fit, evaluate and write."""
    cells = [ChoiceCell.from_json(row) for row in read_json(Path(args.cells))["cells"]]
    tables = choice_text(evaluate(cells, ALWAYS))
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_writer(folder / TABLES, encoding="utf-8") as stream:
        stream.write(tables)
    print(tables)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("evidence.choice.run", arguments, script="tests/evidence/choice/run.py")


if __name__ == "__main__":
    sys.exit(main())

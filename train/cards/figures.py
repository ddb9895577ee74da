"""The figures of the reference cards, made from stored results of the benchmark; the package ships them as one small file.

Run: ``python -m creditflow.train.cards.figures RESULTS.json.gz … --cost COST.json --out assets/schemes/figures.json``, with the
results of ``creditflow bench`` (tables, shared policy, language models) and the times of ``creditflow.train.cards.cost``. Every
regime has two endpoints: "step", the gain in exact success of one step relative to that of the exact gradient (M2), and
"learning", the area under the learning curve minus grpo's.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import write_json
from creditflow.envs.reading.json_text import parse_json, read_json
from creditflow.train.arguments.outputs import add_input, add_output
from creditflow.train.arguments.programs import run_program
from creditflow.train.bench.language_model.suite.summary import pooled_contrasts
from creditflow.train.bench.methods import is_control, present_names, scheme_entry, settings_of
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import standard_settings
from creditflow.train.bench.report.tidy import BASELINE, results_of
from creditflow.train.bench.results import read_results
from creditflow.train.statistics import crossed_mean, stratified_mean

__all__ = ["REGIMES", "Figures", "Regime", "add_arguments", "collected", "figures_of", "main", "run", "shipped"]

Regime = Literal["tables", "shared", "language models"]
Endpoint = Literal["step", "learning"]
REGIMES: Final[Mapping[Regime, str]] = {
    "tables": "one softmax table per task, grids",
    "shared": "one policy over features for many tasks, grids and Sokoban",
    "language models": "small language models on held-out tasks, Sokoban and pits",
}
VERSION: Final = 1
ASSET: Final = "schemes/figures.json"
Estimates = dict[str, dict[str, Estimate]]  # method -> endpoint -> estimate


@dataclass(frozen=True, slots=True)
class Figures:
    """What the stored runs measured.

    Attributes:
        sources: the file, regimes, command and commit of every run; that of the times has the regime "cost".
        measured: by method, regime and endpoint the mean with its 95 % interval.
        settings: by method how it differs from the paper's preset; methods that do not are missing.
        cost: by scheme, milliseconds for 1000 turns.
    """

    sources: Sequence[Mapping[str, str]]
    measured: Mapping[str, Mapping[str, Mapping[str, Estimate]]]
    settings: Mapping[str, str]
    cost: Mapping[str, float]

    def methods_of(self, scheme: str) -> tuple[str, ...]:
        """The measured methods of a scheme, in the order of the runs; that with the name of the scheme is first."""
        methods = [name for name in self.measured if not is_control(name) and scheme_entry(name).scheme == scheme]
        return tuple(sorted(methods, key=lambda name: name.partition("[")[0] != scheme))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        measured: dict[str, dict[str, Any]] = {method: {} for method in self.measured}
        for method, regimes in self.measured.items():
            for regime, endpoints in regimes.items():
                measured[method][regime] = {name: _bounds(estimate) for name, estimate in endpoints.items()}
        return {
            "version": VERSION,
            "sources": [dict(source) for source in self.sources],
            "measured": measured,
            "settings": dict(self.settings),
            "cost": dict(self.cost),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Figures:
        """Read what ``to_json`` returned.

        Raises:
            DataError: it is something else.
        """
        if data.get("version") != VERSION:
            raise DataError(f"expected figures of schemes of version {VERSION}, got version {data.get('version')!r}")
        measured: dict[str, dict[str, dict[str, Estimate]]] = {method: {} for method in data["measured"]}
        for method, regimes in data["measured"].items():
            for regime, endpoints in regimes.items():
                measured[method][regime] = {name: Estimate(*map(_number, row)) for name, row in endpoints.items()}
        return cls(data["sources"], measured, data["settings"], data["cost"])


def shipped() -> Figures:
    """The figures that the package ships."""
    text = (files("creditflow.assets") / ASSET).read_text(encoding="utf-8")
    return Figures.from_json(parse_json(text, where=ASSET))


def collected(documents: Mapping[str, Mapping[str, Any]], cost: Mapping[str, Any]) -> Figures:
    """The figures of these runs.

    Args:
        documents: by name of the file the results of a run. Of a method that two runs measured on tables, or with a shared policy,
            the later one counts; runs of language models are pooled, their families being strata of equal weight.
        cost: what ``creditflow.train.cards.cost`` wrote.

    Raises:
        ConfigError: a run has none of the three regimes.
    """
    sources: list[dict[str, str]] = []
    measured: dict[str, dict[str, dict[str, Estimate]]] = {}
    families: dict[str, Any] = {}
    for name, document in documents.items():
        regimes = {regime: (stored, estimates) for regime, stored, estimates in _regimes(document)}
        if "language_models" in document:
            models = document["language_models"]
            families |= {f"{name} {family}": of for family, of in models["families"].items()}
            regimes["language models"] = models["settings"], _of_models(families)
        if not regimes:
            raise ConfigError(
                f"{name}: expected results of creditflow bench with the suite grids, the suite shared or the preset lm, got none of them"
            )
        sources.append(_source(", ".join(regimes), name, document["provenance"]))
        for regime, (stored, estimates) in regimes.items():
            present = present_names(estimates, stored)
            for method, endpoints in estimates.items():
                measured.setdefault(present[method], {})[regime] = endpoints
    sources.append(_source("cost", "", cost["provenance"]))
    settings = settings_of([name for name in measured if not is_control(name)])
    return Figures(sources, measured, settings, cost["milliseconds_per_1000_turns"])


def figures_of(document: Mapping[str, Any]) -> dict[Regime, Estimates]:
    """The figures of one run by regime, under the names that its methods have there."""
    by_regime = {regime: figures for regime, _, figures in _regimes(document)}
    if "language_models" in document:
        by_regime["language models"] = _of_models(document["language_models"]["families"])
    return by_regime


def _source(regime: str, name: str, provenance: Mapping[str, str]) -> dict[str, str]:
    return {"regime": regime, "file": name, "command": provenance["command"], "commit": provenance["commit"]}


def _regimes(document: Mapping[str, Any]) -> Iterator[tuple[Regime, Mapping[str, str], Estimates]]:
    """The regimes of a run, with the settings of its methods."""
    for suite in document["suites"]:
        if suite["name"] == "grids":
            yield "tables", suite["settings"], _of_suite(suite)
        elif suite["name"] == "shared":
            yield "shared", suite["settings"], _of_suite(suite)


def _wanted(method: str) -> bool:
    """Schemes, and the two controls that a card refers to; not corrupted schemes and those that read exact values."""
    return method in ("oracle_adv", "stateless") or not (is_control(method) or "(" in method or "[exact]" in method)


def _of_suite(suite: Mapping[str, Any]) -> Estimates:
    """One step and learning of every method, on tables or with a shared policy."""
    results = results_of(suite)
    if results.samples == "seeds":
        results = standard_settings(results)
    estimates: Estimates = {m: {"step": results.estimate("gain", m)} for m in results.methods("gain") if _wanted(m)}
    for method in results.methods("area"):
        if method != BASELINE and method in estimates:
            estimates[method]["learning"] = results.estimate("area", method, BASELINE)
    return estimates


def _of_models(families: Mapping[str, Any]) -> Estimates:
    estimates: Estimates = {}
    for method in next(iter(families.values()))["one_step"][0]:
        if method != "gradient" and _wanted(method):
            ratios = [_relative_gains(family["one_step"], method) for family in families.values()]
            estimates[method] = {"step": Estimate.of(stratified_mean([crossed_mean(x) for x in ratios]))}
    for method, contrast in pooled_contrasts(families, "held-out area", BASELINE).items():
        if _wanted(method):
            estimates.setdefault(method, {})["learning"] = Estimate.of(contrast.difference)
    return estimates


def _relative_gains(steps: Sequence[Mapping[str, Any]], method: str) -> NDArray[np.float64]:
    """float64 (M, 1): the gain of each step in the direction of a method, relative to the exact gradient's."""
    return np.array([[step[method]["sgd"][0] / step["gradient"]["sgd"][0]] for step in steps])


def _bounds(estimate: Estimate) -> list[float | None]:
    return [_rounded(x) for x in (estimate.mean, estimate.low, estimate.high)]


def _rounded(x: float) -> float | None:
    return float(f"{x:.7f}") if math.isfinite(x) else None


def _number(x: float | None) -> float:
    return math.nan if x is None else float(x)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the program's arguments."""
    add_input(parser, "results", nargs="+", help="results.json of a run, compressed or not")
    add_input(parser, "--cost", required=True, metavar="FILE", help="times, as creditflow.train.cards.cost writes them")
    add_output(parser, "--out", required=True, metavar="FILE", help="file to write")


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    figures = collected({name: read_results(Path(name)) for name in args.results}, read_json(Path(args.cost)))
    write_json(args.out, figures.to_json())
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_program("creditflow.train.cards.figures", arguments)


if __name__ == "__main__":
    sys.exit(main())

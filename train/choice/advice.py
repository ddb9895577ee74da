"""The recommendation of a scheme for a log, by rules that the package ships with the evidence for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.bench.methods import scheme_entry
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.choice.features import MEANING, LogFeatures
from creditflow.train.choice.rules import Rules
from creditflow.wrappers.credit.registry import lookup

__all__ = [
    "ASSET",
    "Recommendation",
    "ShippedChoice",
    "evidence_text",
    "recommend",
    "recommendation_text",
    "shipped_choice",
]

ASSET: Final = "schemes/choice.json"
VERSION: Final = 1
NEIGHBOURS: Final = 3
RARELY: Final = 0.1  # of the turns; of the measured settings two lie below, all others above 0.9


@dataclass(frozen=True, slots=True)
class ShippedChoice:
    """What ``creditflow.train.choice.fit`` writes.

    Attributes:
        rules: the rules to use.
        regret: by policy its mean regret on held-out suites in points of success, with a 95 % interval.
        difference: the same for one policy minus another, the key being "ONE minus OTHER".
        verdict: what the evaluation says, in sentences.
        settings: the measured settings: title, features, the best scheme, and the regret of every scheme.
        sources: by run its file, command and commit.
    """

    rules: Rules
    regret: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]
    verdict: tuple[str, ...]
    settings: tuple[Mapping[str, Any], ...]
    sources: Mapping[str, Mapping[str, str]]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "version": VERSION,
            "sources": {name: dict(source) for name, source in self.sources.items()},
            "rules": self.rules.to_json(),
            "regret": {name: _row(estimate) for name, estimate in self.regret.items()},
            "difference": {name: _row(estimate) for name, estimate in self.difference.items()},
            "verdict": list(self.verdict),
            "settings": [dict(one) for one in self.settings],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ShippedChoice:
        """Read what ``to_json`` returned.

        Raises:
            DataError: it is something else.
        """
        if data.get("version") != VERSION:
            raise DataError(f"expected rules of version {VERSION}, got version {data.get('version')!r}")
        return cls(
            Rules.from_json(data["rules"]),
            {name: Estimate(*row) for name, row in data["regret"].items()},
            {name: Estimate(*row) for name, row in data["difference"].items()},
            tuple(data["verdict"]),
            tuple(data["settings"]),
            data["sources"],
        )


def _row(estimate: Estimate) -> list[float]:
    return [float(f"{x:.3f}") for x in (estimate.mean, estimate.low, estimate.high)]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A scheme for a log.

    Attributes:
        method: its name in the benchmark.
        scheme, parameters: what ``credit.make`` takes; parameters that differ from the paper's preset.
        reason: the rule that decided.
        verdict: how well the rule does on suites that it was not fitted on.
        similar: the measured settings most like the log: title, best scheme, and the regret of this one in points.
        cautions: why the recommendation may not hold for this log: its states hardly recur, or a feature lies outside of
            all measured settings.
    """

    method: str
    scheme: str
    parameters: Mapping[str, Any]
    reason: str
    verdict: tuple[str, ...]
    similar: tuple[tuple[str, str, float], ...]
    cautions: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"parameters": dict(self.parameters)}


@lru_cache(maxsize=1)
def shipped_choice() -> ShippedChoice:
    """The rules that the package ships."""
    text = (files("creditflow.assets") / ASSET).read_text(encoding="utf-8")
    return ShippedChoice.from_json(parse_json(text, where=ASSET))


def recommend(features: LogFeatures, choice: ShippedChoice | None = None) -> Recommendation:
    """The recommended scheme for a log.

    Args:
        features: the log's features.
        choice: rules and evidence; default those that the package ships.
    """
    choice = shipped_choice() if choice is None else choice
    method, reason = choice.rules.choose(features)
    entry = scheme_entry(method)
    defaults = lookup(entry.scheme).preset("paper")
    return Recommendation(
        method,
        entry.scheme,
        {name: value for name, value in entry.parameters.items() if value != defaults[name]},
        reason,
        choice.verdict,
        _similar(features, choice, method),
        (*_rarely_repeated(features), *_outside(features, choice)),
    )


def _matrix(choice: ShippedChoice, names: list[str]) -> Any:
    return np.array([[one["features"][name] for name in names] for one in choice.settings], np.float64)


def _similar(features: LogFeatures, choice: ShippedChoice, method: str) -> tuple[tuple[str, str, float], ...]:
    """The nearest settings by features divided by their deviation; batch and group size count by their logarithm."""
    names = list(features.to_json())
    known, own = _matrix(choice, names), np.array([getattr(features, name) for name in names])
    counts = [names.index(name) for name in ("size", "batch", "length")]
    known[:, counts], own[counts] = np.log(known[:, counts]), np.log(np.maximum(own[counts], 1.0))
    scale = known.std(axis=0)
    moved = scale > 0.0
    distance = (np.abs(known - own)[:, moved] / scale[moved]).mean(axis=1)
    nearest = np.argsort(distance, kind="stable")[:NEIGHBOURS].tolist()
    found = [choice.settings[i] for i in nearest]
    return tuple((str(one["title"]), str(one["best"]), float(one["regret"][method])) for one in found)


def _rarely_repeated(features: LogFeatures) -> tuple[str, ...]:
    if features.repeated >= RARELY:
        return ()
    return (
        f"only {features.repeated:.0%} of the turns are in a state that the group acted in more than once. Two measured settings "
        "are like this, and disagree: grouptd gained on grpo in grids and lost to it on Sokoban. Look for a coarser state key "
        "first; grpo reads no keys",
    )


def _outside(features: LogFeatures, choice: ShippedChoice) -> tuple[str, ...]:
    """Features outside the range of the measured settings, in words."""
    names = list(features.to_json())
    low, high = _matrix(choice, names).min(axis=0), _matrix(choice, names).max(axis=0)
    values = [float(getattr(features, name)) for name in names]
    return tuple(
        f"{MEANING[name]} is {value:.3g}; nothing was measured beyond {a:.3g} to {b:.3g}"
        for name, value, a, b in zip(names, values, low, high, strict=True)
        if not a - 1e-9 <= value <= b + 1e-9
    )


def recommendation_text(advised: Recommendation, options: Mapping[str, Any], reason: str) -> str:
    """The recommendation as plain text, to stand first.

    Args:
        advised: the recommendation.
        options: options of ``grouptd`` that suit the log's keys, beside its defaults, by ``supported_variant``.
        reason: why these.
    """
    chosen = {**advised.parameters, **(options if advised.scheme == "grouptd" else {})}
    lines = [f"Recommended scheme: {advised.scheme}{', with its defaults' if not chosen else ''}"]
    lines.append(
        f"  creditflow credit --scheme {advised.scheme}{''.join(f' --set {key}={value}' for key, value in chosen.items())} LOG"
    )
    if advised.scheme == "grouptd":
        lines.append(f"  {reason[0].upper()}{reason[1:]}.")
    lines += [f"  Caution: {caution}." for caution in advised.cautions]
    return "\n".join(lines)


def evidence_text(advised: Recommendation) -> str:
    """What the recommendation rests on, as plain text, to stand last."""
    lines = [
        f"Evidence for the recommendation (in the benchmark's tables: {advised.method}; the rule: {advised.reason})",
        *(f"  {sentence}" for sentence in advised.verdict),
        "  The most similar measured settings, with the best scheme there and this one's regret in points:",
        *(f"    {title}: {best}, {regret:.1f}" for title, best, regret in advised.similar),
    ]
    return "\n".join(lines)

"""A setting in which several schemes learned, with the features of its logs: what rules are fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from creditflow.train.choice.features import LogFeatures

__all__ = ["ChoiceCell"]


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

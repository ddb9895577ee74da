"""The annotator protocol: it reads groups and returns named values for every trajectory, and states its provenance.

An annotator is a class with four attributes and one method. A value of the state before a turn has a plain name
("value.critic"), a value of the state after it has the suffix ".next"; ``boundaries`` makes both from the T + 1 state values of
a trajectory with T turns.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import parse_json
from creditflow.wrappers.records.group import Group

__all__ = [
    "AnnotationError",
    "Annotations",
    "Annotator",
    "EpisodeAnnotator",
    "Provenance",
    "TurnAnnotator",
    "boundaries",
    "members_of",
]


class AnnotationError(DataError):
    """The input or output of an annotator is invalid: a wrong number of values, a missing turn, a non-finite value."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The origin of an annotation, stored in the log.

    Attributes:
        annotator: name in the registry.
        version: version of its rules; it increases when the same input gives other values.
        parameters: JSON values that the annotations depend on.
        model: digest of the weights, or the name of a served model; "" without model.
    """

    annotator: str
    version: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""

    def text(self) -> str:
        """One line of JSON, equal for equal provenance, as stored in the log."""
        data = {
            "annotator": self.annotator,
            "version": self.version,
            "parameters": dict(self.parameters),
            "model": self.model,
        }
        return json.dumps(data, sort_keys=True, allow_nan=False, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Provenance:
        """The provenance that ``text()`` wrote.

        Raises:
            AnnotationError: the text is not a provenance.
        """
        try:
            data = parse_json(text, where="provenance")
            return cls(str(data["annotator"]), int(data["version"]), dict(data["parameters"]), str(data["model"]))
        except (ValueError, KeyError, TypeError) as error:
            raise AnnotationError(f"not the provenance of an annotation: {text[:80]!r}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """The annotations of one trajectory with T turns and L tokens.

    Attributes:
        turns: name → float64 (T,).
        trajectory: name → number.
        tokens: name → float32 (L+1,), see ``Tokens.values``.
    """

    turns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    trajectory: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


class Annotator(Protocol):
    """Writes named values. All but the method may be class attributes."""

    @property
    def provenance(self) -> Provenance:
        """The provenance of its values."""
        ...

    @property
    def turn_names(self) -> tuple[str, ...]:
        """Every name it writes into turns, those with ".next" included."""
        ...

    @property
    def trajectory_names(self) -> tuple[str, ...]:
        """Every name it writes into trajectories."""
        ...

    @property
    def token_names(self) -> tuple[str, ...]:
        """Every name it writes into token sidecars."""
        ...

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory, through all groups in order; the groups of a call share a batch."""
        ...


class TurnAnnotator:
    """Base of annotators that write into turns only."""

    trajectory_names: tuple[str, ...] = ()
    token_names: tuple[str, ...] = ()


def members_of(groups: Sequence[Group]) -> list[tuple[Group, int]]:
    """Every trajectory as its group and its index there, in order."""
    return [(group, index) for group in groups for index in range(len(group))]


class EpisodeAnnotator(TurnAnnotator, ABC):
    """Base of annotators that annotate one trajectory at a time, such as those that replay it."""

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory, in the order of the groups.

        Raises:
            AnnotationError: an episode cannot be annotated, such as one of another environment.
        """
        return [self.annotate_member(group, index) for group, index in members_of(groups)]

    @abstractmethod
    def annotate_member(self, group: Group, index: int) -> Annotations:
        """The annotations of one trajectory of a group."""


def boundaries(name: str, values: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Turn values from the T + 1 state values of a trajectory: ``name`` before and ``name.next`` after each turn.

    >>> {name: numbers.tolist() for name, numbers in boundaries("value.x", np.array([0.1, 0.5, 1.0])).items()}
    {'value.x': [0.1, 0.5], 'value.x.next': [0.5, 1.0]}
    """
    return {name: values[:-1], f"{name}.next": values[1:]}

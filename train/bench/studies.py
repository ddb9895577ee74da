"""Studies: learning of several methods from one start on the same tasks and seeds, as suites with a shared policy write them.

A suite of such studies has the key "studies" in the results, a list of what ``Study.to_json`` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr

__all__ = ["KEYS", "REGIMES", "Keys", "Regime", "Study"]

Regime = Literal["table per task", "shared policy", "language model"]
Keys = Literal["distinct", "aliased", "fresh"]
Values = Sequence[Sequence[float]]

REGIMES: Final[tuple[str, ...]] = get_args(Regime)
KEYS: Final[tuple[str, ...]] = get_args(Keys)


@dataclass(frozen=True, slots=True)
class Study:
    """Methods compared on the same tasks and seeds.

    Attributes:
        regime: what the tasks share: nothing, a policy over features, or a language model.
        kind: kind of task.
        keys: whether one state has one key (distinct), several states share one (aliased), or no key repeats (fresh).
        batch: tasks per update.
        size: G, rollouts per task and update.
        condition: what else was varied, in a word or two; "" for the standard setting.
        endpoints: by endpoint ("area", "held-out success", …; the first is the primary one) and method the results, rows are
            seeds and columns are tasks. Tasks that differ by seed are averaged first: one column.
    """

    regime: Regime
    kind: str
    keys: Keys
    batch: int
    size: int
    condition: str
    endpoints: Mapping[str, Mapping[str, Values]]

    @property
    def title(self) -> str:
        """What was compared, in a few words."""
        keys = "" if self.keys == "distinct" else f", {self.keys} keys"
        batch = f", {self.batch} tasks × {self.size} rollouts" if self.batch > 1 else f", G {self.size}"
        return f"{self.regime}, {self.kind}{keys}{batch}" + (f", {self.condition}" if self.condition else "")

    def results(self, endpoint: str) -> dict[str, NDArray[np.float64]]:
        """By method the results of an endpoint, float64 (S, T); empty if it was not measured."""
        return {name: np.asarray(rows, np.float64) for name, rows in self.endpoints.get(endpoint, {}).items()}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Study:
        """Read what ``to_json`` returned.

        Raises:
            DataError: a field is missing or unknown, or the results of an endpoint differ in shape.
        """
        try:
            study = cls(**data)
        except TypeError as error:
            raise DataError(f"not a study: {error}") from error
        if study.regime not in REGIMES or study.keys not in KEYS:
            raise DataError(
                f"a study's regime is one of {', '.join(REGIMES)} and its keys are one of {', '.join(KEYS)}, "
                f"got {short_repr(study.regime)} and {short_repr(study.keys)}"
            )
        for endpoint in study.endpoints:
            shapes = {rows.shape for rows in study.results(endpoint).values()}
            if len(shapes) != 1 or any(len(shape) != 2 for shape in shapes):
                raise DataError(
                    f"{endpoint} of {study.kind}: expected one shape (seeds, tasks) of all methods, got {shapes}"
                )
        return study

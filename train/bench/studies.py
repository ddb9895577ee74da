"""Studies: results of several methods from one start on the same tasks and seeds, for suites with a shared policy.

In the results such a suite has the key "studies", a list of the values of ``Study.to_json``.
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
Values = Sequence[Sequence[float | None]]  # None is nan, which JSON lacks

REGIMES: Final[tuple[str, ...]] = get_args(Regime)
KEYS: Final[tuple[str, ...]] = get_args(Keys)


@dataclass(frozen=True, slots=True)
class Study:
    """Methods compared on the same tasks and seeds.

    Attributes:
        regime: what the tasks share: nothing, a policy over features, or a language model.
        kind: task kind.
        keys: whether each state has its own key ("distinct"), several states share one ("aliased"), or every visit of a state
            has a new one ("fresh").
        batch: tasks per update.
        size: G, rollouts per task and update.
        condition: what else was varied, in a word or two; "" for the standard setting.
        endpoints: results by endpoint ("area", "held-out success", …; the first is the primary one) and method; rows are seeds
            and columns are tasks. Where each seed has its own tasks, these are averaged into one column.
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
        batch = f", {self.batch} tasks × {self.size} rollouts" if self.batch > 1 else f", groups of {self.size}"
        return f"{self.regime}, {self.kind}{keys}{batch}" + (f", {self.condition}" if self.condition else "")

    def results(self, endpoint: str) -> dict[str, NDArray[np.float64]]:
        """Results of an endpoint by method, float64 (S, T); empty if it was not measured."""
        return {name: np.asarray(rows, np.float64) for name, rows in self.endpoints.get(endpoint, {}).items()}

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON values."""
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

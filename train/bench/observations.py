"""Results as one tidy table: a value for every setting, method, task, seed and endpoint, from which others are queries.

In a document such a table is an object with the names of its columns and a list of rows; ``seed`` is a whole number, ``value``
a number, and every other column a text. Columns beside the fixed ones are the factors that were varied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError, short_repr

__all__ = ["FIXED", "Observation", "Observations"]

FIXED: Final = ("method", "seed", "endpoint", "value")


@dataclass(frozen=True, slots=True)
class Observation:
    """One value.

    Attributes:
        setting: level of every factor.
        method: name of the method.
        seed: number of the seed; all methods have the same tasks and random numbers under it.
        endpoint: what was measured.
        value: the value, finite.
    """

    setting: Mapping[str, str]
    method: str
    seed: int
    endpoint: str
    value: float


class Observations:
    """A tidy table in which every method has a value for every setting, seed and endpoint.

    Args:
        rows: the observations.

    Attributes:
        factors: levels of every factor, in the order of their first appearance.
        methods: names of the methods.
        settings: the settings, one level of every factor each.

    Raises:
        DataError: a setting lacks a factor, or a value is missing or occurs twice.
    """

    def __init__(self, rows: Iterable[Observation]) -> None:
        self.rows = tuple(rows)
        names = tuple(self.rows[0].setting) if self.rows else ()
        levels: dict[str, dict[str, None]] = {name: {} for name in names}
        for row in self.rows:
            if tuple(row.setting) != names:
                raise DataError(f"every setting has the factors {', '.join(names)}, got {short_repr(row.setting)}")
            for name, level in row.setting.items():
                levels[name][level] = None
        self.factors = {name: tuple(of_factor) for name, of_factor in levels.items()}
        self.methods = tuple(dict.fromkeys(row.method for row in self.rows))
        self.settings = tuple({tuple(row.setting.values()): dict(row.setting) for row in self.rows}.values())
        self.seeds = tuple(dict.fromkeys(row.seed for row in self.rows))
        self._tables = {
            endpoint: self._table(endpoint) for endpoint in dict.fromkeys(row.endpoint for row in self.rows)
        }

    def _table(self, endpoint: str) -> NDArray[np.float64]:
        settings = {tuple(setting.values()): i for i, setting in enumerate(self.settings)}
        methods = {name: i for i, name in enumerate(self.methods)}
        seeds = {seed: i for i, seed in enumerate(self.seeds)}
        table = np.full((len(methods), len(settings), len(seeds)), np.nan)
        for row in self.rows:
            if row.endpoint == endpoint:
                cell = methods[row.method], settings[tuple(row.setting.values())], seeds[row.seed]
                if not np.isnan(table[cell]):
                    raise DataError(f"{endpoint} of {row.method} occurs twice under seed {row.seed}: {row.setting}")
                table[cell] = row.value
        if np.isnan(table).any():
            method, setting, _ = np.argwhere(np.isnan(table))[0].tolist()
            raise DataError(f"{endpoint} of {self.methods[method]} is missing in {self.settings[setting]}")
        return table

    def values(self, endpoint: str, method: str, **levels: str) -> NDArray[np.float64]:
        """float64 (settings, seeds): an endpoint of a method in the settings that have these levels (spaces as underscores)."""
        chosen_levels = {name.replace("_", " "): level for name, level in levels.items()}
        chosen = [i for i, setting in enumerate(self.settings) if chosen_levels.items() <= setting.items()]
        table: NDArray[np.float64] = self._tables[endpoint][self.methods.index(method)][chosen]
        return table

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON values."""
        rows = [[*row.setting.values(), row.method, row.seed, row.endpoint, row.value] for row in self.rows]
        return {"columns": [*self.factors, *FIXED], "rows": rows}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Observations:
        """Read what ``to_json`` returned.

        Raises:
            DataError: columns are missing, or a row has another length.
        """
        columns, rows = data.get("columns"), data.get("rows")
        if (
            not isinstance(columns, Sequence)
            or tuple(columns[-len(FIXED) :]) != FIXED
            or not isinstance(rows, Sequence)
        ):
            raise DataError(f"a table of results ends with the columns {', '.join(FIXED)}, got {short_repr(columns)}")
        factors = columns[: -len(FIXED)]
        if any(len(row) != len(columns) for row in rows):
            raise DataError(f"every row of a table of results has {len(columns)} entries, one for each column")
        return cls(Observation(dict(zip(factors, row, strict=False)), *row[len(factors) :]) for row in rows)

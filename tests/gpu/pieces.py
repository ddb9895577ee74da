"""The pieces of the script, and the file that keeps their results: every piece is stored when it is done."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import CreditflowError, MissingExtraError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.text_table import text_table

__all__ = ["OutOfTimeError", "Piece", "ResultsFile", "figures", "plan"]

SHOWN: Final = 500  # characters of an error


class OutOfTimeError(CreditflowError):
    """A piece stopped at the time limit; what it had done is kept, and it can be continued."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece.

    Attributes:
        name: its name in the results.
        estimate: seconds that it is expected to take on an H200, an assumption until it has run there.
        work: does it within a number of seconds; returns JSON values.

    Raises of ``work``:
        OutOfTimeError: the seconds did not suffice.
    """

    name: str
    estimate: float
    work: Callable[[float], dict[str, Any]]


@dataclass
class ResultsFile:
    """The results file.

    Attributes:
        path: path of the file.
        deadline: ``time.monotonic()`` after which no new piece is started.
        data: its contents.
        commit: of the code that runs now, written into every result.
        not_reached: names of the pieces that the time limit left out or stopped.
    """

    path: Path
    deadline: float
    data: dict[str, Any]
    commit: str = ""
    not_reached: list[str] = field(default_factory=list)

    def run(self, piece: Piece) -> None:
        """Run a piece unless its result is in the file; a failure is a result too, whatever it is, and the next piece runs."""
        kept = self.data.setdefault("checks", {})
        if self.done(piece):
            print(f"{piece.name}: done already", flush=True)
            return
        began = time.monotonic()
        if began > self.deadline:
            self.not_reached.append(piece.name)
            return
        try:
            result = piece.work(self.deadline - began)
        except OutOfTimeError as error:
            print(f"{piece.name}: stopped: {error}", flush=True)
            self.not_reached.append(piece.name)
            return
        except MissingExtraError as error:
            result = {"skipped": str(error)[:SHOWN]}
        except Exception as error:  # noqa: BLE001 - code that has not run on this machine may raise anything; it is reported
            if not isinstance(error, CreditflowError | ArithmeticError):
                traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"[:SHOWN]}
        kept[piece.name] = {"seconds": round(time.monotonic() - began, 2), "commit": self.commit, **result}
        self.write()
        shown = {k: v for k, v in kept[piece.name].items() if k != "commit" and not isinstance(v, list | dict)}
        print(f"{piece.name}: {json.dumps(shown)}", flush=True)

    def done(self, piece: Piece) -> bool:
        """Whether the file has the piece's result, and it is no error."""
        found = self.data.get("checks", {}).get(piece.name)
        return found is not None and "error" not in found

    def write(self) -> None:
        """Write the file."""
        with atomic_writer(self.path) as stream:
            stream.write(json.dumps(self.data, indent=1) + "\n")

    @property
    def failed(self) -> list[str]:
        """Names of the pieces that ended in an error."""
        return [name for name, result in self.data.get("checks", {}).items() if "error" in result]


def plan(pieces: Sequence[Piece], results: ResultsFile) -> str:
    """The pieces that are left, part by part, with the estimated seconds on an H200 and their sum."""
    rows, total = [["part", "pieces left", "done", "estimated s", "sum"]], 0.0
    for part in dict.fromkeys(piece.name.partition("/")[0] for piece in pieces):
        of = [piece for piece in pieces if piece.name.partition("/")[0] == part]
        left = [piece for piece in of if not results.done(piece)]
        seconds = sum(piece.estimate for piece in left)
        total += seconds
        rows.append([part, str(len(left)), str(len(of) - len(left)), f"{seconds:.0f}", f"{total:.0f}"])
    return text_table(rows)


def figures(checks: Mapping[str, Mapping[str, Any]]) -> str:
    """Two Markdown tables of a results file's ``checks``: differences beside what is allowed, and speeds with the peak of memory."""
    differences = ["| equality | largest difference | allowed |", "| --- | --- | --- |"]
    speeds = ["| speed | tokens/s | of the bf16 limit | peak, GiB |", "| --- | --- | --- | --- |"]
    for name, found in checks.items():
        part, _, piece = name.partition("/")
        tokens = found.get("tokens_per_second", found.get("sampled_tokens_per_second"))
        if "max_difference" in found:
            differences.append(f"| {piece} | {found['max_difference']:.1e} | {found['allowed']:g} |")
        elif part == "speed" and tokens is not None:
            limit = found.get("matmul_ceiling_fraction")
            speeds.append(
                f"| {piece} | {tokens:,.0f} | {'' if limit is None else f'{limit:.1%}'} | {found.get('peak_gib', 0.0):.1f} |"
            )
    return "\n".join([*differences, "", *speeds]) + "\n"

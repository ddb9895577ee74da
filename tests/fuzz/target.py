"""Targets of the fuzzer, and the judgement of what a reader did with a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from creditflow.envs.errors import CreditflowError

__all__ = ["MismatchError", "Outcome", "Target", "case_rng", "judge"]

LONGEST_MESSAGE: Final = 20_000  # characters; a message must not repeat its whole input
LEAST_MESSAGE: Final = 12  # characters

Mutator = Callable[[np.random.Generator, Sequence[bytes]], bytes]


class MismatchError(AssertionError):
    """Results that must be equal differ (of a round trip, of two readers), or a documented property does not hold."""


def _nothing() -> None:
    """Do nothing: most targets start no process."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One reader of untrusted input.

    Attributes:
        name: "<area>/<input>".
        read: reads a case, with an empty folder for files; raises what the reader raises.
        seeds: makes valid samples in a folder that is kept; every one must be accepted unchanged.
        mutate: makes a new case from the samples.
        traps: makes hand-made cases, which run first under every seed.
        cases: number of mutated cases in a run of fixed size; 0: never any, only traps.
        needs: packages without which the target is skipped.
        place: text that the message of every rejection must contain, such as the file's name; "" if there is none.
        seconds: processor time that one case may take.
        megabytes: memory by which the process may grow.
        may_reject: whether a case may be rejected; if not, one of our own errors is a finding too.
        close: ends what ``seeds`` started.
    """

    name: str
    read: Callable[[bytes, Path], None]
    seeds: Callable[[Path], Sequence[bytes]]
    mutate: Mutator
    traps: Callable[[], Sequence[bytes]] = tuple
    cases: int = 300
    needs: tuple[str, ...] = ()
    place: str = ""
    seconds: float = 5.0
    megabytes: int = 768
    may_reject: bool = True
    close: Callable[[], None] = _nothing

    def missing(self) -> list[str]:
        """Return the needed packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass(frozen=True)
class Outcome:
    """Outcome of a case.

    Attributes:
        kind: "accepted", "rejected" or "finding".
        what: exception or signal of a finding, and where it arose; findings are distinct by it.
        message: class and message of the error, shortened.
    """

    kind: str
    what: str = ""
    message: str = ""


def case_rng(seed: int, target: str, number: int) -> np.random.Generator:
    """Return the random generator of one case."""
    name = int.from_bytes(blake2b(target.encode(), digest_size=8).digest(), "little")
    return np.random.Generator(np.random.PCG64([seed, name, number]))


def judge(target: Target, error: BaseException | None, *, valid: bool) -> Outcome:
    """Return the outcome of a case.

    Args:
        target: target of the case.
        error: what its reader raised, if anything.
        valid: whether the case is an unchanged sample.
    """
    if error is None:
        return Outcome("accepted")
    text = str(error)
    shown = f"{type(error).__name__}: {text[:300]}"
    if not isinstance(error, CreditflowError):
        return Outcome("finding", f"{type(error).__name__} at {_origin(error)}", shown)
    if valid or not target.may_reject:
        return Outcome(
            "finding",
            f"{'a valid sample' if valid else 'a case that must be accepted'} is rejected at {_origin(error)}",
            shown,
        )
    if len(text) > LONGEST_MESSAGE:
        return Outcome("finding", f"a message of more than {LONGEST_MESSAGE} characters at {_origin(error)}", shown)
    if len(text) < LEAST_MESSAGE or target.place not in text:
        return Outcome("finding", f"no place in the message of {type(error).__name__} at {_origin(error)}", shown)
    return Outcome("rejected", message=shown)


def _origin(error: BaseException) -> str:
    """Return the innermost frame of the package in a traceback, else of the target: "file:line function"."""
    found, trace = "?", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = code.co_filename
        if "/creditflow/" in place:
            found = f"{place.rpartition('/creditflow/')[2]}:{trace.tb_lineno} {code.co_name}"
        elif found == "?" and "/fuzz/targets/" in place:
            found = f"{place.rpartition('/tests/')[2]}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
    return found

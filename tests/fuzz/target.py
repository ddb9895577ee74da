"""What one target of the fuzzer is, and which answers to a case are good."""

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

LONGEST_MESSAGE: Final = 20_000  # characters; an error that repeats its whole input floods terminals and logs
LEAST_MESSAGE: Final = 12

Mutator = Callable[[np.random.Generator, Sequence[bytes]], bytes]


class MismatchError(AssertionError):
    """Two ways to the same thing differ: a round trip, two readers, a promise of the documentation."""


def _nothing() -> None:
    """Most targets start nothing that must be ended."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One thing that reads.

    Attributes:
        name: "<area>/<what>".
        read: reads a case; gets an empty folder for files. Returns, or raises what the reader raised.
        seeds: valid samples, made in a folder that stays; every one must be accepted unchanged.
        mutate: a new case from the samples.
        traps: hand-made cases that run first, whatever the seed.
        cases: mutated cases of the bounded run; 0: none in any run, its traps are all there is.
        needs: packages without which the target is skipped.
        place: what the message of a refusal must contain, such as a file's name; "" for objects, which have no place.
        seconds: of processor time that one case may take.
        megabytes: that the process may grow by.
        refuses: whether a case may be refused at all; where it may not, even a named error is a finding.
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
    refuses: bool = True
    close: Callable[[], None] = _nothing

    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass(frozen=True)
class Outcome:
    """What a case led to.

    Attributes:
        kind: "accepted", "refused" or "finding".
        what: of a finding: exception or signal, and where it arose; equal ones are one finding.
        message: the error's own words, cut.
    """

    kind: str
    what: str = ""
    message: str = ""


def case_rng(seed: int, target: str, number: int) -> np.random.Generator:
    """The generator of one case."""
    name = int.from_bytes(blake2b(target.encode(), digest_size=8).digest(), "little")
    return np.random.Generator(np.random.PCG64([seed, name, number]))


def judge(target: Target, error: BaseException | None, *, valid: bool) -> Outcome:
    """Whether a reader's answer is good.

    Args:
        target: whose case it was.
        error: what was raised, if anything.
        valid: the case is an unchanged sample.
    """
    if error is None:
        return Outcome("accepted")
    text = str(error)
    shown = f"{type(error).__name__}: {text[:300]}"
    if not isinstance(error, CreditflowError):
        return Outcome("finding", f"{type(error).__name__} at {_origin(error)}", shown)
    if valid or not target.refuses:
        return Outcome(
            "finding", f"{'a valid sample' if valid else 'what must be taken'} is refused at {_origin(error)}", shown
        )
    if len(text) > LONGEST_MESSAGE:
        return Outcome("finding", f"a message of more than {LONGEST_MESSAGE} characters at {_origin(error)}", shown)
    if len(text) < LEAST_MESSAGE or target.place not in text:
        return Outcome("finding", f"no place in the message of {type(error).__name__} at {_origin(error)}", shown)
    return Outcome("refused", message=shown)


def _origin(error: BaseException) -> str:
    """The innermost frame of the package in a traceback, as "file:line function"; of a bare alarm too."""
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

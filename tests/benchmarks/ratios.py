"""What all benchmarks print in one form: speeds, those relative to another implementation, and what was left out and why.

``run.py`` collects these lines into one table.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from creditflow.train.arguments.programs import CommandParser

__all__ = [
    "LEFT_OUT",
    "RATIO",
    "SPEED",
    "fields_of",
    "has_torch",
    "leave_out",
    "parser_of",
    "print_ratio",
    "print_speed",
]

RATIO: Final = "ratio"
SPEED: Final = "speed"
LEFT_OUT: Final = "left out"


def parser_of(docstring: str | None) -> CommandParser:
    """A parser with the option that all benchmarks have."""
    parser = CommandParser(description=docstring)
    parser.add_argument("--toy", action="store_true", help="a few seconds of work, whose numbers mean nothing")
    return parser


def print_ratio(ours: str, peer: str, ratio: float) -> None:
    """Print how many times as fast ``ours`` is as ``peer``, both measured in this run."""
    print(f"{RATIO}\t{ratio:.3g}\t{ours}\t{peer}", flush=True)


def print_speed(what: str, per_second: float) -> None:
    """Print how many of something this package does in a second."""
    print(f"{SPEED}\t{per_second:.3g}\t{what}", flush=True)


def fields_of(line: str) -> list[str] | None:
    """The kind and the fields of a line that one of the functions here printed; None for any other line."""
    fields = line.rstrip("\n").split("\t")
    return fields if fields[0] in (RATIO, SPEED, LEFT_OUT) and len(fields) > 1 else None


def leave_out(part: str, reason: str) -> None:
    """Print which part is not measured, and why."""
    print(f"{LEFT_OUT}\t{part}\t{reason}", flush=True)


def has_torch(part: str) -> bool:
    """Whether torch and transformers are installed; if not, print that ``part`` is left out."""
    if find_spec("torch") and find_spec("transformers"):
        return True
    leave_out(
        part, "no torch here; .ci/venv train train,train-log,sb3,lora,serve installs it, and make bench finds it there"
    )
    return False

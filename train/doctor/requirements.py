"""Requirements of this package and its extras beside what is installed, from the metadata of distributions alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from creditflow.envs.errors import DataError
from creditflow.train.versions import version_numbers

__all__ = ["Requirement", "installed_version", "parse_requirement", "requirements"]

OURS: Final = "creditflow"
_REQUIREMENT: Final = re.compile(
    r"""(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[(?P<extras>[\w,\s-]+)\])?\s*\(?(?P<range>[^;()]*)\)?\s*
    (?:;\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"])?""",
    re.VERBOSE,
)
_BOUND: Final = re.compile(r"\s*(>=|<=|==|<|>)\s*([\w.]+)\s*")
_COMPARE: Final = {
    ">=": lambda found, bound: found >= bound,
    "<=": lambda found, bound: found <= bound,
    "==": lambda found, bound: found == bound,
    "<": lambda found, bound: found < bound,
    ">": lambda found, bound: found > bound,
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """A distribution that is required.

    Attributes:
        name: the distribution.
        bounds: pairs of operator and version.
        extra: the extra of ours that requires it; "" for what is always required.
        of: our own extras that this one contains ("creditflow[train]"); then ``name`` is "creditflow".
    """

    name: str
    bounds: tuple[tuple[str, str], ...] = ()
    extra: str = ""
    of: tuple[str, ...] = ()

    def allows(self, version: str) -> bool:
        """Whether a version is within the bounds, by its leading numbers.

        >>> parse_requirement("numpy>=1.26,<3").allows("2.0.1"), parse_requirement("numpy>=1.26").allows("1.9")
        (True, False)
        """
        installed = version_numbers(version)
        for operator, bound in self.bounds:
            required = version_numbers(bound)
            size = max(len(installed), len(required))
            padded = [numbers + (0,) * (size - len(numbers)) for numbers in (installed, required)]
            if not _COMPARE[operator](*padded):
                return False
        return True

    def __str__(self) -> str:
        return self.name + ",".join(operator + version for operator, version in self.bounds)


def parse_requirement(text: str) -> Requirement:
    """A line of ``Requires-Dist``, in the part of its grammar that this package uses.

    Raises:
        DataError: another form.
    """
    match = _REQUIREMENT.fullmatch(text.strip())
    ranges = [text_range for text_range in (match["range"] if match else "").split(",") if text_range.strip()]
    bounds = [_BOUND.fullmatch(text_range) for text_range in ranges]
    if match is None or not all(bounds):
        raise DataError(f"not a requirement of a form that is known here: {text[:80]!r}")
    extras = tuple(extra.strip() for extra in (match["extras"] or "").split(",") if extra.strip())
    return Requirement(
        match["name"],
        tuple((bound[1], bound[2]) for bound in bounds if bound),
        match["extra"] or "",
        extras if match["name"] == OURS else (),
    )


def requirements(lines: Sequence[str], extra: str = "") -> Iterator[Requirement]:
    """The requirements of one extra, those of the extras that it contains included; of "" those that are always there.

    Args:
        lines: ``Requires-Dist`` of this package.
        extra: name of the extra.
    """
    seen, waiting = {extra}, [extra]
    declared = [parse_requirement(line) for line in lines]
    while waiting:
        now = waiting.pop(0)
        for requirement in declared:
            if requirement.extra == now and requirement.of:
                waiting += [name for name in requirement.of if name not in seen]
                seen.update(requirement.of)
            elif requirement.extra == now:
                yield requirement


def installed_version(name: str, version: Callable[[str], str] = metadata.version) -> str:
    """The installed version of a distribution; "" if there is none."""
    try:
        return version(name)
    except metadata.PackageNotFoundError:
        return ""

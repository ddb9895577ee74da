"""The extras: what each is for, what it requires beside what is installed, and whether it is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from creditflow.envs.errors import DataError, install_command
from creditflow.train.versions import version_numbers

__all__ = [
    "MEGABYTES",
    "USES",
    "Extra",
    "Requirement",
    "extra_of",
    "installed_version",
    "parse_requirement",
    "requirements",
]

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


USES: Final = {
    "train": "train and evaluate language models with torch and transformers",
    "lora": "train LoRA adapters with peft",
    "train-log": "write TensorBoard and Weights & Biases logs",
    "bench": "plots and HTML reports",
    "serve": "serve search indexes over HTTP",
    "vllm": "sample with vLLM",
    "ray": "play on a Ray cluster",
    "dense": "dense retrieval with faiss",
    "lucene": "search with Lucene in a Java machine",
    "webshop": "name the nouns of products as the original WebShop does",
    "alfworld": "play on the real TextWorld engine, for comparison; brings GPL parts",
    "export": "write logs as Parquet, datasets and Minari",
    "openenv": "serve environments over OpenEnv",
    "sb3": "train with Stable-Baselines3",
    "trl": "train with TRL",
    "verl": "train with verl",
    "verifiers": "play and credit with verifiers",
    "rllm": "play and credit with rLLM, whose code comes from a checkout",
    "gem-llm": "play and credit with GEM",
    "skyrl-gym": "play and credit with SkyRL-gym",
    "tinker-cookbook": "play and credit with tinker-cookbook",
    "torchrl": "roll out and credit with TorchRL",
    "docs": "build the documentation site",
    "dev": "run the tests and linters",
}
# what each adds to the core on disk, in MB of 10^6 bytes; measured by tests/packaging/extra_sizes.py, see EXTRAS.md
MEGABYTES: Final = {
    "train": 1023, "lora": 1034, "train-log": 1152, "bench": 78, "serve": 5, "ray": 253, "dense": 1091,
    "lucene": 88, "webshop": 238, "alfworld": 300, "export": 323, "openenv": 317, "sb3": 850, "trl": 1302, "verl": 1749,
    "verifiers": 395, "rllm": 42, "gem-llm": 238, "skyrl-gym": 91, "torchrl": 884, "docs": 255, "dev": 366,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra and what is installed of it.

    Attributes:
        name: the extra; "" for what the package always needs.
        use: what it is for.
        found: version of each requirement that is there.
        missing: requirements that are not installed.
        outside: requirements that are installed in a version outside their range.
    """

    name: str
    use: str
    versions: dict[str, str]
    missing: tuple[Requirement, ...]
    outside: tuple[Requirement, ...]

    @property
    def state(self) -> str:
        """One of "ready", "other version", "in part" and "missing"."""
        if self.missing:
            return "in part" if self.versions else "missing"
        return "other version" if self.outside else "ready"

    @property
    def size(self) -> str:
        """What it adds to the core on disk; "" where it was not measured."""
        return f"{MEGABYTES[self.name]:,} MB" if self.name in MEGABYTES else ""

    @property
    def remedy(self) -> str:
        """The command that installs it; "" where it is ready."""
        if self.state == "ready":
            return ""
        return install_command(self.name)


def extra_of(lines: Sequence[str], name: str, version: Callable[[str], str] = installed_version) -> Extra:
    """Compare an extra with what is installed.

    Args:
        lines: ``Requires-Dist`` of this package.
        name: the extra, or "".
        version: the installed version of a distribution, "" for none; replaced in tests.
    """
    needed = list(dict.fromkeys(requirements(lines, name)))
    versions = {requirement.name: version(requirement.name) for requirement in needed}
    return Extra(
        name,
        USES.get(name, ""),
        {name: number for name, number in versions.items() if number},
        tuple(requirement for requirement in needed if not versions[requirement.name]),
        tuple(
            requirement
            for requirement in needed
            if versions[requirement.name] and not requirement.allows(versions[requirement.name])
        ),
    )

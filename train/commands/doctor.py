"""Show what is installed, what is missing and how to install it: versions, extras, engines, data.

  creditflow doctor
  creditflow doctor --json

The exit code is 1 if a required package is missing, or if a required package or one of a complete extra has an unsupported version.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import creditflow
from creditflow.envs.errors import DataError, install_command
from creditflow.train.arguments.outputs import add_json
from creditflow.train.text_table import terminal_width, text_table
from creditflow.train.versions import version_numbers

__all__ = [
    *(
        "MEGABYTES",
        "USES",
        "Extra",
        "Found",
        "Requirement",
        "add_arguments",
        "extra_of",
        "machine",
        "parse_requirement",
    ),
    *("report_text", "requirements", "run"),
]

USES: Final = {
    "train": "train and evaluate language models with torch and transformers, encode texts for dense retrieval",
    "lora": "train LoRA adapters with peft",
    "train-log": "write TensorBoard and Weights & Biases logs",
    "bench": "plots and HTML reports",
    "serve": "serve search indexes over HTTP",
    "vllm": "sample with vLLM",
    "lucene": "search with Lucene in a Java machine",
    "webshop": "name the nouns of products as the original WebShop does",
    "alfworld": "TextWorld, for its generated games and to compare our ALFWorld with; brings GPL parts",
    "parquet": "read logs from Parquet",
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
    "train": 1023, "lora": 1034, "train-log": 1152, "bench": 78, "serve": 5,
    "lucene": 88, "webshop": 238, "alfworld": 300, "parquet": 171, "openenv": 317, "sb3": 850, "trl": 1302, "verl": 1749,
    "verifiers": 395, "rllm": 42, "gem-llm": 238, "skyrl-gym": 91, "torchrl": 884, "docs": 255, "dev": 366,
}  # fmt: skip
SIZES: Final = (
    "adds: disk space in addition to the core's 115 MB, with the CPU build of torch (CUDA builds take gigabytes more; "
    "see train/commands/EXTRAS.md)"
)
OURS: Final = "creditflow"
LINKS: Final = ("agents", "assets", "envs", "train", "wrappers")  # in src/creditflow, to the root's folders
_REQUIREMENT: Final = re.compile(
    r"""(?P<name>[A-Za-z0-9][\w.-]*)\s*(?:\[(?P<extras>[\w,\s-]+)\])?\s*\(?(?P<range>[^;()]*)\)?\s*
    (?:;\s*extra\s*==\s*['"](?P<extra>[\w-]+)['"])?""",
    re.VERBOSE,
)
_BOUND: Final = re.compile(r"\s*(>=|<=|==|<|>)\s*([\w.]+)\s*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_json(parser, "print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    lines = metadata.requires(OURS) or []
    offered = metadata.metadata(OURS).get_all("Provides-Extra") or []
    core, extras = extra_of(lines, ""), [extra_of(lines, name) for name in USES if name in offered]
    findings = machine()
    if args.json:
        rows = [
            {
                "name": extra.name, "use": USES.get(extra.name, ""), "state": extra.state, "found": extra.versions,
                "missing": list(map(str, extra.missing)), "outside": list(map(str, extra.outside)), "remedy": extra.remedy,
            }
            for extra in (core, *extras)
        ]  # fmt: skip
        looked_for = [finding._asdict() for finding in findings]
        document = {"creditflow": creditflow.__version__, "machine": looked_for, "requirements": rows}
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        print(report_text(creditflow.__version__, core, extras, findings))
    return int(bool(core.missing) or any(extra.state == "other version" for extra in (core, *extras)))


class Requirement(NamedTuple):
    """A distribution that is required.

    Attributes:
        name: the distribution.
        bounds: pairs of operator and version.
        extra: the extra of ours that requires it; "" for what is always required.
        of: our own extras that this one contains ("creditflow[train]"); then ``name`` is "creditflow".
    """

    name: str
    bounds: tuple[tuple[str, str], ...]
    extra: str
    of: tuple[str, ...]

    def allows(self, version: str) -> bool:
        """Whether a version is within the bounds, by its leading numbers.

        >>> parse_requirement("numpy>=1.26,<3").allows("2.0.1"), parse_requirement("numpy>=1.26").allows("1.9")
        (True, False)
        """
        for operator, bound in self.bounds:
            installed, required = version_numbers(version), version_numbers(bound)
            size = max(len(installed), len(required))
            installed, required = (numbers + (0,) * (size - len(numbers)) for numbers in (installed, required))
            order = (installed > required) - (installed < required)
            if "<=>"[order + 1] not in operator:  # "<" is in "<" and "<=", "=" in "<=", "==" and ">="
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
    ranges = [text for text in (match["range"] if match else "").split(",") if text.strip()]
    bounds = [_BOUND.fullmatch(text) for text in ranges]
    if match is None or not all(bounds):
        raise DataError(f"not a requirement of a form that is known here: {text[:80]!r}")
    extras = tuple(extra.strip() for extra in (match["extras"] or "").split(",") if extra.strip())
    pairs = tuple((bound[1], bound[2]) for bound in bounds if bound)
    return Requirement(match["name"], pairs, match["extra"] or "", extras if match["name"] == OURS else ())


def requirements(lines: Sequence[str], extra: str = "") -> Iterator[Requirement]:
    """The requirements of one extra, those of the extras that it contains included; of "" those that are always there.

    Args:
        lines: ``Requires-Dist`` of this package.
        extra: name of the extra.
    """
    names = [extra]  # grows while it is read
    declared = [parse_requirement(line) for line in lines]
    for name in names:
        for requirement in declared:
            if requirement.extra == name:
                names += [contained for contained in requirement.of if contained not in names]
                if not requirement.of:
                    yield requirement


def installed_version(name: str) -> str:
    """The installed version of a distribution; "" if there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra and what is installed of it.

    Attributes:
        name: the extra; "" for what the package always needs.
        versions: version of each requirement that is there.
        missing: requirements that are not installed.
        outside: requirements that are installed in a version outside their range.
    """

    name: str
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
    def remedy(self) -> str:
        """The command that installs it; "" where it is ready."""
        return "" if self.state == "ready" else install_command(self.name)


def extra_of(lines: Sequence[str], name: str, version: Callable[[str], str] = installed_version) -> Extra:
    """Compare an extra with what is installed.

    Args:
        lines: ``Requires-Dist`` of this package.
        name: the extra, or "".
        version: the installed version of a distribution, "" for none; replaced in tests.
    """
    needed = list(dict.fromkeys(requirements(lines, name)))
    versions = {requirement.name: number for requirement in needed if (number := version(requirement.name))}
    missing = tuple(requirement for requirement in needed if requirement.name not in versions)
    present = [requirement for requirement in needed if requirement.name in versions]
    outside = tuple(requirement for requirement in present if not requirement.allows(versions[requirement.name]))
    return Extra(name, versions, missing, outside)


class Found(NamedTuple):
    """One line about the machine.

    Attributes:
        name: what was looked for.
        value: what was found; "" for nothing.
        remedy: what to do where it is missing and wanted; "" where nothing needs to be done.
    """

    name: str
    value: str
    remedy: str = ""


def machine() -> list[Found]:
    """What this machine has beside Python packages; what a broken installation raises is the remedy's text, not the end of the report."""
    findings = []
    for name, look in PARTS.items():
        try:
            findings.append(Found(name, *look()))
        except Exception as error:  # noqa: BLE001 - whatever is broken here is what the report is read for
            reason = " ".join(str(error).split())
            findings.append(Found(name, "", f"cannot be looked at: {type(error).__name__}: {reason[:300]}"))
    return findings


def _package() -> tuple[str, str]:
    folder = Path(creditflow.__file__).parent
    root = folder.parent.parent
    if not (root / "pyproject.toml").is_file():
        return str(folder), ""
    plain = [link for link in LINKS if not (folder / link).is_dir()]
    remedy = (
        f"{', '.join(plain)} in {folder} should be symbolic links and are plain files, as in a zip download or on Windows. The package runs "
        "from this checkout, but no wheel can be built from it. To mend it: git config core.symlinks true, then git checkout -- src/creditflow "
        "(Windows: with developer mode switched on)"
    )
    return f"checkout {root}", remedy if plain else ""


def _processors() -> tuple[str, str]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = ""
    with suppress(AttributeError, ValueError, OSError):
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"
    return f"{usable}{memory}", ""


def _gpu() -> tuple[str, str]:
    if find_spec("torch") is None:
        return "", "torch, which would see it, is not installed"
    import torch

    names = [str(torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
    if not names:
        return "", f"torch {torch.__version__} sees none; it trains on the CPU"
    return f"{', '.join(names)} (torch {torch.__version__})", ""


def _java() -> tuple[str, str]:
    from creditflow.envs.wikisearch.retrieval.engines.java import MissingJavaError, find_jar, find_java

    try:
        jar = find_jar()
        java = find_java(jar)
    except MissingJavaError as error:
        return "", str(error)
    return f"{jar.name} on Java {java.version} ({java.source})", ""


def _alfworld() -> tuple[str, str]:
    # where alfworld's own download command puts the games
    folder = Path(os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser() / "json_2.1.1"
    if folder.is_dir():
        splits = ", ".join(_subfolders(folder)) or "empty"
        return f"{folder} ({splits}); creditflow data check alfworld {folder}", ""
    return "", (
        f"not in {folder.parent}; the generated houses need no files. For the released games: pip install alfworld, "
        f"alfworld-download, then creditflow data check alfworld {folder.parent}"
    )


def _models() -> tuple[str, str]:
    home = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME", "~/.cache/huggingface")) / "hub"
    folder = Path(home).expanduser()
    folders = [name for name in _subfolders(folder) if name.startswith("models--")] if folder.is_dir() else []
    names = sorted(name.removeprefix("models--").replace("--", "/") for name in folders)
    if not names:
        return "", f"none in {folder}; recipes name theirs, models from scratch need none"
    return f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''} in {folder}", ""


def _subfolders(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


PARTS: Final[dict[str, Callable[[], tuple[str, str]]]] = {
    "python": lambda: (f"{platform.python_version()}, {platform.system()} {platform.machine()}", ""),
    "package": _package,
    "processors": _processors,
    "GPU": _gpu,
    "Lucene": _java,
    "ALFWorld's released games": _alfworld,
    "downloaded models": _models,
}


def report_text(version: str, core: Extra, extras: Sequence[Extra], findings: Sequence[Found]) -> str:
    """The whole report: what is there first, then what is missing with the command that gets it."""
    width = max(len(finding.name) for finding in findings)
    looked_for = [
        f"{name:{width}}  {value or '-'}{f'  ({remedy})' if remedy else ''}" for name, value, remedy in findings
    ]
    there = ", ".join(f"{name} {number}" for name, number in core.versions.items())
    needed = [f"needed packages: {there or 'none'}"]
    if core.state != "ready":
        needed.append(f"not as needed: {', '.join(map(str, (*core.missing, *core.outside)))}; {core.remedy}")
    paragraphs = [f"creditflow {version}", "\n".join(looked_for), "\n".join(needed)]
    ready = [(extra.name, _versions(extra), USES[extra.name]) for extra in extras if extra.state == "ready"]
    if ready:
        paragraphs.append(text_table([("extra", "version", "use"), *ready], width=terminal_width()))
    rows = [
        (extra.name, _state(extra), f"{MEGABYTES[extra.name]:,} MB" if extra.name in MEGABYTES else "?", USES[extra.name], extra.remedy)
        for extra in extras
        if extra.state != "ready"
    ]  # fmt: skip
    if rows:
        table = text_table([("extra", "state", "adds", "use", "install"), *rows], width=terminal_width())
        paragraphs.append(f"{table}\n\n{SIZES}")
    return "\n\n".join(paragraphs)


def _versions(extra: Extra) -> str:
    versions = [f"{name} {version}" for name, version in extra.versions.items()][:3]
    return ", ".join(versions) + (" …" if len(extra.versions) > len(versions) else "")


def _state(extra: Extra) -> str:
    if extra.state == "in part":
        names = [requirement.name for requirement in extra.missing]
        return f"in part: no {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
    if extra.state == "missing":
        return "missing"
    installed = ", ".join(extra.versions[requirement.name] for requirement in extra.outside)
    return f"needs {', '.join(map(str, extra.outside))}; there is {installed}"

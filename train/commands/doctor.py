"""Show what is installed, what is missing and how to install it: packages, extras, engines, data.

  creditflow doctor

The exit code is 1 if a required package is missing. `pip check` compares versions.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Callable, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import creditflow
from creditflow.envs.errors import install_command, required
from creditflow.train.text_table import terminal_width, text_table

__all__ = ["USES", "Extra", "Found", "add_arguments", "extra_of", "machine", "report_text", "run"]

USES: Final = {
    "train": "train and evaluate language models with torch and transformers, encode texts for dense retrieval",
    "lora": "train LoRA adapters with peft",
    "train-log": "write TensorBoard and Weights & Biases logs",
    "bench": "plots and HTML reports",
    "serve": "serve search indexes over HTTP",
    "vllm": "sample with vLLM",
    "lucene": "search with Lucene in a Java machine",
    "webshop": "name the nouns of products as the original WebShop does",
    "alfworld": "play on the real TextWorld engine, for comparison; brings GPL parts",
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
LINKS: Final = ("agents", "assets", "envs", "train", "wrappers")  # in src/creditflow, to the root's folders


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define no arguments."""


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - of every command
    """Run the command."""
    lines = metadata.requires("creditflow") or []
    offered = metadata.metadata("creditflow").get_all("Provides-Extra") or []
    core, extras = extra_of(lines, ""), [extra_of(lines, name) for name in USES if name in offered]
    print(report_text(creditflow.__version__, core, extras, machine()))
    return int(bool(core.missing))


def installed_version(name: str) -> str:
    """The installed version of a distribution; "" if there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


class Extra(NamedTuple):
    """An extra and what is installed of it.

    Attributes:
        name: the extra; "" for what the package always needs.
        versions: version of each distribution that is there.
        missing: distributions that are not installed.
    """

    name: str
    versions: dict[str, str]
    missing: tuple[str, ...]

    @property
    def state(self) -> str:
        """One of "ready", "missing", and what is missing of an extra that is there in part."""
        if not self.missing:
            return "ready"
        return f"in part: no {_some(self.missing)}" if self.versions else "missing"


def extra_of(lines: Sequence[str], name: str, version: Callable[[str], str] = installed_version) -> Extra:
    """Compare an extra with what is installed.

    Args:
        lines: ``Requires-Dist`` of this package.
        name: the extra, or "".
        version: the installed version of a distribution, "" for none; replaced in tests.
    """
    names = [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in required(name, lines)]
    versions = {distribution: version(distribution) for distribution in dict.fromkeys(names)}
    missing = tuple(distribution for distribution, number in versions.items() if not number)
    return Extra(name, {distribution: number for distribution, number in versions.items() if number}, missing)


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
        jar, java = find_jar(), find_java()
    except MissingJavaError as error:
        return "", str(error)
    return f"{jar.name} with {java}", ""


def _alfworld() -> tuple[str, str]:
    # where alfworld's own download command puts the games
    folder = Path(os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser() / "json_2.1.1"
    if folder.is_dir():
        splits = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "empty"
        return f"{folder} ({splits}); creditflow data check alfworld {folder}", ""
    return "", (
        f"not in {folder.parent}; the generated houses need no files. For the released games: pip install alfworld, "
        f"alfworld-download, then creditflow data check alfworld {folder.parent}"
    )


PARTS: Final[dict[str, Callable[[], tuple[str, str]]]] = {
    "python": lambda: (f"{platform.python_version()}, {platform.system()} {platform.machine()}", ""),
    "package": _package,
    "GPU": _gpu,
    "Lucene": _java,
    "ALFWorld's released games": _alfworld,
}


def report_text(version: str, core: Extra, extras: Sequence[Extra], findings: Sequence[Found]) -> str:
    """The whole report: what is there first, then what is missing with the command that gets it."""
    width = max(len(finding.name) for finding in findings)
    looked_for = [
        f"{name:{width}}  {value or '-'}{f'  ({remedy})' if remedy else ''}" for name, value, remedy in findings
    ]
    needed = f"needed packages: {', '.join(f'{name} {number}' for name, number in core.versions.items()) or 'none'}"
    if core.missing:
        needed += f"\nmissing: {', '.join(core.missing)}; {install_command('')}"
    paragraphs = [f"creditflow {version}", "\n".join(looked_for), needed]
    ready, others = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for extra in extras:
        use = USES[extra.name]
        if extra.missing:
            others.append((extra.name, extra.state, use, install_command(extra.name)))
        else:
            versions = [f"{name} {number}" for name, number in extra.versions.items()]
            ready.append((extra.name, _some(versions), use))
    if ready:
        paragraphs.append(text_table([("extra", "version", "use"), *ready], width=terminal_width()))
    if others:
        paragraphs.append(text_table([("extra", "state", "use", "install"), *others], width=terminal_width()))
        paragraphs.append("sizes on disk: train/commands/EXTRAS.md")
    return "\n\n".join(paragraphs)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")

"""Show what is installed, what is missing and how to install it: packages, extras, engines, data.

  creditflow doctor

The exit code is 1 if a required package is missing. `pip check` compares versions.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import creditflow
from creditflow.envs.errors import install_command, required
from creditflow.train.text_table import terminal_width, text_table

__all__ = ["add_arguments", "machine", "packages_of", "run"]

LINKS: Final = ("agents", "assets", "envs", "train", "wrappers")  # in src/creditflow, to the root's folders


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define no arguments."""


def run(args: argparse.Namespace) -> int:  # noqa: ARG001 - of every command
    """Run the command."""
    print(f"creditflow {creditflow.__version__}\n")
    for name, line in machine().items():
        print(f"{name}: {line}")
    needed = packages_of("")
    print(f"needed packages: {', '.join(f'{name} {version}' for name, version in needed.items() if version) or 'none'}")
    missing = [name for name, version in needed.items() if not version]
    if missing:
        print(f"missing: {', '.join(missing)}; {install_command('')}")
    rows = []
    for extra in metadata.metadata("creditflow").get_all("Provides-Extra") or []:
        packages = packages_of(extra)
        absent = [name for name, version in packages.items() if not version]
        state = f"missing: {', '.join(absent)}" if absent else "ready"
        rows.append([extra, state, install_command(extra) if absent else ""])
    print("\n" + text_table([["extra", "state", "install"], *rows], width=terminal_width()))
    print("\nwhat each extra is for, and its size on disk: train/commands/EXTRAS.md")
    return int(bool(missing))


def packages_of(extra: str) -> dict[str, str]:
    """The installed version of each distribution that an extra requires, or the package itself for ""; "" if it is missing."""
    requirements = required(extra, metadata.requires("creditflow") or [])
    names = [re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements]
    return {name: _installed_version(name) for name in dict.fromkeys(names)}


def _installed_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def machine() -> dict[str, str]:
    """One line about each thing that this machine has beside Python packages; a broken installation is a line, not the end of the report."""
    lines = {}
    for name, look in PARTS.items():
        try:
            lines[name] = look()
        except Exception as error:  # noqa: BLE001 - whatever is broken here is what the report is read for
            reason = " ".join(str(error).split())
            lines[name] = f"cannot be looked at: {type(error).__name__}: {reason[:300]}"
    return lines


def _package() -> str:
    folder = Path(creditflow.__file__).parent
    root = folder.parent.parent
    if not (root / "pyproject.toml").is_file():
        return str(folder)
    plain = [link for link in LINKS if not (folder / link).is_dir()]
    if not plain:
        return f"checkout {root}"
    return (
        f"checkout {root}, in which {', '.join(plain)} in {folder} are plain files and should be symbolic links, as in a zip download or on "
        "Windows. The package runs, but no wheel can be built from it. To mend it: git config core.symlinks true, then git checkout -- "
        "src/creditflow (Windows: with developer mode switched on)"
    )


def _gpu() -> str:
    if find_spec("torch") is None:
        return "unknown; torch, which would see it, is not installed"
    import torch

    names = [str(torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
    return f"{', '.join(names) or 'none, so models run on the CPU'} (torch {torch.__version__})"


def _java() -> str:
    from creditflow.envs.wikisearch.retrieval.engines.java import MissingJavaError, find_jar, find_java

    try:
        return f"{find_jar().name} with {find_java()}"
    except MissingJavaError as error:
        return f"none; {error}"


def _alfworld() -> str:
    # where alfworld's own download command puts the games
    folder = Path(os.environ.get("ALFWORLD_DATA") or "~/.cache/alfworld").expanduser() / "json_2.1.1"
    if folder.is_dir():
        splits = ", ".join(sorted(entry.name for entry in folder.iterdir())) or "empty"
        return f"{folder} ({splits}); creditflow data check alfworld {folder}"
    return (
        f"none in {folder.parent}; the generated houses need no files. For the released games: pip install alfworld, "
        f"alfworld-download, then creditflow data check alfworld {folder.parent}"
    )


PARTS: Final[dict[str, Callable[[], str]]] = {
    "python": lambda: f"{platform.python_version()}, {platform.system()} {platform.machine()}",
    "package": _package,
    "GPU": _gpu,
    "Lucene": _java,
    "ALFWorld's released games": _alfworld,
}

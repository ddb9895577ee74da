"""What this machine has beside Python packages: the checkout, processors, memory, a GPU, Java, files of the environments."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import creditflow
from creditflow.envs.wikisearch.retrieval.engines.java import MissingJavaError, find_jar, find_java

__all__ = ["Found", "machine"]

ALFWORLD_VARIABLE: Final = "ALFWORLD_DATA"  # where alfworld's own download command puts the games
ALFWORLD_DEFAULT: Final = Path("~/.cache/alfworld")
GAMES: Final = "json_2.1.1"
LINKS: Final = ("agents", "assets", "envs", "train", "wrappers")  # in src/creditflow, to the root's folders


@dataclass(frozen=True, slots=True)
class Found:
    """One line of the report.

    Attributes:
        name: what was looked for.
        value: what was found; "" for nothing.
        remedy: what to do where it is missing and wanted; "" where nothing needs to be done.
    """

    name: str
    value: str
    remedy: str = ""


def machine() -> list[Found]:
    """Everything that is looked for; what a broken installation raises is the remedy's text, not the end of the report."""
    return [_looked(name, look) for name, look in PARTS.items()]


def _looked(name: str, part: Callable[[str], Found]) -> Found:
    try:
        return part(name)
    except Exception as error:  # noqa: BLE001 - whatever is broken here is what the report is read for
        reason = " ".join(str(error).split())
        return Found(name, "", f"cannot be looked at: {type(error).__name__}: {reason[:300]}")


def _python(name: str) -> Found:
    return Found(name, f"{platform.python_version()}, {platform.system()} {platform.machine()}")


def _package(name: str) -> Found:
    folder = Path(creditflow.__file__).parent
    root = folder.parent.parent
    if not (root / "pyproject.toml").is_file():
        return Found(name, str(folder))
    plain = [link for link in LINKS if not (folder / link).is_dir()]
    return Found(
        name,
        f"checkout {root}",
        f"{', '.join(plain)} in {folder} should be symbolic links and are plain files, as in a zip download or on Windows. The package runs from this "
        "checkout, but no wheel can be built from it. To mend it: git config core.symlinks true, then git checkout -- src/creditflow (Windows: "
        "with developer mode switched on)" if plain else "",
    )  # fmt: skip


def _processors(name: str) -> Found:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = ""
    with suppress(AttributeError, ValueError, OSError):
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB of memory"
    return Found(name, f"{usable}{memory}")


def _gpu(name: str) -> Found:
    if find_spec("torch") is None:
        return Found(name, "", "torch, which would see it, is not installed")
    import torch

    names = [str(torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
    build = f"torch {torch.__version__}"
    return Found(
        name,
        f"{', '.join(names)} ({build})" if names else "",
        "" if names else f"{build} sees none; it trains on the CPU",
    )


def _java(name: str) -> Found:
    try:
        jar = find_jar()
        java = find_java(jar)
    except MissingJavaError as error:
        return Found(name, "", str(error))
    return Found(name, f"{jar.name} on Java {java.version} ({java.source})")


def _alfworld(name: str) -> Found:
    named = os.environ.get(ALFWORLD_VARIABLE)
    folder = (Path(named) if named else ALFWORLD_DEFAULT).expanduser() / GAMES
    if not folder.is_dir():
        return Found(
            name, "",
            f"not in {folder.parent}; the generated houses need no files. For the released games: pip install alfworld, "
            f"alfworld-download, then creditflow data check alfworld {folder.parent}",
        )  # fmt: skip
    splits = ", ".join(sorted(_subfolders(folder)))
    return Found(name, f"{folder} ({splits or 'empty'}); creditflow data check alfworld {folder}")


def _subfolders(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.name for entry in entries if entry.is_dir())


def _models(name: str) -> Found:
    home = os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME", "~/.cache/huggingface")) / "hub"
    folder = Path(home).expanduser()
    names = sorted(folder_name.removeprefix("models--").replace("--", "/") for folder_name in _models_in(folder))
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return Found(
        name,
        f"{listed} in {folder}" if names else "",
        "" if names else f"none in {folder}; recipes name theirs, models from scratch need none",
    )


def _models_in(folder: Path) -> Iterator[str]:
    if folder.is_dir():
        yield from (name for name in _subfolders(folder) if name.startswith("models--"))


PARTS: Final[dict[str, Callable[[str], Found]]] = {
    "python": _python,
    "package": _package,
    "processors": _processors,
    "GPU": _gpu,
    "Lucene": _java,
    "ALFWorld's released games": _alfworld,
    "downloaded models": _models,
}

"""Where commands write: never over an input; over what exists only with ``--force`` or ``--resume``; one at a time.

A command declares what it reads with ``add_input`` and what it writes with ``add_output``; the entry point then runs it
inside ``claimed_by``. A command that learns its output only from a file claims it itself (``claimed``). Whatever names
an existing file or folder inside another argument (``--agent hf:PATH``, ``--env-set levels=PATH``) is an input too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, Literal

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.leftovers import is_leftover, remove_leftovers, remove_leftovers_below
from creditflow.envs.files.locks import locked
from creditflow.train.run.interrupted import partial_of
from creditflow.train.run.named_paths import paths_named

__all__ = ["Output", "Target", "add_input", "add_output", "claimed", "claimed_by", "named"]


_NO_PATHS: Final = ("input_names", "output_names", "panel")


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a command writes.

    Attributes:
        kind: "file", "folder", or "either", as another argument says.
        grows: it grows as NAME.partial, which ``--resume`` goes on with.
        also: a second file that is written beside it, by its path.
        owned: whether an entry of the folder is one that the command writes. ``--force`` refuses a folder that holds
            anything else, whoever put it there; None for a folder that files are only added to.
        cleared: ``--force`` empties the folder first; otherwise the command puts a new one in its place.
        kept: it is read and appended to, so it may exist.
        only_with: the name of the flag without which nothing is written there.
    """

    kind: Literal["file", "folder", "either"] = "file"
    grows: bool = False
    also: Callable[[Path], Path] | None = None
    owned: Callable[[Path], bool] | None = None
    cleared: bool = False
    kept: bool = False
    only_with: str = ""


@dataclass(frozen=True)
class Target:
    """An output that was asked for.

    Attributes:
        path: where.
        output: what it is.
        name: how the person named it: "--out".
    """

    path: Path
    output: Output
    name: str


def add_input(parser: argparse.ArgumentParser, name: str, **settings: Any) -> None:
    """An argument that names a file or folder to read; several after commas, if it is so written."""
    action = parser.add_argument(name, **settings)
    parser.set_defaults(input_names=(*(parser.get_default("input_names") or ()), action.dest))


def add_output(parser: argparse.ArgumentParser, flag: str, output: Output = Output(), **settings: Any) -> None:
    """An option that names what is written; the first brings ``--force`` along."""
    action = parser.add_argument(flag, **settings)
    before = parser.get_default("output_names") or ()
    if not before:
        parser.add_argument("--force", action="store_true", help="write over what exists (never over an input)")
    parser.set_defaults(output_names=(*before, (action.dest, flag, output)))


def named(*patterns: str) -> Callable[[Path], bool]:
    """Whether an entry has one of these names."""
    return lambda entry: any(fnmatch(entry.name, pattern) for pattern in patterns)


@contextlib.contextmanager
def claimed_by(args: argparse.Namespace) -> Iterator[None]:
    """Claim what a command's arguments name as outputs while it runs; see ``claimed``."""
    declared = getattr(args, "output_names", ())
    targets = [
        Target(Path(path), output, flag)
        for dest, flag, output in declared
        if (path := getattr(args, dest)) not in (None, "", "-")
        if not output.only_with or getattr(args, output.only_with)
    ]
    read = getattr(args, "input_names", ())
    others = vars(args).keys() - {*read, *(dest for dest, _, _ in declared), *_NO_PATHS}
    inputs = paths_named([getattr(args, name) for name in read])
    inputs += paths_named([getattr(args, name) for name in sorted(others)], alone=False)
    with claimed(
        targets, inputs,
        force=getattr(args, "force", False), resume=getattr(args, "resume", False), resumes=hasattr(args, "resume"),
    ):  # fmt: skip
        yield


@contextlib.contextmanager
def claimed(
    targets: Sequence[Target],
    inputs: Iterable[Path],
    *,
    force: bool = False,
    resume: bool = False,
    resumes: bool = True,
) -> Iterator[None]:
    """Check outputs against the rule, lock them, clean up what killed commands left, and make room for ``--force``.

    Args:
        targets: what will be written.
        inputs: what is read.
        force, resume: as the person said.
        resumes: whether the command can go on with what exists.

    Raises:
        ConfigError: an output is an input, holds one, exists, or is written by another command.
    """
    found = [path for path in inputs if path.exists()]
    written = [
        *targets,
        *(Target(t.output.also(t.path), Output(), f"what lies beside {t.name},") for t in targets if t.output.also),
    ]
    for number, target in enumerate(written):
        for path in [target.path, *([partial_of(target.path)] if target.output.grows else [])]:
            _refuse_inputs(Target(path, target.output, target.name), found)
        for other in written[:number]:
            if _same(target.path, other.path):
                raise ConfigError(f"{target.name} {target.path} and {other.name} {other.path} are one: name two")
    for target in written:
        _refuse_existing(target, force=force, resume=resume, resumes=resumes)
    with contextlib.ExitStack() as stack:
        for target in targets:
            stack.enter_context(locked(target.path))
        for target in written:
            _make_room(target, force=force)
        yield


def _refuse_inputs(target: Target, inputs: Sequence[Path]) -> None:
    out = target.path
    for path in inputs:
        if _same(out, path):
            raise ConfigError(f"{target.name} {out} is the input {path}: it would be lost; name another output")
        real_out, real_in = Path(os.path.realpath(out)), Path(os.path.realpath(path))
        if target.output.kind != "file" and real_in.is_relative_to(real_out):
            raise ConfigError(f"{target.name} {out} is a folder that holds the input {path}; name another output")
        if path.is_dir() and out.exists() and real_out.is_relative_to(real_in):
            raise ConfigError(f"{target.name} {out} lies in the input {path} and exists; name another output")


def _same(a: Path, b: Path) -> bool:
    """Whether two paths are one file or folder: by symbolic and hard links, or by another spelling."""
    try:
        return a.samefile(b)
    except OSError:
        return os.path.realpath(a) == os.path.realpath(b)


def _refuse_existing(target: Target, *, force: bool, resume: bool, resumes: bool) -> None:
    path, output = target.path, target.output
    if not path.exists():
        return
    if output.kind == "file" and not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file (- is standard output)"
        raise ConfigError(f"{target.name} {path} is {what}; it should name a file")
    if output.kind == "folder" and not path.is_dir():
        raise ConfigError(f"{target.name} {path} is a file; it should name a folder")
    if output.kept or (path.is_dir() and all(map(is_leftover, path.iterdir()))):
        return
    if not force and not resume:
        ways = "--force writes over it" + (", --resume goes on with it" if resumes else "")
        raise ConfigError(f"{target.name} {path} exists and is not empty: {ways}; or name another output")
    if force and output.owned and path.is_dir():
        strange = sorted(entry.name for entry in path.iterdir() if not (output.owned(entry) or is_leftover(entry)))
        if strange:
            raise ConfigError(
                f"{target.name} {path} holds {', '.join(map(repr, strange[:5]))}, which this command did not write: "
                "--force would lose it; move it away, or name another output"
            )


def _make_room(target: Target, *, force: bool) -> None:
    """Remove what killed commands left, and with ``force`` what is begun anew."""
    path, output = target.path, target.output
    remove_leftovers(path)
    if output.grows:
        remove_leftovers(partial_of(path))
        if force:
            partial_of(path).unlink(missing_ok=True)
    if output.owned and path.is_dir():
        remove_leftovers_below(path)
    if force and output.cleared and path.is_dir():
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

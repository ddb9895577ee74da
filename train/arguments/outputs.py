"""The files of a command: the log that it reads, and the outputs that it writes.

Rules for outputs: never an input; existing data only with ``--force`` or ``--resume``; one writer at a time.
A command or program declares its inputs with ``add_input`` and its outputs with ``add_output``; the entry point then runs
it inside ``claimed_by``. A command that reads the name of its output from a file calls ``claimed`` itself. An existing file
or folder named inside another argument (``--agent hf:PATH``, ``--env-set levels=PATH``) is an input too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.atomic import atomic_writer, is_leftover, locked, remove_leftovers, remove_leftovers_below
from creditflow.train.run.interrupted import partial_of
from creditflow.train.run.named_paths import paths_named

if TYPE_CHECKING:
    from creditflow.wrappers.records.group import Group
    from creditflow.wrappers.records.jsonl import Log

__all__ = [
    "Output",
    "Target",
    "add_input",
    "add_json",
    "add_log_argument",
    "add_output",
    "claimed",
    "claimed_by",
    "log_of",
    "named",
    "open_output",
    "print_text",
    "read_log",
]


MAX_NAME: Final = 220  # bytes of a file name; most file systems take 255, and commands add endings such as .partial
_NO_PATHS: Final = ("input_names", "output_names", "panel", "command_line")


@dataclass(frozen=True, kw_only=True)
class Output:
    """Properties of a command's output.

    Attributes:
        kind: "file" or "folder".
        grows: it is written as NAME.partial first, which ``--resume`` continues.
        owned: whether an entry of the folder is one that the command writes. ``--force`` is rejected for a folder with
            any other entry; None for a folder that files are only added to.
        cleared: ``--force`` empties the folder first; otherwise the command replaces the folder.
        first: name of the file that is written first into the folder. ``--resume`` is rejected for a folder with other
            entries and without it, because they are not the command's.
        appended: it is read and appended to, so it may exist.
        only_with: name of the flag without which nothing is written there.
    """

    kind: Literal["file", "folder"] = "file"
    grows: bool = False
    owned: Callable[[Path], bool] | None = None
    cleared: bool = False
    first: str = ""
    appended: bool = False
    only_with: str = ""


@dataclass(frozen=True)
class Target:
    """An output of the running command.

    Attributes:
        path: path of the output.
        output: its properties.
        name: the argument that names it, such as "--out".
    """

    path: Path
    output: Output
    name: str

    def __post_init__(self) -> None:
        named = Path(os.path.realpath(self.path))
        if not named.name or named.is_symlink():  # the root folder, or a link that leads to itself
            raise ConfigError(f"{self.name} {self.path}: the name of a file or folder expected")
        length = len(os.fsencode(named.name))
        if length > MAX_NAME:  # now, and not when everything has been played
            raise ConfigError(
                f"{self.name} {str(self.path)[:60]}…: a file name of at most {MAX_NAME} bytes expected, got {length}"
            )


def add_input(parser: argparse.ArgumentParser, name: str, **settings: Any) -> None:
    """Define an argument that names a file or folder to read, or several separated by commas."""
    action = parser.add_argument(name, **settings)
    parser.set_defaults(input_names=(*(parser.get_default("input_names") or ()), action.dest))


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    """Define ``--json``; ``what`` is its help."""
    parser.add_argument("--json", action="store_true", help=what)


def add_output(parser: argparse.ArgumentParser, flag: str, output: Output = Output(), **settings: Any) -> None:
    """Define an option that names an output; the first one also defines ``--force``, and one that grows ``--resume``."""
    action = parser.add_argument(flag, type=_output_path, **settings)
    before = parser.get_default("output_names") or ()
    if not before:
        parser.add_argument("--force", action="store_true", help="overwrite an existing output (never an input)")
    if output.grows:
        parser.add_argument(
            "--resume", action="store_true", help=f"continue an interrupted {flag} from its partial output"
        )
    parser.set_defaults(output_names=(*before, (action.dest, flag, output)))


def add_log_argument(parser: argparse.ArgumentParser, *, optional: bool = False, grouping: bool = True) -> None:
    """Define the positional argument IN.jsonl, and with ``grouping`` the option ``--group-by``."""
    add_input(
        parser,
        "input",
        nargs="?" if optional else None,
        metavar="IN.jsonl",
        help="trajectory log; - reads standard input",
    )
    if grouping:
        parser.add_argument(
            "--group-by",
            choices=["group", "task"],
            default="group",
            help="group trajectories as in the log, or all trajectories of a task (default group)",
        )


def read_log(args: argparse.Namespace, fields: Collection[str] | None = None) -> list[Group]:
    """Read the groups of the log that the arguments name; as ``log_of``."""
    return list(log_of(args, fields).groups)


def log_of(args: argparse.Namespace, fields: Collection[str] | None = None) -> Log:
    """Read the log that the arguments name.

    Args:
        args: the arguments of ``add_log_argument``.
        fields: text fields to keep; None for all.
    """
    from creditflow.wrappers.records.jsonl import read_log as read  # imported late: help does not need it

    return read(sys.stdin if args.input == "-" else args.input, by=getattr(args, "group_by", "group"), fields=fields)


def print_text(text: str, path: str) -> None:
    """Print a text to standard output for "-", else write it to a file in UTF-8."""
    with open_output(path, encoding="utf-8") as stream:
        print(text, file=stream)


def open_output(path: str, *, encoding: str = "ascii") -> AbstractContextManager[IO[str]]:
    """Open an output file, or standard output for "-"."""
    return contextlib.nullcontext(sys.stdout) if path == "-" else atomic_writer(path, encoding=encoding)


def _output_path(text: str) -> str:
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(
            "the name of a file or folder expected, got " + ("a NUL" if text else "an empty text")
        )
    return text


def named(*patterns: str) -> Callable[[Path], bool]:
    """A function that tests whether an entry has one of these names."""
    return lambda entry: any(fnmatch(entry.name, pattern) for pattern in patterns)


@contextlib.contextmanager
def claimed_by(args: argparse.Namespace) -> Iterator[None]:
    """Claim the outputs in a command's arguments while it runs; see ``claimed``."""
    declared = getattr(args, "output_names", ())
    targets = [
        Target(Path(path), output, flag)
        for dest, flag, output in declared
        if (path := getattr(args, dest)) not in (None, "-")
        if not output.only_with or getattr(args, output.only_with)
    ]
    read = getattr(args, "input_names", ())
    undeclared = vars(args).keys() - {*read, *(dest for dest, _, _ in declared), *_NO_PATHS}
    inputs = paths_named([getattr(args, name) for name in read])
    inputs += paths_named([getattr(args, name) for name in sorted(undeclared)], alone=False)
    with claimed(
        targets,
        inputs,
        force=getattr(args, "force", False),
        resume=getattr(args, "resume", False),
        resumes=hasattr(args, "resume"),
    ):
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
    """Check outputs against the rules, lock them, clean up after killed commands, and with ``force`` remove old data.

    Args:
        targets: the outputs.
        inputs: the inputs.
        force, resume: whether ``--force`` and ``--resume`` are given.
        resumes: whether the command can continue an existing output.

    Raises:
        ConfigError: an output is an input, contains one, exists, or is being written by another command.
        DataError: ``resume``, and a folder holds no run of the command.
    """
    existing = [path for path in inputs if path.exists()]
    for number, target in enumerate(targets):
        for path in [target.path, *([partial_of(target.path)] if target.output.grows else [])]:
            _refuse_inputs(Target(path, target.output, target.name), existing)
        for earlier in targets[:number]:
            if _same(target.path, earlier.path):
                raise ConfigError(
                    f"{target.name} {target.path} and {earlier.name} {earlier.path} are the same; choose two outputs"
                )
    for target in targets:
        _refuse_existing(target, force=force, resume=resume, resumes=resumes)
    with contextlib.ExitStack() as stack:
        for target in targets:
            stack.enter_context(locked(target.path))
        for target in targets:
            _make_room(target, force=force)
        yield


def _refuse_inputs(target: Target, inputs: Sequence[Path]) -> None:
    out = target.path
    for path in inputs:
        if _same(out, path):
            raise ConfigError(f"{target.name} {out} is the input {path}, which would be lost; choose another output")
        real_out, real_in = Path(os.path.realpath(out)), Path(os.path.realpath(path))
        if target.output.kind != "file" and real_in.is_relative_to(real_out):
            raise ConfigError(f"{target.name} {out} is a folder that contains the input {path}; choose another output")
        if path.is_dir() and out.exists() and real_out.is_relative_to(real_in):
            raise ConfigError(
                f"{target.name} {out} is inside the input {path} and already exists; choose another output"
            )


def _same(a: Path, b: Path) -> bool:
    """Whether two paths name the same file or folder, also through links or as relative and absolute path."""
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
        raise ConfigError(f"{target.name} {path} is {what}; expected a file")
    if output.kind == "folder" and not path.is_dir():
        raise ConfigError(f"{target.name} {path} is a file; expected a folder")
    if output.appended or (path.is_dir() and all(map(is_leftover, path.iterdir()))):
        return
    if not force and not resume:
        ways = "use --force to replace it" + (", --resume to continue it" if resumes else "")
        raise ConfigError(f"{target.name} {path} already exists; {ways}, or choose another output")
    if resume and not force and output.first and not (path / output.first).is_file():
        raise DataError(
            f"{target.name} {path} is not empty and has no {output.first}, so it contains no run that this command could "
            "resume; choose another output"
        )
    if force and output.owned and path.is_dir():
        foreign = sorted(entry.name for entry in path.iterdir() if not (output.owned(entry) or is_leftover(entry)))
        if foreign:
            raise ConfigError(
                f"{target.name} {path} contains {', '.join(map(repr, foreign[:5]))}, which this command did not write: "
                "--force would delete it. Move it away, or choose another output"
            )


def _make_room(target: Target, *, force: bool) -> None:
    """Remove the leftovers of killed commands, and with ``force`` the old output."""
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

"""Create a template for your own credit scheme, environment or agent: a module, its tests and a pyproject.toml.

  creditflow new scheme mine
  creditflow new env maze --out work/maze
  creditflow new agent greedy --out work/greedy

The template runs as generated and its tests pass (pytest DIR). Use DIR/NAME.py:CLASS wherever a command takes a scheme,
an environment or an agent; after `pip install -e DIR` the name is enough. With an environment comes
NAME.yaml, which trains a small model in it.
"""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.plugins import GROUPS, Kind
from creditflow.train.arguments.outputs import Output, Target, claimed

__all__ = ["add_arguments", "run"]

KINDS: Final[dict[str, Kind]] = {"scheme": "scheme", "env": "environment", "agent": "agent"}
MAX_NAME: Final = 40
_TOOLS: Final = ("conftest", "setup")  # modules that have a meaning in a project's folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("kind", choices=KINDS, help="what to create: scheme, env or agent")
    parser.add_argument("name", metavar="NAME", help="name of the class and module (lower-case letters, digits and _)")
    parser.add_argument("--out", default="", metavar="DIR", help="folder to write to (default: a new folder NAME)")
    parser.add_argument("--force", action="store_true", help="replace files that exist")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    _check_name(args.kind, args.name)
    folder = Path(args.out or args.name)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder} is a file; expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    # these files may stand among others
    targets = [Target(folder / file, Output(), "the file") for file in _templates(args.kind, args.name)]
    with claimed(targets, [], force=args.force, resumes=False):
        _write(folder, args.kind, args.name)
    return 0


def _values(kind: str, name: str) -> dict[str, str]:
    """What is put into the templates."""
    words = [word for word in name.split("_") if word]
    return {
        "name": name,
        "Class": "".join(word.capitalize() for word in words),
        "kind": KINDS[kind],
        "group": GROUPS[KINDS[kind]],
        "dashed": "-".join(words),
    }


def _filled(template: str, values: Mapping[str, str]) -> str:
    return Template((files("creditflow.assets") / "templates" / f"{template}.txt").read_text("utf-8")).substitute(
        values
    )


def _templates(kind: str, name: str) -> dict[str, str]:
    """The template of each file."""
    files = {f"{name}.py": kind, f"test_{name}.py": f"{kind}_test"}
    return files | ({f"{name}.yaml": f"{kind}_train"} if kind == "env" else {})


def _write(folder: Path, kind: str, name: str) -> None:
    values = _values(kind, name)
    project = folder / "pyproject.toml"
    for file, template in {**_templates(kind, name), "pyproject.toml": "pyproject"}.items():
        text = _filled(template, values)
        if file == project.name and project.exists():
            print(f"{project} exists: to make {name} known by its name, add\n\n" + _entry(values), file=sys.stderr)
            continue
        with atomic_writer(folder / file, encoding="utf-8") as stream:
            stream.write(text)
    print(f"{folder / f'{name}.py'}:{values['Class']}")
    print(
        f"its first lines show how to run it; with pytest installed, test it with: python -m pytest {shlex.quote(str(folder))}",
        file=sys.stderr,
    )
    if kind == "env":
        module, config = shlex.quote(str(folder / f"{name}.py")), shlex.quote(str(folder / f"{name}.yaml"))
        print(f"train in it: creditflow train {config} --load {module}:{values['Class']}", file=sys.stderr)


def _entry(values: dict[str, str]) -> str:
    return Template('[project.entry-points."$group"]\n$name = "$name:$Class"').substitute(values)


def _check_name(kind: str, name: str) -> None:
    """Raise ConfigError unless a module, a test and a plug-in can have this name."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or len(name) > MAX_NAME or keyword.iskeyword(name):
        suggestion = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).strip("_").lower()
        ok = (
            re.fullmatch(r"[a-z][a-z0-9_]*", suggestion)
            and not keyword.iskeyword(suggestion)
            and len(suggestion) <= MAX_NAME
        )
        raise ConfigError(
            f"a name must begin with a lower-case letter and have at most {MAX_NAME} lower-case letters, digits and _, got {short_repr(name)}"
            + (f"; did you mean {suggestion!r}?" if ok else "")
        )
    if name in _TOOLS or name.startswith("test_"):
        raise ConfigError(f"pytest or setuptools gives {name}.py a special meaning; choose another name")
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ConfigError(f"a module named {name!r} already exists, and this one would hide it; choose another name")
    if name in _taken(KINDS[kind]):
        raise ConfigError(f"creditflow already has the {KINDS[kind]} {name!r}; choose another name")


def _taken(kind: Kind) -> set[str]:
    """Names of this kind that the package uses itself."""
    from creditflow.train.rollout.plugins import registries

    names = set(registries()[kind].shipped())
    if kind != "scheme":
        return names
    return {*names, "oracle_adv"}  # the benchmark's control

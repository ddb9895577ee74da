"""Measure what every extra adds to the core on disk, in the environment that runs this.

Run with the interpreter of each tier, for example ``.venv-trl/bin/python tests/packaging/extra_sizes.py``. It prints JSON: for
the core and for every extra that is complete in this environment the size in MB (10^6 bytes), the number of distributions, and the
largest three. The size is the sum of the files that the distributions' RECORD lists, with the bytecode that pip compiles.
"""

from __future__ import annotations

import json
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from pip._vendor.packaging.requirements import Requirement  # every environment has pip
from pip._vendor.packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def closure(texts: list[str], installed: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution] | None:
    """The distributions that these requirements bring, with theirs; None if one is not installed."""
    found: dict[str, metadata.Distribution] = {}
    waiting: list[tuple[Requirement, tuple[str, ...]]] = [(Requirement(text), ("",)) for text in texts]
    seen = set()
    while waiting:
        one, of = waiting.pop()
        if one.marker and not any(one.marker.evaluate({"extra": extra}) for extra in of):
            continue
        name = canonicalize_name(one.name)
        if name == PROJECT["name"]:
            waiting += [(Requirement(text), ("",)) for extra in one.extras for text in EXTRAS[extra]]
            continue
        if (name, frozenset(one.extras)) in seen:
            continue
        seen.add((name, frozenset(one.extras)))
        if name not in installed:
            return None
        found[name] = installed[name]
        waiting += [(Requirement(text), ("", *one.extras)) for text in installed[name].requires or ()]
    return found


def size(one: metadata.Distribution) -> int:
    """Bytes of a distribution's files; of bytecode RECORD gives no size."""
    places = [(file.size, Path(str(one.locate_file(file)))) for file in one.files or ()]
    return sum(known or (place.stat().st_size if place.is_file() else 0) for known, place in places)


def row(found: dict[str, metadata.Distribution]) -> dict[str, Any]:
    """Size, number and largest of distributions."""
    sizes = {name: size(one) for name, one in found.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    return {"MB": round(sum(sizes.values()) / 1e6, 1), "distributions": len(sizes), "largest": largest}


def main() -> None:
    """Print the sizes as JSON."""
    installed = {str(canonicalize_name(one.metadata["Name"])): one for one in metadata.distributions()}
    core = closure(PROJECT["dependencies"], installed)
    assert core is not None, "the core's requirements are not installed here"
    complete = {extra: closure(texts, installed) for extra, texts in EXTRAS.items()}
    added = {
        extra: {name: one for name, one in found.items() if name not in core}
        for extra, found in complete.items()
        if found is not None
    }
    print(json.dumps({"core": row(core), **{extra: row(found) for extra, found in added.items()}}, indent=1))


if __name__ == "__main__":
    main()

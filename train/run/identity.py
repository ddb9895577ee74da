"""What determines a run: stored with its output, compared when it is resumed.

An identity is plain JSON data, nested by section. A trajectory log carries it in every trajectory
(``provenance["run"]``), so that logs stay whole when they are cut or put together; a folder carries it in ``run.json``.
What does not change a single byte of the result stays out: how many workers play, on which device, how many tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import creditflow
from creditflow.agents.prompts.library import PROMPTS
from creditflow.agents.registry import MODELS, PROMPTED
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.annotate.digest import content_digest, file_digest
from creditflow.train.run.named_paths import paths_named
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import FORMAT_VERSION

__all__ = [
    "RUN",
    "RUN_FILE",
    "Identity",
    "OtherRunError",
    "agent_identity",
    "contents",
    "identity_text",
    "marked",
    "model_identity",
    "read_run_file",
    "require_same",
    "require_same_folder",
    "require_same_log",
    "versions",
    "write_run_file",
]

RUN: Final = "run"  # the name in Trajectory.provenance
RUN_FILE: Final = "run.json"  # the file in a folder
Identity = Mapping[str, Any]
_ABSENT: Final = "nothing"


class OtherRunError(DataError):
    """What is to be resumed was begun under other settings."""


def versions() -> dict[str, Any]:
    """Of the package, of the log format, and of all prompts together."""
    texts = json.dumps({name: asdict(prompt) for name, prompt in PROMPTS.items()}, sort_keys=True)
    return {
        "creditflow": creditflow.__version__,
        "log_format": FORMAT_VERSION,
        "prompts": blake2b(texts.encode("ascii"), digest_size=8).hexdigest(),
    }


def agent_identity(spec: str) -> dict[str, Any]:
    """An agent by its name on the command line, and the content of every folder that the name names."""
    name, _, argument = spec.partition(":")
    if name in PROMPTED:
        return {**agent_identity(argument), "name": spec}
    folder = argument.partition("@")[2] if name == "openai" else argument
    return {"name": spec} | ({"model": model_identity(folder)} if name in MODELS and folder else {})


def model_identity(place: str) -> str:
    """A model: the digest of its folder, or its name if it is no folder."""
    return content_digest(place) if Path(place).is_dir() else place


def contents(values: Any) -> dict[str, str]:
    """Digests of the files and folders that plain values name, by their paths."""
    places = sorted({str(place) for place in paths_named(values)})
    return {place: content_digest(place) if Path(place).is_dir() else file_digest(place) for place in places}


def identity_text(identity: Identity) -> str:
    """One line of JSON, equal for equal identities."""
    return json.dumps(identity, sort_keys=True, allow_nan=False, separators=(",", ":"))


def marked(group: Group, text: str) -> Group:
    """The group with the identity of its run in every trajectory."""
    members = (replace(one, provenance={**one.provenance, RUN: text}) for one in group.trajectories)
    return replace(group, trajectories=tuple(members))


def require_same(stored: Identity, asked: Identity, place: str) -> None:
    """Compare an identity with the one that was stored.

    Raises:
        OtherRunError: lists every field that differs, as it was stored and as it is asked for now.
    """
    old, new = dict(_flat(stored)), dict(_flat(asked))
    lines = [
        f"  {name}: stored {_shown(old, name)}, asked now {_shown(new, name)}"
        for name in sorted(old.keys() | new.keys())
        if name not in old or name not in new or old[name] != new[name]
    ]
    if lines:
        raise OtherRunError(
            f"{place}: was not written by this command; ask for the same, or begin anew with --force or elsewhere:\n"
            + "\n".join(lines)
        )


def require_same_log(group: Group, asked: Identity, place: str) -> None:
    """Compare the identity that a group of a log carries.

    Raises:
        OtherRunError: it differs, or the group carries none.
    """
    for text in sorted({one.provenance.get(RUN, "") for one in group.trajectories}):
        if not text:
            raise OtherRunError(
                f"{place}: group {group.group_id!r} does not say how it was played: it was written before logs recorded "
                "their run, or by another program. Such a log can be read, scored and annotated, but not gone on with: "
                "begin anew with --force or elsewhere"
            )
        require_same(_read(text, place), asked, f"{place}: group {group.group_id!r}")


def require_same_folder(folder: Path, asked: Identity, *, begun: bool) -> None:
    """Compare the identity that a folder holds.

    Args:
        folder: of a run; without ``run.json``, it is of an earlier version if it was begun at all.
        asked: what is asked for now.
        begun: whether it holds something of a run.

    Raises:
        OtherRunError: it differs, or there should be one.
    """
    stored = read_run_file(folder)
    if stored is not None:
        require_same(stored, asked, str(folder))
    elif begun:
        raise OtherRunError(
            f"{folder}: does not say how it was begun: it holds no {RUN_FILE}, so it was written before runs recorded "
            "that. Its results can be read, but not gone on with: begin anew with --force or elsewhere"
        )


def write_run_file(folder: Path, identity: Identity) -> None:
    """Write ``run.json``."""
    with atomic_writer(folder / RUN_FILE) as stream:
        stream.write(json.dumps(identity, sort_keys=True, allow_nan=False, indent=1) + "\n")


def read_run_file(folder: Path) -> Identity | None:
    """The identity in a folder; None if it holds none.

    Raises:
        DataError: it cannot be read.
    """
    path = folder / RUN_FILE
    try:
        return _read(path.read_text(encoding="ascii"), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _read(text: str, place: str) -> Identity:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: the identity of its run is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise DataError(f"{place}: the identity of its run must be an object, got {type(data).__name__}")
    return data


def _flat(data: Identity, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Fields by their full names."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value


def _shown(fields: Mapping[str, Any], name: str) -> str:
    return json.dumps(fields[name]) if name in fields else _ABSENT

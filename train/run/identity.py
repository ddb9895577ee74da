"""The identity of a run: what determines it, stored with its output and compared when it is resumed.

An identity is plain data (a JSON object), nested by section. A trajectory log stores it in every trajectory
(``provenance["run"]``), so that it is kept when logs are split or joined; a folder stores it in ``run.json``.
What does not change a single byte of the result is left out: the number of workers, the device, the number of tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import creditflow
from creditflow.agents.prompts.library import PROMPTS
from creditflow.agents.registry import MODELS, PROMPTED
from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.plugins import loaded
from creditflow.envs.reading.json_text import parse_json
from creditflow.train.rollout.running import RUN
from creditflow.train.run.digest import content_digest, file_digest
from creditflow.train.run.named_paths import paths_named
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import FORMAT_VERSION

__all__ = [
    "RUN_FILE",
    "Identity",
    "OtherRunError",
    "agent_identity",
    "contents",
    "differences",
    "identity_text",
    "model_identity",
    "read_run_file",
    "require_same",
    "require_same_folder",
    "require_same_log",
    "versions",
    "write_run_file",
]

RUN_FILE: Final = "run.json"  # the file in a folder
Identity = Mapping[str, Any]
_ABSENT: Final = "nothing"


class OtherRunError(DataError):
    """The output to be resumed was written with other settings."""


def versions() -> dict[str, Any]:
    """Versions of the package and the log format, a digest of all prompts, and those of the plug-ins that were loaded."""
    plugins = {f"{plugin.kind} {plugin.name}": plugin.code.digest for plugin in loaded()}
    texts = json.dumps({name: asdict(prompt) for name, prompt in PROMPTS.items()}, sort_keys=True)
    return {
        "creditflow": creditflow.__version__,
        "log_format": FORMAT_VERSION,
        "prompts": blake2b(texts.encode("ascii"), digest_size=8).hexdigest(),
        **({"plugins": plugins} if plugins else {}),
    }


def agent_identity(spec: str) -> dict[str, Any]:
    """The identity of an agent: its name on the command line, and the digest of the model folder in it."""
    name, _, argument = spec.partition(":")
    if name in PROMPTED:
        return {**agent_identity(argument), "name": spec}
    folder = argument.partition("@")[2] if name == "openai" else argument
    return {"name": spec} | ({"model": model_identity(folder)} if name in MODELS and folder else {})


def model_identity(place: str) -> str:
    """The identity of a model: the digest of its folder, or its name if it is not a folder."""
    return content_digest(place) if Path(place).is_dir() else place


def contents(values: Any) -> dict[str, str]:
    """Digests of the files and folders named in plain values, by path."""
    paths = sorted({str(path) for path in paths_named(values)})
    return {path: content_digest(path) if Path(path).is_dir() else file_digest(path) for path in paths}


def identity_text(identity: Identity) -> str:
    """Serialise an identity to one line of JSON, equal for equal identities."""
    return json.dumps(identity, sort_keys=True, allow_nan=False, separators=(",", ":"))


def require_same(stored: Identity, requested: Identity, place: str) -> None:
    """Compare the requested identity with the stored one.

    Raises:
        OtherRunError: they differ; lists the stored and the requested value of every field that differs.
    """
    lines = differences(stored, requested, "stored", "requested")
    if lines:
        raise OtherRunError(
            f"{place} was written with other settings. Use the same settings, or start over with --force or another output:\n"
            + "\n".join(lines)
        )


def differences(first: Identity, second: Identity, first_name: str, second_name: str) -> list[str]:
    """One line for every field that differs, with the values in both, which have these names."""
    first_fields, second_fields = dict(_flat(first)), dict(_flat(second))
    return [
        f"  {field}: {first_name} {_shown(first_fields, field)}, {second_name} {_shown(second_fields, field)}"
        for field in sorted(first_fields.keys() | second_fields.keys())
        if field not in first_fields or field not in second_fields or first_fields[field] != second_fields[field]
    ]


def require_same_log(group: Group, requested: Identity, place: str) -> None:
    """Compare the requested identity with that of a group in a log.

    Raises:
        OtherRunError: it differs, or the group has none.
    """
    for text in sorted({trajectory.provenance.get(RUN, "") for trajectory in group.trajectories}):
        if not text:
            raise OtherRunError(
                f"{place}: group {group.group_id!r} does not record its run, because an older release or another program "
                "wrote it. Such a log can be read, scored and annotated, but not resumed; start over with "
                "--force or with another output"
            )
        require_same(_read(text, place), requested, f"{place}: group {group.group_id!r}")


def require_same_folder(folder: Path, requested: Identity, *, started: bool) -> None:
    """Compare the requested identity with that of a run folder.

    Args:
        folder: folder of a run; if it was started but has no ``run.json``, an earlier version wrote it.
        requested: the requested identity.
        started: whether the folder contains anything of a run.

    Raises:
        OtherRunError: it differs, or it is missing.
    """
    stored = read_run_file(folder)
    if stored is not None:
        require_same(stored, requested, str(folder))
    elif started:
        raise OtherRunError(
            f"{folder} has no {RUN_FILE}, because an older release wrote it. Its results can be read, "
            "but not resumed; start over with --force or with another output"
        )


def write_run_file(folder: Path, identity: Identity) -> None:
    """Write ``run.json``."""
    with atomic_writer(folder / RUN_FILE) as stream:
        stream.write(json.dumps(identity, sort_keys=True, allow_nan=False, indent=1) + "\n")


def read_run_file(folder: Path) -> Identity | None:
    """Read the identity in a folder; None if there is none.

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
    data = parse_json(text, where=f"{place}: the identity of its run")
    if not isinstance(data, dict):
        raise DataError(f"{place}: the identity of its run must be an object, got {type(data).__name__}")
    return data


def _flat(data: Identity, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields with their full names."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value


def _shown(fields: Mapping[str, Any], name: str) -> str:
    return json.dumps(fields[name]) if name in fields else _ABSENT

"""Manifests of released data that the package embeds: ids and content hashes, none of the data."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from creditflow.envs.errors import DataError
from creditflow.envs.reading.json_text import parse_json

__all__ = ["embedded_manifest"]


def embedded_manifest(env: str, name: str, version: int) -> dict[str, Any]:
    """Return the JSON object of a manifest.

    Args:
        env: the environment, such as "webshop".
        name: the manifest, such as "small-v1".
        version: the format that is expected.

    Raises:
        DataError: no JSON object of this format.
    """
    where = f"manifest {env}/{name}"
    data = parse_json((files("creditflow.assets") / "manifests" / env / f"{name}.json").read_text("ascii"), where=where)
    if not isinstance(data, dict) or data.get("format_version") != version:
        raise DataError(f"{where}: not in manifest format {version}")
    return data

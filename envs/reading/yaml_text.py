"""Untrusted YAML: the part of it that settings files need.

The parser is PyYAML's safe loader without aliases (a text of 400 bytes can expand to gigabytes), tags (dates, sets and
binaries are not plain data) and repeated keys. A date remains a string. StrictYAML has no flow lists (``[1, 2]``) and
needs a schema and two more packages; pydantic and msgspec delegate YAML to PyYAML.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from creditflow.envs.errors import DataError, MissingExtraError
from creditflow.envs.reading.limits import SETTINGS, Limits
from creditflow.envs.reading.plain_data import check_plain

__all__ = ["parse_yaml"]


def parse_yaml(text: str, *, where: str, limits: Limits = SETTINGS) -> Any:
    """Parse a YAML document into plain data.

    Args:
        text: text of the document.
        where: file or option, with which every message begins.
        limits: limits of the text and of its values.

    Raises:
        DataError: not YAML, not plain data, an alias, a repeated key, a limit exceeded; names the line.
        MissingExtraError: PyYAML is not installed.
    """
    if len(text) > limits.characters:
        raise DataError(f"{where}: longer than {limits.characters:,} characters")
    try:
        import yaml

        from creditflow.envs.reading.yaml_loader import PlainLoader
    except ImportError as error:
        raise MissingExtraError("pyyaml", "train") from error
    try:
        value = yaml.load(text, Loader=partial(PlainLoader, depth=limits.depth))  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        raise DataError(f"{where}: not YAML: {error}") from error
    check_plain(value, limits, where)
    return value

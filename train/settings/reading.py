"""Typed settings from YAML or JSON: frozen dataclasses, strict names, a resolved copy.

``read_dataclass`` turns plain data into a dataclass by its annotations. It reads ``1e-6`` as a number, which YAML 1.1
parses as a string, and an error about an unknown name gives its full path and the nearest known name.

Own code, compared with pydantic, msgspec, OmegaConf and tyro: only this reader names the nearest setting with its full
path, reads YAML's ``1e-6`` as a number, rejects ``true`` for an integer, and never resolves anything out of the environment.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.reading.limits import MAX_SETTINGS, SETTINGS
from creditflow.envs.reading.streams import read_text
from creditflow.envs.reading.yaml_text import parse_yaml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["load_mapping", "plain_section", "read_dataclass", "to_plain_data", "write_yaml"]

T = TypeVar("T", bound="DataclassInstance")


def load_mapping(path: str | Path) -> dict[str, Any]:
    """The contents, as a mapping, of a YAML (.yaml, .yml) or JSON (.json) file.

    Raises:
        DataError: there is no such file, or it is not a mapping in its format.
    """
    path = Path(path)
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise DataError(f"{path}: a config ends in .yaml, .yml or .json")
    parse = parse_json if path.suffix == ".json" else parse_yaml
    data: Any = parse(read_text(path, MAX_SETTINGS), where=str(path), limits=SETTINGS)
    if not isinstance(data, dict):
        raise DataError(f"{path}: expected a mapping of settings, got {type(data).__name__}")
    return data


def write_yaml(path: Path, data: Mapping[str, Any]) -> None:
    """Write plain data so that ``load_mapping`` reads it back."""
    from creditflow.envs.files.atomic import atomic_writer

    with atomic_writer(path) as stream:
        stream.write(yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=False, width=110))


def plain_section(section: Any) -> Any:
    """A section of a trainer's configuration as plain data, whether its trainer keeps OmegaConf's or a mapping."""
    if section is None or isinstance(section, dict):
        return section
    from omegaconf import OmegaConf  # there if a section is its own

    return OmegaConf.to_container(section, resolve=True)


def read_dataclass(kind: type[T], data: Any, where: str = "") -> T:
    """``data`` as an instance of the dataclass ``kind``, checked against its annotations.

    Raises:
        ConfigError: unknown, missing or ill-typed settings, by their full name.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where or 'the config'} must be a mapping, got {short_repr(data)}")
    hints = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for name, value in data.items():
        full = f"{where}.{name}" if where else str(name)
        if name not in known:
            raise unknown_name_error(f"setting {full!r}; the name", str(name), known)
        values[name] = _value(hints[name], value, full)
    missing = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING and n not in values]
    if missing:
        raise ConfigError(f"missing setting: {', '.join(f'{where}.{n}' if where else n for n in missing)}")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{where or 'config'}: {error}") from error


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _value(next(a for a in arguments if a is not type(None)), value, where)
    if origin is Literal:
        if value not in arguments:
            raise unknown_name_error(f"value of {where}", str(value), map(str, arguments))
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return read_dataclass(hint, {} if value is None else value, where)
    if origin is tuple:
        any_length = len(arguments) == 2 and arguments[1] is Ellipsis
        if not isinstance(value, list | tuple) or not (any_length or len(value) == len(arguments)):
            expected = "a list" if any_length else f"a list of {len(arguments)} values"
            raise ConfigError(f"{where} must be {expected}, got {short_repr(value)}")
        kinds = [arguments[0]] * len(value) if any_length else list(arguments)
        return tuple(_value(one, item, f"{where}[{i}]") for i, (one, item) in enumerate(zip(kinds, value, strict=True)))
    if origin is dict or hint is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} must be a mapping, got {short_repr(value)}")
        return dict(value)
    return _plain_value(hint, value, where)


def _plain_value(hint: Any, value: Any, where: str) -> Any:
    if hint is float:
        try:  # YAML 1.1 reads 1e-6 as a string
            number = float(value) if not isinstance(value, bool) else math.nan
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ConfigError(f"{where} must be a finite number, got {short_repr(value)}")
        return number
    if hint is int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{where} must be an integer, got {short_repr(value)}")
        return value
    if hint is bool and not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, got {short_repr(value)}")
    if hint is str and not isinstance(value, str):
        raise ConfigError(f"{where} must be a string, got {short_repr(value)}")
    return value


def to_plain_data(config: Any) -> dict[str, Any]:
    """A dataclass as plain data that ``read_dataclass`` reads back."""
    data: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return data

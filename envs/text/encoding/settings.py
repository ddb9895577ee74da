"""How an encoder is used: pooling, prefixes, length, normalisation; read from a folder of sentence-transformers where it says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.reading.model_folders import model_settings

__all__ = ["POOLINGS", "EncoderSettings", "folder_settings", "settings_from_json"]

POOLINGS: Final = ("mean", "cls", "last")
MAX_TOKENS: Final = 1 << 20
MAX_PREFIX: Final = 10_000  # characters
_FLAGS: Final = {
    "cls_token": "cls",
    "mean_tokens": "mean",
    "lasttoken": "last",
    "max_tokens": "max",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean_tokens": "weightedmean",
}
_PASSAGE_PROMPTS: Final = ("passage", "document", "corpus")  # names of the same prompt in different releases


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """How texts become vectors.

    E5 models need ``query_prefix="query: "`` and ``passage_prefix="passage: "`` (Wang et al. 2022, arXiv 2212.03533).

    Attributes:
        pooling: "mean" of the last hidden states over a text's tokens, that of the first token ("cls") or of the last ("last").
        query_prefix: text before every query.
        passage_prefix: text before every passage.
        max_tokens: longer texts are truncated; 0 for the limit of the model.
        normalise: scale vectors to length 1, so that inner products are cosines.
        lower_case: make texts lower-case first.

    Raises:
        ConfigError: a wrong value.
    """

    pooling: str = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 0
    normalise: bool = True
    lower_case: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not type(field.default):
                kind = type(field.default).__name__
                raise ConfigError(f"{field.name} of an encoder is of type {kind}, got {short_repr(value)}")
        if self.pooling not in POOLINGS:
            raise unknown_name_error("pooling", self.pooling, POOLINGS)
        if not 0 <= self.max_tokens <= MAX_TOKENS:
            raise ConfigError(f"max_tokens must be from 0 to {MAX_TOKENS:,}, got {self.max_tokens}")
        if max(len(self.query_prefix), len(self.passage_prefix)) > MAX_PREFIX:
            raise ConfigError(f"a prefix has at most {MAX_PREFIX:,} characters")

    def to_json(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)


def settings_from_json(data: Mapping[str, Any]) -> EncoderSettings:
    """The settings that ``to_json`` wrote.

    Raises:
        DataError: a missing or wrong entry.
    """
    try:
        return EncoderSettings(**{field.name: data[field.name] for field in fields(EncoderSettings)})
    except KeyError as error:
        raise DataError(f"the settings of an encoder lack {error}") from error
    except ConfigError as error:
        raise DataError(str(error)) from error


def folder_settings(folder: Path, **given: Any) -> EncoderSettings:
    """The settings of an encoder folder, changed by those that are given and not None.

    sentence-transformers keeps them beside the weights: the layers in ``modules.json``, the pooling in its layer's folder, the
    length in ``sentence_bert_config.json``, the prefixes in ``config_sentence_transformers.json``. A folder without these files
    has the defaults of ``EncoderSettings``.

    Raises:
        ConfigError: a wrong value is given, or the folder's pooling is none of ours and none is given.
        DataError: a malformed file, or a layer after pooling that is not a normalisation.
    """
    stored: dict[str, Any] = {**_lengths(folder), **_prompts(folder), **_layers(folder)}
    chosen = {**stored, **{name: value for name, value in given.items() if value is not None}}
    return replace(EncoderSettings(), **chosen)


def _read(path: Path) -> dict[str, Any]:
    return model_settings(path) if path.is_file() else {}


def _lengths(folder: Path) -> dict[str, Any]:
    data, settings = _read(folder / "sentence_bert_config.json"), dict[str, Any]()
    if type(data.get("max_seq_length")) is int:
        settings["max_tokens"] = data["max_seq_length"]
    if data.get("do_lower_case") is True:
        settings["lower_case"] = True
    return settings


def _prompts(folder: Path) -> dict[str, Any]:
    prompts = _read(folder / "config_sentence_transformers.json").get("prompts")
    if not isinstance(prompts, dict):
        return {}
    named = {"query_prefix": ("query",), "passage_prefix": _PASSAGE_PROMPTS}
    return {
        name: next(text for key in keys if isinstance(text := prompts.get(key), str))
        for name, keys in named.items()
        if any(isinstance(prompts.get(key), str) for key in keys)
    }


def _layers(folder: Path) -> dict[str, Any]:
    path = folder / "modules.json"
    if not path.is_file():
        return {}
    layers = model_settings(path, list)
    settings: dict[str, Any] = {"normalise": False}
    for layer in layers:
        kind = str(layer.get("type", "")).rpartition(".")[2] if isinstance(layer, dict) else ""
        if kind == "Pooling":
            settings["pooling"] = _pooling(_inside(folder, layer.get("path")))
        elif kind == "Normalize":
            settings["normalise"] = True
        elif kind != "Transformer":
            raise DataError(
                f"{path}: unknown layer {short_repr(kind or layer)}; only Transformer, Pooling and Normalize are supported"
            )
    return settings


def _inside(folder: Path, name: Any) -> Path:
    if not isinstance(name, str) or not name or Path(name).name != name or name in (".", "..") or "\0" in name:
        raise DataError(
            f"{folder / 'modules.json'}: the path of a layer is a name in this folder, got {short_repr(name)}"
        )
    return folder / name / "config.json"


def _pooling(path: Path) -> str:
    data = _read(path)
    named = data.get("pooling_mode")
    modes = (
        [named]
        if isinstance(named, str)
        else [name for flag, name in _FLAGS.items() if data.get(f"pooling_mode_{flag}") is True]
    )
    modes = ["last" if mode == "lasttoken" else mode for mode in modes]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise DataError(f"{path}: unknown pooling {' and '.join(modes) or '(none)'}; known: {', '.join(POOLINGS)}")
    if data.get("include_prompt") is False:
        raise DataError(f"{path}: leaves prompts out of the pooling (include_prompt), which is not supported")
    return modes[0]

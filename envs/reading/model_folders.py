"""Hugging Face model folders: checks before libraries that trust them open them, and their tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, overload

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.limits import MAX_DOCUMENT, MAX_LAYERS, MAX_TOKEN_ID
from creditflow.envs.reading.streams import read_text

__all__ = ["check_model_files", "check_token_ids", "model_settings", "saved_tokenizer"]

_LAYERS: Final = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers", "encoder_layers")


@overload
def model_settings(path: Path) -> dict[str, Any]: ...
@overload
def model_settings(path: Path, kind: type[list[Any]]) -> list[Any]: ...
def model_settings(path: Path, kind: type[Any] = dict) -> Any:
    """Read a JSON file of a model folder; files of other projects may have infinities and repeated keys.

    Args:
        path: the file.
        kind: of its content, an object or a list.

    Raises:
        DataError: it is not JSON, of another kind, or too long.
    """
    text = read_text(path, MAX_DOCUMENT)
    with loading(f"{path}: not a model's JSON file"):
        data = json.loads(text)
    if not isinstance(data, kind):
        expected = "a list" if kind is list else "an object of settings"
        raise DataError(f"{path}: expected {expected}, got {type(data).__name__}")
    return data


def check_model_files(folder: str | Path) -> None:
    """Check that the files of a folder are not too long and the model is not too deep.

    A name that is neither a folder nor a file is not checked.

    Raises:
        DataError: a file or the model is too large, or there is no ``config.json``.
    """
    folder = Path(folder)
    _require_no_gguf(folder)
    if not folder.exists():
        return
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder} is not a model folder: no config.json (expected the output of save_pretrained())")
    for file in sorted(folder.glob("*.json")):
        if (size := file.stat().st_size) > MAX_DOCUMENT:
            raise DataError(f"{file} has {size:,} bytes; the limit is {MAX_DOCUMENT:,}")
    config = model_settings(folder / "config.json")
    for section in (config, *(value for value in config.values() if isinstance(value, dict))):
        for name in _LAYERS:
            count = section.get(name, 0)
            if isinstance(count, int | float) and count > MAX_LAYERS:
                raise DataError(f"{folder / 'config.json'}: {name} is {count}, at most {MAX_LAYERS:,} are built")


def _require_no_gguf(folder: Path) -> None:
    """Raise DataError for the name of a GGUF file, with the command that makes a folder of it."""
    if folder.suffix == ".gguf":
        raise DataError(
            f"{folder} is a GGUF file; a model folder is expected here. Make one with: creditflow model import {folder} --out DIR"
        )


def check_token_ids(folder: str | Path) -> None:
    """Check that the token ids in a folder's ``tokenizer.json`` are not too large.

    Some releases of ``tokenizers`` count from 0 to the largest id when a tokenizer is copied, so one damaged id could take
    unbounded time and memory. A folder without this file, or a name that is not a folder, is not checked.

    Raises:
        DataError: the file is damaged or too long, or an id is not an integer from 0 to ``MAX_TOKEN_ID``.
    """
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        return
    data = model_settings(path)
    model, added = data.get("model"), data.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    ids += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    for number in ids:
        if type(number) is not int or not 0 <= number <= MAX_TOKEN_ID:
            raise DataError(
                f"{path}: a token id must be an integer from 0 to {MAX_TOKEN_ID:,}, got {short_repr(number)}"
            )


def saved_tokenizer(path: str | Path) -> Any:
    """The tokenizer of a folder or name, exactly as it was saved; needs transformers.

    ``AutoTokenizer`` picks a class by the *model's* family and then applies that family's own splitting rules to
    a tokenizer made here, which silently changes its ids. A folder whose configuration names the plain ``tokenizers``
    backend is therefore opened with it. Code in the folder is not executed.

    Raises:
        DataError: there is none, or it is damaged.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    _require_no_gguf(Path(path))
    settings = Path(path) / "tokenizer_config.json"
    kind = model_settings(settings).get("tokenizer_class") if settings.is_file() else None
    plain = kind in ("TokenizersBackend", "PreTrainedTokenizerFast")
    check_token_ids(path)
    with loading(f"cannot open the tokenizer of {str(path)!r}"):
        if plain:
            return PreTrainedTokenizerFast.from_pretrained(path)
        return AutoTokenizer.from_pretrained(path, trust_remote_code=False)

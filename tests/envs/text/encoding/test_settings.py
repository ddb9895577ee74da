"""An encoder's settings: what the files of sentence-transformers say, what replaces them, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.text.encoding.settings import EncoderSettings, folder_settings, settings_from_json


def write(folder: Path, **files: Any) -> Path:
    for name, data in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(data), encoding="ascii")
    return folder


def layers(*kinds: str) -> list[dict[str, Any]]:
    places = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    return [{"idx": i, "path": places.get(kind, kind), "type": f"sentence_transformers.models.{kind}"}
            for i, kind in enumerate(kinds)]  # fmt: skip


def test_a_plain_folder_has_the_defaults(tmp_path: Path) -> None:
    assert folder_settings(tmp_path) == EncoderSettings()


def test_a_folder_of_sentence_transformers_says_how_it_is_used(tmp_path: Path) -> None:
    write(
        tmp_path,
        modules=layers("Transformer", "Pooling", "Normalize"),
        **{"1_Pooling__config": {"word_embedding_dimension": 8, "pooling_mode_cls_token": True,
                                 "pooling_mode_mean_tokens": False}},
        sentence_bert_config={"max_seq_length": 200, "do_lower_case": True},
        config_sentence_transformers={"prompts": {"query": "query: ", "document": "passage: "}},
    )  # fmt: skip
    assert folder_settings(tmp_path) == EncoderSettings(
        pooling="cls", query_prefix="query: ", passage_prefix="passage: ", max_tokens=200, lower_case=True
    )
    changed = folder_settings(tmp_path, pooling="last", query_prefix="", max_tokens=None, normalise=False)
    assert (changed.pooling, changed.query_prefix, changed.max_tokens, changed.normalise) == ("last", "", 200, False)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode_lasttoken": True}, "last"),
    ],
)
def test_both_ways_of_naming_a_pooling(tmp_path: Path, pooling: dict[str, Any], expected: str) -> None:
    write(tmp_path, modules=layers("Transformer", "Pooling"), **{"1_Pooling__config": pooling})
    found = folder_settings(tmp_path)
    assert (found.pooling, found.normalise) == (expected, False)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules": layers("Transformer", "Pooling")}, r"unknown pooling \(none\)"),
        ({"modules": layers("Transformer", "Pooling"), "1_Pooling__config": {"pooling_mode_max_tokens": True}}, "unknown pooling max;"),
        ({"modules": layers("Transformer", "Pooling"),
          "1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}}, "cls and mean"),
        ({"modules": layers("Transformer", "Pooling"),
          "1_Pooling__config": {"pooling_mode": "mean", "include_prompt": False}}, "leaves prompts out"),
        ({"modules": layers("Transformer", "Dense")}, "unknown layer 'Dense'"),
        ({"modules": {"a": 1}}, "expected a list"),
        ({"modules": [3]}, "unknown layer 3"),
        ({"modules": [{"type": "x.Pooling", "path": "../elsewhere"}]}, "a name in this folder"),
        ({"modules": [{"type": "x.Pooling", "path": ".."}]}, "a name in this folder"),
        ({"sentence_bert_config": [1]}, "expected an object"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_a_data_error(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        folder_settings(write(tmp_path, **files))


@pytest.mark.parametrize(
    "wrong",
    [{"pooling": "max"}, {"max_tokens": -1}, {"max_tokens": 1.5}, {"normalise": 1}, {"query_prefix": "x" * 20_000}],
)
def test_wrong_values_are_configuration_errors(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        folder_settings(tmp_path, **wrong)


def test_settings_survive_json_and_damage_is_a_data_error() -> None:
    settings = EncoderSettings(pooling="last", query_prefix="q: ", max_tokens=9, normalise=False)
    assert settings_from_json(json.loads(json.dumps(settings.to_json()))) == settings
    with pytest.raises(DataError, match="lack 'pooling'"):
        settings_from_json({})
    with pytest.raises(DataError, match="unknown pooling"):
        settings_from_json({**settings.to_json(), "pooling": "max"})

"""Encoders of several families: pooling, prefixes, truncation, batches, and folders that are none."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.encoders import save_encoder
from transformers import AutoModel, PreTrainedTokenizerFast

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.text.encoding.encoder import TextEncoder, encoder_digest
from creditflow.envs.text.encoding.settings import EncoderSettings

pytestmark = pytest.mark.dense

TEXTS = ["a red mug", "who wrote the charter of the market town?", "mug", "", "the the the " * 40]
FAMILIES = ["bert", "roberta", "qwen2", "t5"]


@pytest.fixture(scope="module", params=FAMILIES)
def any_encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_encoder(tmp_path_factory.mktemp("families") / request.param, request.param)


def by_hand(folder: Path, text: str, pooling: str) -> Any:
    """The pooled states of one text, by transformers alone."""
    tokenizer, model = PreTrainedTokenizerFast.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    network = model.get_encoder() if model.config.is_encoder_decoder else model
    ids = torch.tensor([tokenizer(text, truncation=True, max_length=32)["input_ids"]])
    with torch.no_grad():
        hidden = network(input_ids=ids).last_hidden_state[0]
    vector = {"mean": hidden.mean(0), "cls": hidden[0], "last": hidden[-1]}[pooling]
    return vector.numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_a_vector_is_the_pooled_state_of_its_text(any_encoder: Path, pooling: str) -> None:
    encoder = TextEncoder(any_encoder, EncoderSettings(pooling=pooling, normalise=False))
    expected = np.stack([by_hand(any_encoder, text, pooling) for text in TEXTS])
    np.testing.assert_allclose(encoder.queries(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.passages(TEXTS), expected, atol=1e-5)


def test_prefixes_and_normalisation(encoder: Path) -> None:
    settings = EncoderSettings(query_prefix="query: ", passage_prefix="passage: ")
    model, plain = TextEncoder(encoder, settings), TextEncoder(encoder, EncoderSettings(normalise=False))
    for found, prefix in ((model.queries(TEXTS), "query: "), (model.passages(TEXTS), "passage: ")):
        raw = plain.queries([prefix + text for text in TEXTS])
        np.testing.assert_allclose(found, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-6)


def test_a_query_does_not_depend_on_its_company_and_a_passage_only_by_rounding(any_encoder: Path) -> None:
    encoder = TextEncoder(any_encoder, EncoderSettings())
    together = encoder.queries(TEXTS)
    for i, text in enumerate(TEXTS):
        assert np.array_equal(encoder.queries([text])[0], together[i])
    for batch in (1, 2, 64):
        # sums over padded rows run in another order: a few float32 roundings of states of order one
        found = TextEncoder(any_encoder, EncoderSettings(), batch=batch).passages(TEXTS)
        np.testing.assert_allclose(found, together, atol=2e-6)


def test_long_texts_are_truncated_at_the_settings_or_the_models_limit(encoder: Path) -> None:
    long = "mug " * 500
    for settings, tokens in ((EncoderSettings(), 32), (EncoderSettings(max_tokens=8), 8)):
        model = TextEncoder(encoder, settings)
        assert model.max_tokens == tokens
        np.testing.assert_array_equal(model.queries([long]), model.queries(["mug " * 600]))
    with pytest.raises(ConfigError, match="reads at most 32 tokens, but max_tokens is 33"):
        TextEncoder(encoder, EncoderSettings(max_tokens=33))


def test_a_tokenizer_without_a_limit_leaves_it_to_the_models_positions(tmp_path: Path) -> None:
    """RoBERTa's begin behind the id of the padding token, here 0, so one of 34 is never used."""
    for family, limit in (("roberta", 33), ("bert", 32)):
        folder = save_encoder(tmp_path / family, family)
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        del settings["model_max_length"]
        (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="ascii")
        model = TextEncoder(folder, EncoderSettings())
        assert model.max_tokens == limit
        assert np.isfinite(model.queries(["word " * 100])).all()


def test_lower_case_and_lone_surrogates(encoder: Path) -> None:
    model = TextEncoder(encoder, EncoderSettings(lower_case=True))
    np.testing.assert_array_equal(model.queries(["A Red MUG"]), model.queries(["a red mug"]))
    np.testing.assert_array_equal(model.queries(["\ud800 mug"]), model.queries(["? mug"]))
    assert model.queries([]).shape == model.passages([]).shape == (0, 16)


def test_threads_share_an_encoder(encoder: Path) -> None:
    model, errors = TextEncoder(encoder, EncoderSettings()), list[BaseException]()
    expected = model.queries(TEXTS)

    def run() -> None:
        try:
            for _ in range(10):
                np.testing.assert_array_equal(model.queries(TEXTS), expected)
        except BaseException as error:
            errors.append(error)
            raise

    workers = [threading.Thread(target=run) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors


def test_the_digest_follows_weights_configuration_and_tokenizer(encoder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(encoder, copy)
    assert encoder_digest(copy) == encoder_digest(encoder)
    (copy / "README.md").write_text("notes", encoding="ascii")
    assert encoder_digest(copy) == encoder_digest(encoder)
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(whole + b" ")
        assert encoder_digest(copy) != encoder_digest(encoder), name
        (copy / name).write_bytes(whole)


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def pickled(folder: Path) -> None:
    state = AutoModel.from_pretrained(folder).state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    without_weights(folder)


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-7])


def another_depth(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}), encoding="ascii")


def not_finite(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["embeddings.word_embeddings.weight"] *= float("nan")
    save_file(tensors, path, metadata={"format": "pt"})


def foreign_code(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="ascii")
    (folder / "own.py").write_text("raise SystemExit('code of the folder has run')", encoding="ascii")


@pytest.mark.parametrize(
    "harm", [without_weights, pickled, cut_weights, another_depth, not_finite, foreign_code], ids=lambda f: f.__name__
)
def test_a_folder_that_is_no_encoder_is_a_data_error(
    encoder: Path, tmp_path: Path, harm: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers asks at a terminal whether to run foreign code
    copy = tmp_path / "copy"
    shutil.copytree(encoder, copy)
    harm(copy)
    with pytest.raises(DataError):
        TextEncoder(copy, EncoderSettings()).queries(["a"])


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": 1 << 20}, {"device": "abacus"}])
def test_wrong_options_are_configuration_errors(encoder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        TextEncoder(encoder, EncoderSettings(), **options)

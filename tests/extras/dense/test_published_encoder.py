"""all-MiniLM-L6-v2, a published encoder: its own numbers, and every way that texts take through it.

Its folder is named by ``MINILM_FOLDER``: a download of sentence-transformers/all-MiniLM-L6-v2 from the Hugging Face hub.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from creditflow.envs.text.encoding.encoder import TextEncoder
from creditflow.envs.text.encoding.settings import EncoderSettings, folder_settings
from creditflow.envs.wikisearch.retrieval.store import open_engine
from creditflow.train.cli import main
from creditflow.wrappers.canonical.sentence_embedder import SentenceEmbedder

FOLDER = os.environ.get("MINILM_FOLDER", "")
pytestmark = [
    pytest.mark.published_encoder,
    pytest.mark.skipif(not FOLDER, reason="MINILM_FOLDER names no folder of sentence-transformers/all-MiniLM-L6-v2"),
]
# the file's digest on the Hugging Face hub, sentence-transformers/all-MiniLM-L6-v2
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TEXTS = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
# similarities of these sentences by this model in the first example of sentence-transformers' documentation
SIMILARITIES = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
OTHERS = ["", "Ünïcödé Straße 東京 🙂", "UPPER\n\n case\t", "one word after another " * 120]
PASSAGES = {
    "cat": "House cat\nA small carnivore that people keep at home, often for catching mice.",
    "paris": "Paris\nThe seat of government of France, on the Seine.",
    "snake": "Python\nA language for programs, named after a group of comedians.",
}


@pytest.fixture(scope="module")
def published() -> Path:
    """The folder, as it was downloaded."""
    return Path(FOLDER)


@pytest.fixture(scope="module")
def model(published: Path) -> TextEncoder:
    return TextEncoder(published, folder_settings(published))


def test_the_weights_are_those_that_were_published(published: Path) -> None:
    assert hashlib.sha256((published / "model.safetensors").read_bytes()).hexdigest() == SHA256


def test_the_folder_says_how_it_is_used(published: Path, model: TextEncoder) -> None:
    assert model.settings == EncoderSettings(pooling="mean", max_tokens=256, normalise=True)
    assert (model.dimension, model.max_tokens) == (384, 256)


def test_similarities_are_those_of_the_documentation_of_sentence_transformers(model: TextEncoder) -> None:
    for vectors in (model.queries(TEXTS), model.passages(TEXTS)):
        np.testing.assert_allclose(vectors @ vectors.T, SIMILARITIES, atol=6e-5)  # printed to four digits


def test_vectors_are_those_of_plain_transformers(published: Path, model: TextEncoder) -> None:
    tokenizer, network = AutoTokenizer.from_pretrained(published), AutoModel.from_pretrained(published).eval()
    expected = []
    for text in [*TEXTS, *OTHERS]:
        ids = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            mean = network(**ids).last_hidden_state[0].mean(0)
        expected.append((mean / mean.norm()).numpy())
    for vectors in (model.queries([*TEXTS, *OTHERS]), model.passages([*TEXTS, *OTHERS])):
        np.testing.assert_allclose(vectors, np.stack(expected), atol=1e-5)


def test_an_index_finds_a_passage_without_a_common_word(published: Path, tmp_path: Path) -> None:
    corpus, index = tmp_path / "p.jsonl", str(tmp_path / "dense")
    corpus.write_text("".join(json.dumps({"id": k, "contents": v}) + "\n" for k, v in PASSAGES.items()), "ascii")
    encoder = ["--engine", "dense", "--encoder", str(published)]
    assert main(["serve", "search", "--build-only", "--corpus", str(corpus), "--index", index, *encoder]) == 0
    found = open_engine(index=index, encoder=str(published))
    for query, expected in (("capital city", "paris"), ("feline pet", "cat"), ("writing software", "snake")):
        assert not open_engine(corpus=str(corpus)).search([query], 1)[0]  # BM25: no word in common
        assert found.search([query], 1)[0][0].passage.id == expected


def test_merging_pools_and_truncates_as_the_encoder_does(published: Path, model: TextEncoder) -> None:
    texts = [*TEXTS, *OTHERS]
    found: Any = SentenceEmbedder(str(published)).embed(texts)
    np.testing.assert_array_equal(found, model.passages(texts))

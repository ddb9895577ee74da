"""Index folders that are damaged, forged, of another corpus or of another encoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import damaged_in_turn
from helpers.models.encoders import save_encoder
from helpers.worlds.dense_index import build_index as build
from helpers.worlds.dense_index import open_index as opened
from helpers.worlds.retrieval_contract import HARMS, PASSAGES

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.files.checksummed_folder import HEADER, write_checksums
from creditflow.envs.wikisearch.retrieval.store import open_engine

pytestmark = pytest.mark.dense


@pytest.mark.parametrize("harm", HARMS)
def test_damage_of_any_file_is_found_when_the_folder_is_opened(encoder: Path, tmp_path: Path, harm: str) -> None:
    copy = build(tmp_path / "whole", encoder, passages=PASSAGES[:20])
    names = [*json.loads((copy / HEADER).read_text())["files"], HEADER]
    for _ in damaged_in_turn(copy, names, harm):
        with pytest.raises(DataError):
            opened(copy, encoder)
    opened(copy, encoder)


def forge(path: Path, change: Callable[[dict[str, Any]], None], files: Callable[[Path], None] | None = None) -> None:
    """Change the header (and files) of an index folder, with checksums that fit, as an attacker would."""
    header = json.loads((path / HEADER).read_text())
    (path / HEADER).unlink()
    if files is not None:
        files(path)
    facts = {name: value for name, value in header.items() if name not in ("files", "format", "checksum")}
    change(facts)
    write_checksums(path, header["format"], facts)


def cut_vectors(path: Path) -> None:
    file = path / "vectors.raw"
    file.write_bytes(file.read_bytes()[:-32])


def fill(value: float) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        data = np.fromfile(path / "vectors.raw", "<f2")
        data[77] = value
        data.tofile(path / "vectors.raw")

    return write


FORGERIES: dict[str, tuple[Callable[[dict[str, Any]], Any], Callable[[Path], None] | None, str]] = {
    "truncated vectors": (lambda facts: None, cut_vectors, r"vectors\.raw has .* numbers, expected .* rows of 16"),
    "dimension": (lambda facts: facts["encoder"].update(dimension=32), None, "numbers, expected .* rows of 32"),
    "huge dimension": (lambda facts: facts["encoder"].update(dimension=10**12), None, "numbers, expected .* rows of"),
    "dimension of no numbers": (
        lambda facts: facts["encoder"].update(dimension=0),
        None,
        "not what this package writes",
    ),
    "no dimension": (lambda facts: facts["encoder"].pop("dimension"), None, "must have 'dimension'"),
    "rows": (lambda facts: facts["vectors"].update(rows=3), None, "has 3 vectors, expected"),
    "text for rows": (lambda facts: facts["vectors"].update(rows="9"), None, "must have 'rows', of type int"),
    "precision": (lambda facts: facts["vectors"].update(precision="float8"), None, "not what this package writes"),
    "no facts": (lambda facts: facts.pop("vectors"), None, "must have 'vectors'"),
    "pooling": (lambda facts: facts["encoder"].update(pooling="max"), None, "unknown pooling"),
    "not a number": (lambda facts: None, fill(float("nan")), "non-finite values"),
    "infinite": (lambda facts: None, fill(float("inf")), "non-finite values"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_folders_are_data_errors(encoder: Path, tmp_path: Path, name: str) -> None:
    change, files, message = FORGERIES[name]
    path = build(tmp_path / "index", encoder)
    forge(path, change, files)
    with pytest.raises(DataError, match=message):
        opened(path, encoder).search(["market"], 3)


def test_another_encoder_another_corpus_and_options_that_do_not_fit(encoder: Path, tmp_path: Path) -> None:
    path = str(build(tmp_path / "index", encoder))
    other = str(save_encoder(tmp_path / "other", seed=1))
    with pytest.raises(DataError, match="was built with another encoder"):
        open_engine(index=path, encoder=other)
    with pytest.raises(ConfigError, match="pass the folder of the encoder"):
        open_engine(index=path)
    with pytest.raises(ConfigError, match="built for the engine 'dense', not 'lucene'"):
        open_engine(index=path, encoder=str(encoder), engine="lucene")
    with pytest.raises(ConfigError, match="memory works only with the engine lucene"):
        open_engine(index=path, encoder=str(encoder), memory="1g")
    with pytest.raises(DataError, match="is not an encoder folder"):
        open_engine(index=path, encoder=str(tmp_path))
    (tmp_path / "p.jsonl").write_text('{"id": "0", "contents": "Town\\nOne cat."}\n', encoding="ascii")
    with pytest.raises(DataError, match="was built from other passages"):
        open_engine(index=path, encoder=str(encoder), corpus=str(tmp_path / "p.jsonl"))
    with pytest.raises(ConfigError, match="encoder and device work only with the engine dense, not with bm25"):
        open_engine(corpus=str(tmp_path / "p.jsonl"), encoder=str(encoder))
    with pytest.raises(ConfigError, match="needs an index folder"):
        open_engine(corpus=str(tmp_path / "p.jsonl"), encoder=str(encoder), engine="dense")

"""``datasets`` reads the folder that ``creditflow data build dataset`` writes, with the types of its card."""

from __future__ import annotations

import gzip
import json
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from creditflow.train.cli import main
from creditflow.train.credit_set.dataset import FEATURES, SPLITS
from creditflow.train.credit_set.reading import SAMPLE

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "turns"
    with as_file(files("creditflow.assets") / "credit_set" / SAMPLE) as path:
        small = ["--groups", "6", "--group-size", "2"]
        assert main(["data", "build", "dataset", "--credit-set", str(path), *small, "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize("config", FEATURES)
def test_datasets_loads_every_row_of_every_split(config: str, folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed: pip install 'creditflow[export]'")
    loaded = datasets.load_dataset(str(folder), config, cache_dir=str(tmp_path))
    assert set(loaded) == set(SPLITS.values())
    for split, table in loaded.items():
        with gzip.open(folder / config / f"{split}.jsonl.gz", "rt", encoding="ascii") as lines:
            wanted = [json.loads(line) for line in lines]
        assert table.column_names == [feature["name"] for feature in FEATURES[config]]
        assert list(table) == [{name: row.get(name) for name in table.column_names} for row in wanted]

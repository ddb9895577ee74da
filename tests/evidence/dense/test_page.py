"""The page of dense retrieval quotes the stored figures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
ENGINES = {
    "BM25": "bm25",
    "TF-IDF cosine": "tf-idf cosine",
    "random projection of TF-IDF, 128": "random projection of tf-idf",
    "LSA, 128": "lsa",
    "BM25 fused with TF-IDF cosine": "bm25 fused with tf-idf cosine",
    "BM25 fused with LSA": "bm25 fused with lsa",
    "dense, untrained": "dense, untrained encoder",
    "dense, trained": "dense, trained encoder",
    "hybrid, untrained": "hybrid, untrained encoder",
    "hybrid, trained": "hybrid, trained encoder",
}


def stored(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))


def numbers(cell: str) -> list[float]:
    return [float(text.replace("−", "-")) for text in re.findall(r"−?\d*\.?\d+", cell)]


def row_of(label: str, table: str) -> list[str]:
    [line] = [line for line in table.splitlines() if line.startswith(f"| {label} |")]
    return line.split(" | ")[1:]


@pytest.mark.parametrize("label", ENGINES)
def test_recalls_and_differences_are_those_of_the_encoders_experiment(label: str) -> None:
    table, recall = PAGE.partition("## A small encoder")[2].partition("\n## ")[0], stored("encoder")["recall"]
    suffix = "" if label == "BM25" else "_minus_bm25"
    keys = [(what, f"recall_at_{k}{suffix}") for what in ("sub-questions", "whole questions") for k in (1, 10)]
    for cell, (what, key) in zip(row_of(label, table), keys, strict=True):
        expected = [min(value, 1.0) for value in recall[what][ENGINES[label]][key]]
        assert numbers(cell) == pytest.approx(expected, abs=5.1e-4)


def test_seconds_of_a_million_and_their_lines_are_the_stored_ones() -> None:
    found = stored("exact")
    million = next(row for row in found["rows"] if row["vectors"] == 1_000_000)
    for label, key in (("1,000,000 | float16", "float16"), ("1,000,000 | int8", "int8")):
        cells = [numbers(cell.replace(",", ""))[0] for cell in row_of(label, PAGE)[1:]]
        peer = million["peer faiss float16"]["batch_cpu_seconds"]
        seconds = million[key]["batch_cpu_seconds"]
        assert cells[:3] == pytest.approx([seconds, seconds / peer, million[key]["recall_at_10"]], abs=5.1e-3)
    for key, seconds in (("float16", 64), ("int8", 45), ("peer faiss float16", 74)):
        assert round(found["lines"][key]["batch_cpu_seconds"]["at_21_015_324"]) == seconds
        assert f"{seconds} s" in PAGE


def test_recalls_of_lists_are_the_stored_ones() -> None:
    for row in stored("lists")["rows"]:
        cells = row_of(f"{row['vectors']:,} | {row['lists']}", PAGE)[1:5]
        probed = [row["probed"][at] for at in (1, 2, 3, 4)]
        for cell, probe in zip(cells, probed, strict=True):
            expected = [probe["recall_at_10"], 1e3 * probe["batch_cpu_seconds"]]
            assert numbers(cell)[0] == pytest.approx(expected[0], abs=5.1e-4)
            assert numbers(cell)[1] == pytest.approx(expected[1], abs=0.51)


PUBLISHED = {
    "BM25": "bm25",
    "TF-IDF cosine": "tf-idf cosine",
    "BM25 fused with TF-IDF cosine": "bm25 fused with tf-idf cosine",
    "dense": "dense",
    "dense, approximate": "dense, approximate",
    "hybrid": "hybrid",
}
QUERY_SETS = ("2wiki", "musique", "hotpotqa", "all", "musique, sub-questions")


@pytest.mark.parametrize("label", PUBLISHED)
@pytest.mark.parametrize("measure", ["recall@10", "all@10"])
def test_recalls_of_the_published_encoder_are_the_stored_ones(label: str, measure: str) -> None:
    table = PAGE.partition("## A published encoder")[2].partition(f"| {measure} |")[2].partition("\n\n")[0]
    key = measure if label == "BM25" else f"{measure} - bm25"
    stored_rows = stored("published")["recall"]
    sets = QUERY_SETS if measure == "recall@10" else QUERY_SETS[:-1]
    for cell, name in zip(row_of(label, table), sets, strict=True):
        assert numbers(cell) == pytest.approx(stored_rows[name][PUBLISHED[label]][key], abs=5.1e-4)


@pytest.mark.parametrize("label", stored("published_states")["parts"])
def test_areas_and_f1_of_merged_states_are_the_stored_ones(label: str) -> None:
    found, table = stored("published_states")["parts"][label], PAGE.partition("## Equal states by")[2]
    values = [found["auc"]["hash"], found["auc"]["difference"], found["clusters"]["hash"]["f1"]]
    for cell, expected in zip(row_of(label, table)[:4], [*values, found["clusters"]["difference"]["f1"]], strict=True):
        assert numbers(cell) == pytest.approx(expected, abs=5.1e-4)

"""Real evidence graphs and passages: distances as published beside them, names found where they should be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from helpers.shared_data import shared_file, shared_files

from creditflow.wrappers.graphs.entity_graph import EntityGraph

shared_files("data/search/*.jsonl.gz")


def rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(shared_file(f"data/search/{name}.jsonl.gz"), "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


@cache
def passages() -> dict[str, str]:
    return {row["id"]: row["contents"] for row in rows("passages")}


def graph_of(row: dict[str, Any]) -> EntityGraph:
    graph = row["er_graph"]
    task = {"entities": graph["nodes"], "edges": graph["edges"], "answer_node": graph["answer_node"] or ""}
    return EntityGraph.from_task(task)


@pytest.mark.parametrize("name", ["2wiki", "musique"])
def test_distances_are_those_published_with_the_graphs(name: str) -> None:
    compared = 0
    for row in rows(name):
        if row["er_graph"]["answer_node"]:
            graph = graph_of(row)
            known = {n: d for n, d in zip(graph.names, graph.distances().tolist(), strict=True) if d < len(graph)}
            assert known == row["er_graph"]["dist"]
            compared += 1
    assert compared


@pytest.mark.parametrize("name", ["2wiki", "musique"])
@pytest.mark.parametrize("rule", ["normalized", "exact_substring"])
def test_nearly_all_entities_are_found_in_the_golden_passages_and_few_in_the_others(name: str, rule: Any) -> None:
    entities = golden = others = 0
    for row in rows(name):
        if not set(row["gold_passage_ids"]) <= set(passages()):
            continue
        graph = graph_of(row)
        matcher = graph.matcher(rule)
        wrong = [i for i in row["passage_ids"] if i in passages() and i not in row["gold_passage_ids"]]
        entities += len(graph)
        golden += len(matcher.found("\n".join(passages()[i] for i in row["gold_passage_ids"])))
        others += len(matcher.found("\n".join(passages()[i] for i in wrong)))
    assert golden / entities > 0.99
    assert others / entities < 0.35

"""BM25: the formula, the order of equal scores, and Lucene's recall on real passages."""

import gzip
import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from helpers.shared_data import shared_file
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.text.bm25 import postings
from creditflow.envs.text.bm25.analyser import analyse
from creditflow.envs.text.bm25.index import build_index, coded_lengths

WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "running", "the", "ünïcode", "東京", "x_y", "3.5"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def reference(documents: list[str], query: str) -> list[float]:
    """Scores by the formula, one document at a time (documents here are so short that their coded lengths are exact)."""
    terms = [analyse(document) for document in documents]
    n, average = len(documents), sum(map(len, terms)) / len(documents)
    scores = []
    for document in terms:
        score = 0.0
        for term, count in Counter(analyse(query)).items():
            df = sum(term in other for other in terms)
            tf = document.count(term)
            if tf:
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                score += count * idf * tf / (tf + 0.9 * (1 - 0.4 + 0.4 * len(document) / average))
        scores.append(score)
    return scores


@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS)
def test_scores_follow_the_formula(documents: list[str], query: str) -> None:
    index = build_index(documents, [f"d{i:02}" for i in range(len(documents))])
    wanted = reference(documents, query)
    rows, scores = index.search(query, len(documents))
    assert sorted(rows.tolist()) == [i for i, score in enumerate(wanted) if score > 0]
    assert np.allclose(scores, [wanted[row] for row in rows], rtol=1e-4)
    assert all(a >= b for a, b in pairwise(scores.tolist()))


@given(st.lists(TEXTS, min_size=1, max_size=12), TEXTS, st.integers(0, 14))
def test_a_shorter_list_is_the_beginning_of_a_longer_one(documents: list[str], query: str, k: int) -> None:
    index = build_index(documents, [f"d{i:02}" for i in range(len(documents))])
    assert index.search(query, k)[0].tolist() == index.search(query, 99)[0].tolist()[:k]


def test_equal_scores_are_ordered_by_id() -> None:
    index = build_index(["same words"] * 4, ["c", "a", "d", "b"])
    assert index.search("words", 4)[0].tolist() == [1, 3, 0, 2]


def test_nothing_is_found_for_stop_words_empty_queries_and_unknown_words() -> None:
    index = build_index(["the cat", "a dog"], ["1", "2"])
    for query in ("", "the of and", "zebra", "\x00\ud800", " "):
        assert len(index.search(query, 5)[0]) == 0


def test_an_empty_corpus_has_no_results() -> None:
    assert len(build_index([], []).search("anything", 3)[0]) == 0


def test_a_query_of_a_megabyte_is_searched() -> None:
    index = build_index(["the cat sat", "a dog ran"], ["1", "2"])
    assert index.search("cat " * 300_000, 1)[0].tolist() == [0]
    assert len(index.search("x" * 1_000_000, 1)[0]) == 0


def test_documents_and_ids_must_be_equally_many() -> None:
    with pytest.raises(ValueError, match="2 documents but 1 ids"):
        build_index(["a", "b"], ["1"])


def test_documents_may_be_empty() -> None:
    for documents in (["", "apple", ""], ["", "apple"]):
        assert build_index(documents, ["A", "B", "C"][: len(documents)]).search("apple")[0].tolist() == [1]
    assert len(build_index(["", "the"], ["A", "B"]).search("apple")[0]) == 0


def test_many_blocks_give_the_index_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [f"common word{i % 7} word{i % 5} word{i % 7}" for i in range(50)]
    ids = [f"{i:02}" for i in range(50)]
    whole = build_index(documents, ids)
    monkeypatch.setattr(postings, "BLOCK_TERMS", 9)
    pieces = build_index(documents, ids)
    for name in ("starts", "rows", "weights", "ranks"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name))


def test_the_length_code_is_monotone_exact_below_forty_and_never_more_than_an_eighth_off() -> None:
    coded = coded_lengths(np.arange(10_000)).tolist()
    assert coded[:40] == list(range(40))
    assert coded == sorted(coded)
    assert all(0.875 * n <= c <= n for n, c in enumerate(coded))


def test_recall_is_lucenes_on_the_small_wikipedia() -> None:
    folder = shared_file("data/search")

    def rows(name: str) -> list[dict[str, object]]:
        with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    passages = rows("passages")
    ids = [str(passage["id"]) for passage in passages]
    index = build_index((str(passage["contents"]).lower() for passage in passages), ids)
    questions = [row for name in ("2wiki", "musique", "hotpotqa") for row in rows(name)]
    assert len(questions) == 1038  # the questions on which Lucene's recall was measured
    recall = {3: 0.0, 10: 0.0}
    for row in questions:
        golden = set(row["gold_passage_ids"])  # type: ignore[call-overload]  # a list in every row
        found = [ids[i] for i in index.search(str(row["question"]).lower(), 10)[0]]
        for k in recall:
            recall[k] += len(golden & set(found[:k])) / len(golden) / len(questions)
    assert recall == pytest.approx({3: 0.586, 10: 0.705}, abs=0.005)

"""Reciprocal-rank fusion: its formula, and what must not change it."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.wikisearch.retrieval.engines.hybrid_index import RRF_K, reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=13), max_size=4)


@given(rankings, st.integers(0, 14), st.integers(0, 100))
def test_it_is_the_formula(lists: list[list[int]], k: int, constant: int) -> None:
    sums: dict[int, Fraction] = {}
    for ranking in lists:
        for rank, item in enumerate(ranking, start=1):
            sums[item] = sums.get(item, Fraction(0)) + Fraction(1, constant + rank)
    found = reciprocal_rank_fusion(lists, k, constant)
    assert len(found) == min(k, len(sums))
    for item, score in found:
        assert abs(score - float(sums[item])) < 1e-15
    left = [sums[item] for item in sums.keys() - {item for item, _ in found}]
    assert all(float(sums[item]) >= float(other) - 1e-15 for item, _ in found for other in left)


@given(rankings, st.data())
def test_the_order_of_the_rankings_has_no_effect(lists: list[list[int]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(lists))
    assert reciprocal_rank_fusion(lists, 20) == reciprocal_rank_fusion(shuffled, 20)


@given(rankings)
def test_a_short_result_is_the_beginning_of_a_long_one(lists: list[list[int]]) -> None:
    long = reciprocal_rank_fusion(lists, 20)
    assert all(reciprocal_rank_fusion(lists, k) == long[:k] for k in range(len(long) + 1))


@given(st.lists(st.integers(0, 50), unique=True))
def test_one_ranking_or_copies_of_it_keep_their_order(ranking: list[int]) -> None:
    for copies in (1, 2, 3):
        assert [item for item, _ in reciprocal_rank_fusion([ranking] * copies, 99)] == ranking


@given(rankings, st.integers(0, 12), st.data())
def test_a_better_rank_never_lowers_an_item(lists: list[list[int]], item: int, data: st.DataObject) -> None:
    touched = [ranking for ranking in lists if item in ranking]
    if not touched:
        return
    ranking = data.draw(st.sampled_from(touched))
    place = ranking.index(item)
    better = [item, *ranking[:place], *ranking[place + 1 :]]
    changed = [better if each is ranking else each for each in lists]
    before = dict(reciprocal_rank_fusion(lists, 20))
    after = dict(reciprocal_rank_fusion(changed, 20))
    assert after[item] >= before[item]


def test_equal_sums_are_in_the_order_of_items_and_missing_ranks_add_nothing() -> None:
    found = reciprocal_rank_fusion([[9, 5], [2, 5]], 4)
    assert [item for item, _ in found] == [5, 2, 9]
    assert found[0][1] == 2 / (RRF_K + 2)
    assert found[1][1] == found[2][1] == 1 / (RRF_K + 1)


def test_nothing_fused_is_nothing() -> None:
    assert reciprocal_rank_fusion([], 5) == reciprocal_rank_fusion([[], []], 5) == []

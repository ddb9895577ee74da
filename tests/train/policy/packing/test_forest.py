"""The forest of packed rows: exactly the distinct prefixes, and micro-batches that keep together what shares them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from creditflow.train.policy.packing.forest import KEYS_PER_TOKEN, Forest, plan_packed, sorted_prefixes

# few ids, so that random sequences share prefixes, equal each other and continue each other
SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=12)


def arrays(lists: list[list[int]]) -> list[NDArray[np.int32]]:
    return [np.array(one, np.int32) for one in lists]


def prefixes(lists: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(one[:n]) for one in lists for n in range(1, len(one) + 1)}


@given(SEQUENCES)
def test_tokens_are_the_distinct_prefixes_and_paths_the_sequences(lists: list[list[int]]) -> None:
    forest = Forest.of(arrays(lists))
    assert len(forest) == len(prefixes(lists))
    for one, places in zip(lists, forest.places, strict=True):
        assert forest.ids[places].tolist() == one
        assert forest.positions[places].tolist() == list(range(len(one)))
        assert (np.diff(places) > 0).all()


@given(SEQUENCES)
def test_segments_partition_the_tokens_and_descendants_follow_in_one_range(lists: list[list[int]]) -> None:
    forest = Forest.of(arrays(lists))
    assert forest.starts[0] == 0
    assert forest.stops.tolist() == [*forest.starts[1:].tolist(), len(forest)]
    segments = range(len(forest.starts))
    paths = [forest.path(segment) for segment in segments]
    for segment, path in zip(segments, paths, strict=True):
        assert forest.positions[path].tolist() == list(range(len(path)))
        below = [other for other in segments if other != segment and forest.starts[segment] in paths[other]]
        tokens = [token for other in below for token in range(forest.starts[other], forest.stops[other])]
        assert tokens == list(range(forest.stops[segment], forest.ends[segment]))


@given(SEQUENCES)
def test_no_segment_could_be_joined_with_its_only_child(lists: list[list[int]]) -> None:
    forest = Forest.of(arrays(lists))
    children = np.bincount(forest.parents[forest.parents >= 0], minlength=len(forest.starts))
    assert 1 not in children


def test_rows_of_the_turns_of_one_episode_are_one_segment() -> None:
    episode = np.arange(50, dtype=np.int32)
    forest = Forest.of([episode[:n] for n in (10, 50, 20, 35)])
    assert len(forest) == 50
    assert forest.starts.tolist() == [0]


def test_a_groups_prompt_is_one_segment_above_its_responses() -> None:
    prompt = np.arange(100, 130, dtype=np.int32)
    forest = Forest.of([np.append(prompt, [i, i + 1, i + 2]).astype(np.int32) for i in range(8)])
    assert len(forest) == 30 + 8 * 3
    assert forest.parents.tolist() == [-1] + [0] * 8
    assert forest.ends[0] == len(forest)


def test_large_ids_are_ordered_as_numbers() -> None:
    order, _ = sorted_prefixes([np.array([n], np.int32) for n in (70_000, 3, 256, 255)])
    assert order == [1, 3, 2, 0]


@given(SEQUENCES, st.integers(1, 30))
def test_every_sequence_is_in_one_micro_batch_within_the_budget(lists: list[list[int]], budget: int) -> None:
    batches = plan_packed(arrays(lists), budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lists)))
    sizes = []
    for batch in batches:
        forest = Forest.of(arrays([lists[i] for i in batch]))
        limit = max(budget, *(len(lists[i]) for i in batch))
        assert len(forest) <= limit
        gathered = sum(len(forest.path(segment)) for segment in range(len(forest.starts)))
        assert gathered <= KEYS_PER_TOKEN * limit
        sizes.append(len(forest))
    assert sizes == sorted(sizes, reverse=True)  # a budget too large for the memory fails at once


@given(SEQUENCES, st.integers(1, 30), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_micro_batches_do_not_depend_on_the_order_of_rows(lists: list[list[int]], budget: int, random: Any) -> None:
    shuffled = lists.copy()
    random.shuffle(shuffled)

    def planned(rows: list[list[int]]) -> list[list[list[int]]]:
        return [[rows[i] for i in batch] for batch in plan_packed(arrays(rows), budget)]

    assert planned(shuffled) == planned(lists)


def test_a_full_micro_batch_is_cut_between_groups() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for group in range(6):
        prompt = np.append(group, rng.integers(0, 9, 39))
        rows += [np.concatenate([prompt, rng.integers(0, 9, 10)]).astype(np.int32) for _ in range(4)]
    batches = plan_packed(rows, 230)  # a group has up to 80 tokens: two of them fit, and most of a third
    assert all(len({int(rows[i][0]) for i in batch}) * 4 == len(batch) for batch in batches)


def test_prefixes_of_a_row_longer_than_the_budget_cost_nothing() -> None:
    episode = np.arange(40, dtype=np.int32)
    assert len(plan_packed([episode[:n] for n in range(5, 41, 5)], 10)) == 1


def test_rows_that_share_nothing_fill_micro_batches() -> None:
    rows = [np.full(10, i, np.int32) for i in range(9)]
    assert [len(batch) for batch in plan_packed(rows, 40)] == [4, 4, 1]


def test_a_micro_batch_is_divided_where_kernels_would_gather_too_many_keys() -> None:
    """A long prompt with many short responses: few tokens, but every response reads the whole prompt."""
    prompt = np.zeros(100, np.int32)
    rows = [np.append(prompt, [i, i]).astype(np.int32) for i in range(1, 41)]
    budget = 180  # the 180 distinct tokens fit
    batches = plan_packed(rows, budget)
    gathered = []
    for batch in batches:
        forest = Forest.of([rows[i] for i in batch])
        gathered.append(sum(len(forest.path(segment)) for segment in range(len(forest.starts))))
    assert max(gathered) <= KEYS_PER_TOKEN * budget
    assert len(batches) <= 2 * np.ceil(sum(gathered) / (KEYS_PER_TOKEN * budget))  # and not into more than it takes


def test_a_full_micro_batch_keeps_at_least_half_of_its_budget() -> None:
    """Rows that share more and more: the best cut, before the second row, would leave nearly nothing."""
    chain = [np.concatenate([np.ones(3 * i, np.int32), np.zeros(12, np.int32)]) for i in range(20)]
    for batch in plan_packed(chain, 100)[:-1]:
        assert len(Forest.of([chain[i] for i in batch])) >= 50

"""The kinds of task beyond the grids of the exact suites."""

import pytest

from creditflow.train.bench.shared.tasks import SHARED_KINDS, keys_of, viewed_tasks


def test_every_kind_has_random_streams_of_its_own():
    assert len(set(SHARED_KINDS.values())) == len(SHARED_KINDS)


def test_keys_are_aliased_or_fresh_where_the_kind_says_so():
    assert {kind: keys_of(kind) for kind in SHARED_KINDS if keys_of(kind) != "distinct"} == {
        "alias": "aliased",
        "fresh": "fresh",
    }


@pytest.mark.parametrize("kind", ["pits", "sokoban"])
def test_every_seed_and_layout_seed_has_tasks_of_its_own(kind):
    names = [{task.mdp.name for task in viewed_tasks(kind, seed, unit, 12)} for seed, unit in ((0, 0), (0, 1), (1, 0))]
    assert [len(of_unit) for of_unit in names] == [12, 12, 12]
    assert not (names[0] & names[1] or names[0] & names[2])
    assert names[0] == {task.mdp.name for task in viewed_tasks(kind, 0, 0, 12)}

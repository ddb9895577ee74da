"""The kinds of task beyond the grids of the exact suites."""

import numpy as np
import pytest

from creditflow.train.bench.shared.kinds.grids import LONG_HORIZON
from creditflow.train.bench.shared.tasks import SHARED_KINDS, keys_of, viewed_tasks


def best_scores(mdp):
    """Largest expected score from every state, within the turn limit."""
    value = np.concatenate([mdp.limit_score, mdp.terminal_score])
    for _ in range(mdp.horizon):
        value[: mdp.size] = (mdp.transition_probs * value[mdp.next_states]).sum(axis=2).max(axis=1)
    return value


@pytest.mark.parametrize("kind", ["long", "key", "sokoban-boxes"])
def test_tasks_repeat_exactly_and_differ_between_units(kind):
    first, again, other = (viewed_tasks(kind, 3, unit, 6) for unit in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        assert a.mdp.keys == b.mdp.keys
        np.testing.assert_array_equal(a.parts, b.parts)
    assert [a.mdp.name for a in first] != [a.mdp.name for a in other]


def test_every_kind_has_random_streams_of_its_own():
    assert len(set(SHARED_KINDS.values())) == len(SHARED_KINDS)


def test_keys_are_aliased_or_fresh_where_the_kind_says_so():
    assert {kind: keys_of(kind) for kind in SHARED_KINDS if keys_of(kind) != "distinct"} == {
        "alias": "aliased",
        "fresh": "fresh",
        "sokoban-boxes": "aliased",
    }


def test_long_ways_have_as_many_turns_as_they_say():
    for mdp, _ in viewed_tasks("long", 3, 0, 10):
        assert mdp.horizon == LONG_HORIZON
        assert 12 <= mdp.distance[mdp.start] <= 24


def test_a_key_of_boxes_alone_changes_with_a_push_only():
    plain = {task.mdp.name: task.mdp for task in viewed_tasks("sokoban", 3, 0, 8)}
    for mdp, _ in viewed_tasks("sokoban-boxes", 3, 0, 8):
        assert mdp.keys == plain[mdp.name].keys
        assert len(set(mdp.text_keys[: mdp.size])) < mdp.size
        assert len(set(mdp.text_keys[mdp.size :]) & set(mdp.text_keys[: mdp.size])) == 0
        back = np.zeros((mdp.size, 4), bool)  # moves that the opposite move takes back push nothing
        for action, opposite in enumerate((1, 0, 3, 2)):
            after = mdp.next_states[:, action, 0]
            inner = after < mdp.size
            back[inner, action] = mdp.next_states[after[inner], opposite, 0] == np.arange(mdp.size)[inner]
            back[:, action] &= after != np.arange(mdp.size)
        states, actions = back.nonzero()
        after = mdp.next_states[states, actions, 0]
        assert all(mdp.text_keys[a] == mdp.text_keys[b] for a, b in zip(states.tolist(), after.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["pits", "sokoban"])
def test_every_seed_and_layout_seed_has_tasks_of_its_own(kind):
    names = [{task.mdp.name for task in viewed_tasks(kind, seed, unit, 12)} for seed, unit in ((0, 0), (0, 1), (1, 0))]
    assert [len(of_unit) for of_unit in names] == [12, 12, 12]
    assert not (names[0] & names[1] or names[0] & names[2])
    assert names[0] == {task.mdp.name for task in viewed_tasks(kind, 0, 0, 12)}


def test_the_goal_opens_with_the_key_alone_and_the_text_key_hides_it():
    for mdp, parts in viewed_tasks("key", 3, 0, 12):
        has_key = np.array([key.endswith(":key") for key in mdp.keys[: mdp.size]])
        ends = (mdp.next_states[:, :, 0] >= mdp.size).any(axis=1)
        assert not (ends & ~has_key).any()
        assert (ends & has_key).any()
        alive = parts[:, 0] >= 0
        np.testing.assert_array_equal(parts[alive, 0], has_key[alive])
        cells = [key.rsplit(":", 1)[0] for key in mdp.keys[: mdp.size]]
        assert list(mdp.text_keys[: mdp.size]) == cells
        assert len(set(cells)) < mdp.size
        assert best_scores(mdp)[mdp.start] == 1.0

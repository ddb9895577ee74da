"""Groups divided over ranks in any way: numbers, credit and order are those of one process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from helpers.episodes.token_groups import group_of
from helpers.threaded_ranks import in_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.base import Agent
from creditflow.envs.tasks import Task
from creditflow.train.distributed.groups import SharedEngine, assign_credit, trajectory_numbers
from creditflow.train.distributed.world import ALONE, World
from creditflow.train.rollout.engine import NoGroupError
from creditflow.train.run.failures import DivergedError
from creditflow.wrappers import credit
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.outcomes.grpo import GRPO
from creditflow.wrappers.records.group import Group

Place = tuple[int, int]
SIZES = {(1, 0): 2, (0, 2): 4, (0, 0): 3, (1, 1): 1, (0, 1): 2}  # (round, task): members, in the order of playing


def played(place: Place, size: int) -> Group:
    rng = np.random.default_rng([*place, 3])
    group = group_of(
        place[0] * 9 + place[1],
        f"task {place}",
        rng.integers(1, 5, size).tolist(),
        rng.integers(0, 2, size).astype(float).tolist(),
    )
    first, *others = group.trajectories
    turn = replace(first.turns[0], observation="a long text", thought="another")
    return Group((replace(first, turns=(turn, *first.turns[1:])), *others), {"question": f"Where is {place}?"})


GROUPS = {place: played(place, size) for place, size in SIZES.items()}
IN_ORDER = sorted(GROUPS)


def part_of(owner: Sequence[int], rank: int) -> list[Place]:
    return [place for place, own in zip(GROUPS, owner, strict=True) if own == rank]


@pytest.mark.parametrize("ranks", [2, 3])
@settings(max_examples=12)
@given(data=st.data())
def test_trajectories_have_the_numbers_of_one_process(ranks: int, data: st.DataObject) -> None:
    owner = data.draw(st.lists(st.integers(0, ranks - 1), min_size=len(GROUPS), max_size=len(GROUPS)))
    numbers = in_threads(
        ranks,
        lambda world: trajectory_numbers(
            [GROUPS[place] for place in part_of(owner, world.rank)], part_of(owner, world.rank), world
        ),
    )
    first = dict(zip(IN_ORDER, np.cumsum([0, *(SIZES[place] for place in IN_ORDER)]).tolist(), strict=False))
    for rank, found in enumerate(numbers):
        assert found == [first[place] + i for place in part_of(owner, rank) for i in range(SIZES[place])]


def coupled() -> list[Scheme]:
    return [credit.make("grouptd", prior="pooled"), credit.make("rewardflow", propagation="first_seen_rewards")]


@pytest.mark.parametrize("scheme", coupled(), ids=lambda scheme: scheme.name)
@settings(max_examples=8)
@given(owner=st.lists(st.integers(0, 1), min_size=len(GROUPS), max_size=len(GROUPS)))
def test_a_scheme_that_couples_groups_scores_them_as_one_process_does(scheme: Scheme, owner: list[int]) -> None:
    def scored(world: World) -> list[Credit]:
        places = part_of(owner, world.rank)
        return assign_credit(scheme, [GROUPS[place] for place in places], places, world)

    whole = dict(zip(IN_ORDER, scheme.assign_batch([GROUPS[place] for place in IN_ORDER]), strict=True))
    for rank, found in enumerate(in_threads(2, scored)):
        assert len(found) == len(part_of(owner, rank))
        for place, given_ in zip(part_of(owner, rank), found, strict=True):
            np.testing.assert_array_equal(given_.flat_advantages, whole[place].flat_advantages)


class PlaceInTheBatch(GRPO):
    """The credit of every turn is the number of its group in the batch."""

    def assign_batch(self, groups: Sequence[Group]) -> list[Credit]:
        return [Credit.of(group, outcome=np.full(len(group), float(i))) for i, group in enumerate(groups)]


def test_the_batch_has_the_order_of_one_process() -> None:
    owner = [1, 0, 0, 1, 0]

    def scored(world: World) -> list[Credit]:
        places = part_of(owner, world.rank)
        return assign_credit(PlaceInTheBatch(), [GROUPS[place] for place in places], places, world)

    for rank, found in enumerate(in_threads(2, scored)):
        expected = [IN_ORDER.index(place) for place in part_of(owner, rank)]
        assert [given_.outcome_advantages[0] for given_ in found] == expected


class Silent(World):
    """A rank that must not be asked for anything."""

    def gather(self, value: Any) -> list[Any]:
        raise AssertionError("this needs no communication")


def test_a_scheme_that_scores_groups_alone_needs_no_communication() -> None:
    scheme, groups = credit.make("gigpo"), [GROUPS[place] for place in IN_ORDER]
    for found, group in zip(assign_credit(scheme, groups, IN_ORDER, Silent(0, 2)), groups, strict=True):
        np.testing.assert_array_equal(found.flat_advantages, scheme.assign(group).flat_advantages)


class Engine:
    """Plays what was prepared; some tasks have no group."""

    def __init__(self, missing: Sequence[str] = ()) -> None:
        self.missing, self.asked = missing, list[list[str]]()

    def play(self, agent: Agent, tasks: Sequence[Task], **options: Any) -> list[Group]:
        assert options == {"seed": 5, "iteration": 2, "trial": 1}
        self.asked.append([task.task_id for task in tasks])
        by_task = {group.task_id: group for group in GROUPS.values()}
        found = [by_task[task.task_id] for task in tasks if task.task_id not in self.missing]
        if not found:
            raise NoGroupError("none")
        return found


def test_an_evaluation_has_the_groups_of_all_ranks_in_the_order_of_its_tasks() -> None:
    order = [(0, 2), (1, 1), (0, 0), (1, 0), (0, 1)]
    tasks = [Task(GROUPS[place].task_id, "", {}) for place in order]
    missing = [GROUPS[place].task_id for place in ((1, 1), (1, 0))]  # all that the second rank plays
    engines = [Engine(missing), Engine(missing)]
    agent = cast("Agent", None)
    for found in in_threads(
        2, lambda world: SharedEngine(engines[world.rank], world).play(agent, tasks, seed=5, iteration=2, trial=1)
    ):
        assert [group.task_id for group in found] == [GROUPS[place].task_id for place in ((0, 2), (0, 0), (0, 1))]
        for group, place in zip(found, ((0, 2), (0, 0), (0, 1)), strict=True):
            own = GROUPS[place]
            assert group.task == own.task
            assert [one.success for one in group.trajectories] == [one.success for one in own.trajectories]
            assert [len(one.turns) for one in group.trajectories] == [len(one.turns) for one in own.trajectories]
            assert all(one.tokens is None for one in group.trajectories)
    assert [engine.asked for engine in engines] == [
        [[GROUPS[place].task_id for place in part]] for part in (order[::2], order[1::2])
    ]
    everything = in_threads(
        2, lambda world: SharedEngine(Engine(), world).play(agent, tasks, seed=5, iteration=2, trial=1)
    )
    assert [[group.task_id for group in found] for found in everything] == [[task.task_id for task in tasks]] * 2
    alone = SharedEngine(Engine(missing), ALONE).play(agent, tasks, seed=5, iteration=2, trial=1)
    assert [group.trajectories[0].tokens is None for group in alone] == [False] * 3


def test_numbers_of_ranks_are_merged_by_name_and_a_rank_may_lack_one() -> None:
    own: list[dict[str, float]] = [{"a": 1.0, "b": -2.0}, {"b": 0.1}, {"a": -3.0, "c": float("inf")}]
    totals = in_threads(3, lambda world: (world.total(own[world.rank]), world.largest(own[world.rank])))
    assert totals == [({"a": -2.0, "b": -1.9, "c": float("inf")}, {"a": 1.0, "b": 0.1, "c": float("inf")})] * 3
    assert in_threads(3, lambda world: world.count(world.rank + 1)) == [6] * 3


def test_items_are_dealt_to_the_ranks_in_turn() -> None:
    assert in_threads(3, lambda world: world.own_part("abcdefg")) == [["a", "d", "g"], ["b", "e"], ["c", "f"]]


def test_what_the_first_rank_does_alone_is_over_when_the_others_go_on() -> None:
    done = list[int]()

    def work(world: World) -> list[int]:
        world.run_on_first(lambda: done.append(world.rank))
        return list(done)

    assert in_threads(3, work) == [[0]] * 3


@pytest.mark.parametrize("diverging", [[0], [1], [0, 2], []])
def test_all_ranks_raise_what_one_of_them_met(diverging: list[int]) -> None:
    def compute(rank: int) -> int:
        if rank in diverging:
            raise DivergedError(f"nan in rank {rank}", [10 * rank + 1])
        return rank

    def work(world: World) -> tuple[str, list[int]] | int:
        try:
            return world.diverge_together(lambda: compute(world.rank))
        except DivergedError as error:
            return str(error), list(error.trajectories)

    if not diverging:
        assert in_threads(3, work) == [0, 1, 2]
        return
    found = (str(DivergedError(f"nan in rank {diverging[0]}", [])), [10 * rank + 1 for rank in diverging])
    assert in_threads(3, work) == [found] * 3

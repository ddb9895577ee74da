"""Cells of the exact benchmark: tasks by seed, paired tasks, learning curves."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from helpers.episodes.exact_fixtures import LOGITS, chain
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.train.bench.exact.cells import Cell, assemble, cells_of, learn_exactly, run_task
from creditflow.train.bench.exact.tasks import SOKOBAN_KINDS, exact_kinds, exact_tasks
from creditflow.train.bench.exact.values import softmax, success
from creditflow.train.bench.methods import default_schemes
from creditflow.train.bench.presets import PRESETS, ExactWork
from creditflow.train.bench.report.tidy import results_of

WORK = PRESETS["smoke"].grids
METHODS = (*default_schemes(True), "oracle_adv")
COMPARED = ("grpo", "grouptd", "oracle_adv", "shuffled(grouptd)", "shuffled(oracle_adv)", "flipped(oracle_adv)")


def run_cell(cell, seed, methods=("grpo", "gigpo", "grouptd"), suite="grids", work=WORK):
    return assemble(cell, [run_task(suite, cell, work, methods, seed, n) for n in range(work.tasks)])


@pytest.fixture(scope="module")
def cells():
    return [run_cell(Cell(kind, 0.5, 8), 5, METHODS) for kind in ("open", "alias")]


@pytest.fixture(scope="module")
def control_alone():
    return run_task("grids", Cell("open", 0.5, 8), WORK, ("shuffled(grouptd)",), 5, 0)


def test_the_same_seed_gives_the_same_cell():
    cell = Cell("open", 0.5, 8)
    assert run_cell(cell, 5) == run_cell(cell, 5)
    assert run_cell(cell, 6) != run_cell(cell, 5)


@pytest.mark.parametrize("metric", ["cos_mean", "bias2", "coverage", "area", "final"])
def test_a_metric_has_an_interval_over_tasks(cells, metric):
    found = results_of({"cells": cells}).estimate(metric, "grouptd")
    assert found.low < found.mean < found.high


def test_another_seed_gives_other_tasks():
    first = [next(exact_tasks("grids", "pits", seed)).name for seed in (0, 1, 2)]
    assert len(set(first)) == 3


@settings(max_examples=8)
@given(named=st.lists(st.sampled_from(COMPARED), unique=True), data=st.data())
def test_a_shuffled_control_does_not_depend_on_what_else_is_named(control_alone, named, data):
    control = "shuffled(grouptd)"
    named = [name for name in named if name != control]
    named.insert(data.draw(st.integers(0, len(named)), "place"), control)
    found = run_task("grids", Cell("open", 0.5, 8), WORK, named, 5, 0)
    assert found is not None
    assert found["offline"][control] == control_alone["offline"][control]
    assert found["curves"][control] == control_alone["curves"][control]


def test_every_group_size_has_the_same_tasks():
    work = ExactWork((0.5,), (4, 8), 3, {4: 4, 8: 4}, {4: 2, 8: 2})
    small, large = (run_cell(cell, 3, ("grpo",), work=work) for cell in cells_of(("pits",), work))
    assert small["task_names"] == large["task_names"]
    assert len(set(small["task_names"])) == 3


def test_a_cell_has_no_more_tasks_than_exist():
    cell = Cell("open", 0.5, 8)
    assert run_task("grids", cell, WORK, ("grpo",), 5, WORK.tasks) is None
    empty = assemble(cell, [None, None])
    assert empty["tasks"] == 0
    assert empty["offline"] == {}


def test_aliased_cells_compare_text_keys():
    assert Cell("alias", 0.5, 8).key == "text"
    assert Cell("pits", 0.5, 8).key == "state"


def test_the_full_preset_has_48_cells_of_grids_and_18_of_sokoban():
    full = PRESETS["full"]
    assert full.annotated
    assert len(cells_of(exact_kinds("grids")[0], full.grids)) == 48
    assert len(cells_of(SOKOBAN_KINDS, full.sokoban)) == 18


def test_the_full_preset_has_fifty_tasks_of_every_kind_and_ten_seeds():
    full = PRESETS["full"]
    assert min(full.grids.tasks, full.sokoban.tasks, full.played.tasks) >= 50
    assert full.played.seeds >= 10


@pytest.mark.parametrize("kind", SOKOBAN_KINDS)
def test_there_are_fifty_sokoban_levels_of_every_kind(kind):
    names = [mdp.name for mdp in islice(exact_tasks("sokoban", kind, 0), 50)]
    assert len(set(names)) == 50


def test_all_curves_use_the_same_turn_budget():
    got = learn_exactly(
        chain(), LOGITS, ["grpo", "oracle_adv", "grouptd"], np.random.default_rng(0), size=8, updates=10, kl=0.01
    ).curves
    start = float(success(chain(), softmax(LOGITS)))
    for curve in got.values():
        assert curve.points[0] == pytest.approx(start, abs=1e-4)
        assert curve.updates >= 10 * 0.5
    assert got["oracle_adv"].final > start


def test_a_group_without_credit_uses_up_turns_and_leaves_the_policy_unchanged():
    hopeless = np.array([[-60.0, 60.0]] * 3)  # never succeeds: grpo has no credit
    got = learn_exactly(chain(), hopeless, ["grpo"], np.random.default_rng(0), size=4, updates=5, kl=0.01).curves
    assert got["grpo"].final == pytest.approx(0.0, abs=1e-12)
    assert got["grpo"].updates == 5


def test_the_exact_advantage_learns_at_least_as_well_as_its_shuffled_control():
    names = ["oracle_adv", "shuffled(oracle_adv)", "flipped(oracle_adv)"]
    got = learn_exactly(chain(), LOGITS, names, np.random.default_rng(1), size=16, updates=20, kl=0.01).curves
    assert got["oracle_adv"].area > got["shuffled(oracle_adv)"].area > got["flipped(oracle_adv)"].area


def test_sokoban_tasks_come_from_their_stratum_and_are_distinct():
    tasks = {kind: exact_tasks("sokoban", kind, 0) for kind in SOKOBAN_KINDS}
    found = {kind: [next(source) for _ in range(3)] for kind, source in tasks.items()}
    few, some, many = (np.mean([mdp.dead_state_fraction for mdp in found[kind]]) for kind in SOKOBAN_KINDS)
    assert few < some < many
    assert len({mdp.name for own in found.values() for mdp in own}) == 9

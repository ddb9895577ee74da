"""Cells of the suite ``shared``, and how their layout seeds are combined."""

import json

import numpy as np
import pytest

from creditflow.train.bench.presets import PRESETS, SharedWork
from creditflow.train.bench.shared.cells import SharedCell, assemble, cells_of, learned_names, run_unit

WORK = SharedWork(2, 8, 4, 8, 4, 2, ("pits",))
SMALL = SharedCell("pits", batch=4, size=4)
NAMES = ("grpo", "grouptd", "oracle_adv")


@pytest.fixture(scope="module")
def parts():
    return [run_unit(SMALL, WORK, NAMES, NAMES, 0, unit) for unit in range(2)]


@pytest.mark.parametrize("preset", PRESETS)
def test_cells_are_distinct_and_have_distinct_titles(preset):
    cells = cells_of(PRESETS[preset].shared)
    assert len(set(cells)) == len(cells)
    titles = [(cell.kind, cell.batch, cell.size, cell.condition) for cell in cells]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("preset", PRESETS)
def test_no_method_has_a_loss_average_of_its_own(preset):
    work = PRESETS[preset].shared
    assert all(cell.sampling.loss.aggregation != "auto" for cell in cells_of(work))


def test_the_full_preset_varies_batch_features_aggregation_and_kind():
    cells = cells_of(PRESETS["full"].shared)
    assert {cell.batch for cell in cells} == {1, 4, 16, 64}
    assert {cell.features for cell in cells} == {"local", "additive", "table"}
    assert {cell.aggregation for cell in cells} == {"token_mean", "trajectory_mean"}
    assert {cell.kind for cell in cells} == {"open", "pits", "slip", "alias", "fresh", "sokoban"}


def test_aliased_tasks_are_scored_by_text_key_and_fresh_ones_never_repeat_a_key():
    assert SharedCell("alias").sampling.key == "text"
    assert SharedCell("fresh").sampling.fresh
    assert SharedCell("pits").sampling.key == "state"
    assert not SharedCell("pits").sampling.fresh


def test_a_layout_seed_is_plain_json_and_repeats_exactly(parts):
    assert json.loads(json.dumps(parts[0], allow_nan=False)) == parts[0]
    assert run_unit(SMALL, WORK, NAMES, NAMES, 0, 0) == parts[0]
    assert parts[1]["measures"] != parts[0]["measures"]


def test_every_kind_runs():
    for kind in ("open", "slip", "alias", "fresh", "sokoban"):
        found = run_unit(SharedCell(kind, batch=4, size=4), WORK, ("grouptd", "oracle_adv"), (), 0, 0)
        assert set(found["measures"]) == {"grouptd", "oracle_adv"}
        assert found["curves"] == {}


def test_an_update_of_more_tasks_than_the_preset_has_trains_on_more():
    found = run_unit(SharedCell("pits", batch=10, size=2), WORK, ("grpo",), (), 0, 0)
    assert found["measures"]["grpo"]["gain"] is not None


def test_a_cell_without_an_initial_policy_says_why():
    found = run_unit(SharedCell("sokoban", "additive", batch=4, size=4, success=0.99), WORK, NAMES, NAMES, 0, 0)
    assert "the nearest has" in found["impossible"]


def test_layout_seeds_are_the_rows_of_the_study(parts):
    found = assemble(SMALL, parts)
    study = {name: {n: np.array(rows) for n, rows in of.items()} for name, of in found["study"]["endpoints"].items()}
    assert study["gain"]["grpo"].shape == study["area"]["grpo"].shape == (2, 1)
    for unit, part in enumerate(parts):
        train, held_out = part["curves"]["grouptd"]
        assert study["area"]["grouptd"][unit, 0] == pytest.approx(np.mean(train[1:]), rel=1e-4)
        assert study["held_out_final"]["grouptd"][unit, 0] == pytest.approx(held_out[-1], rel=1e-4)
    assert found["curves"]["grpo"][0] == pytest.approx(
        np.mean([p["curves"]["grpo"][0] for p in parts], axis=0), rel=1e-4
    )


def test_a_method_that_is_missing_in_one_seed_is_missing_in_the_cell(parts):
    other = {**parts[1], "undefined": {"grouptd": "no reason"}, "curves": dict(parts[1]["curves"])}
    del other["curves"]["grouptd"]
    found = assemble(SMALL, [parts[0], other])
    assert found["undefined"] == {"grouptd": "no reason"}
    assert all("grouptd" not in rows for rows in found["study"]["endpoints"].values())
    assert "grouptd" not in found["curves"]


def test_only_the_first_shuffled_and_the_first_flipped_control_get_learning_curves():
    controls = [
        "oracle_adv",
        "shuffled(oracle_adv)",
        "flipped(oracle_adv)",
        "stateless",
        "shuffled(grouptd)",
        "flipped(grouptd)",
    ]
    assert learned_names(["grpo"], controls) == [
        "grpo",
        "oracle_adv",
        "shuffled(oracle_adv)",
        "flipped(oracle_adv)",
        "stateless",
    ]

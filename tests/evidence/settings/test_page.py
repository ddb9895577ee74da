"""The page of settings reports what its stored results contain, and the grid is what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.estimators import register_estimators
from evidence.settings.run import (
    ALTERED,
    FACTORS,
    Setting,
    cells_of,
    half,
    jobs,
    labels,
    layout_seed,
    one_at_a_time,
    rows_of,
    run,
    settings,
)
from evidence.settings.tables import FILTERS, close, leads_of, mean_lead, tables

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"


@pytest.fixture(autouse=True)
def estimators(forgotten):
    register_estimators()


@pytest.fixture(scope="module")
def leads():
    return leads_of(RESULTS)


def test_the_stored_tables_are_those_of_the_results():
    assert (HERE / "tables.txt").read_text("utf-8") == tables(RESULTS) + "\n"


def test_every_row_of_the_page_is_computed_from_the_results(leads):
    rows = [
        line.strip("| ").split(" | ") for line in (HERE / "README.md").read_text("utf-8").splitlines() if " | " in line
    ]
    methods = [row for row in rows if row[0] in labels() and len(row) == 7]
    assert len(methods) == 13
    for name, *cells, near in methods:
        assert cells == [mean_lead(leads, name, chosen=chosen).text(1, "+") for chosen in FILTERS.values()], name
        if near != "–":
            assert near == "{} of {}".format(*close(leads, name, FILTERS["all"])[:2])
    pairs = [row for row in rows if " − " in row[0] and len(row) == 4]
    assert len(pairs) == 4
    for pair, *cells in pairs:
        parts = [FILTERS[name] for name in ("all", *FACTORS["update"])]
        assert cells == [mean_lead(leads, *pair.split(" − "), chosen=chosen).text(1, "+") for chosen in parts]


def test_the_second_run_agrees_as_the_page_says(leads):
    second = leads_of(HERE / "second.jsonl")
    page = (HERE / "README.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.count(" | ") == 4]
    methods = [row for row in rows if row[0] in labels()]
    assert len(methods) == 13
    order = []
    for name, *cells in methods:
        means = [mean_lead(of_run, name, chosen=FILTERS["all"]) for of_run in (leads, second)]
        near = ["{} of {}".format(*close(of_run, name, FILTERS["all"])[:2]) for of_run in (leads, second)]
        assert cells == [*(mean.text(1, "+") for mean in means), *(near if name != "oracle_adv" else ("–", "–"))], name
        assert means[0].low <= means[1].mean <= means[0].high
        order.append(means[1].mean)
    assert order[:9] == sorted(order, reverse=True)[:9]
    pair = [[of_run[s]["grouptd"] - of_run[s]["graphgpo"] for s in leads] for of_run in (leads, second)]
    assert round(float(np.corrcoef(pair)[0, 1]), 2) == 0.94
    assert sum(np.sign(pair[0]) == np.sign(pair[1])) == 84
    assert round(min(of_setting["grouptd"] for of_setting in second.values()), 1) == -2.4
    minutes = sum(row["seconds"] for row in rows_of(HERE / "second.jsonl")) / 60.0
    assert f"{minutes:.1f} CPU minutes" in page


def test_the_page_says_how_much_has_run():
    rows = rows_of(RESULTS)
    done = {(row["setting"], row["unit"]) for row in rows}
    minutes = sum(row["seconds"] for row in rows) / 60.0
    text = (HERE / "README.md").read_text("utf-8")
    assert f"{len(done)} of {len(jobs(3))} jobs have run, in {minutes:.1f} CPU minutes" in text


def test_one_factor_differs_from_the_base_setting():
    for setting in one_at_a_time():
        names = [name for name in FACTORS if name not in ("tasks", "update")]
        assert sum(getattr(setting, name) != FACTORS[name][0] for name in names) <= 1


def test_every_level_of_every_factor_is_measured():
    for name, levels in FACTORS.items():
        assert {getattr(setting, name) for setting in one_at_a_time()} == set(levels)


def test_both_updates_of_a_condition_are_in_one_half_and_have_one_layout_seed():
    for setting in settings():
        twin = Setting(**{name: getattr(setting, name) for name in FACTORS if name != "update"}, update="KL .003")
        assert half(setting) == half(twin)
        assert layout_seed(setting, 1) == layout_seed(twin, 1)


def test_a_cell_has_the_levels_of_its_setting():
    cell = Setting("sokoban", "hidden", "0/1", "20 % slips", "60", "4", "32", "local", "Adam .05").cell
    assert (cell.tasks, cell.keys, cell.slip, cell.horizon) == ("sokoban-boxes", "aliased", 0.2, 60)
    assert (cell.size, cell.batch, cell.rate) == (4, 32, 0.05)
    assert (Setting(outcome="10 % wrong").cell.wrong, Setting(outcome="graded").cell.graded) == (0.1, True)


def test_altered_methods_differ_in_their_cell_alone():
    found = dict(cells_of(Setting(), list(ALTERED)))
    assert {label for of_cell in found.values() for label in of_cell.values()} == set(ALTERED)
    assert all(cell != Setting().cell for cell in found)


def test_results_of_another_seed_are_not_mixed_in(tmp_path):
    file = tmp_path / "results.jsonl"
    first = RESULTS.read_text("utf-8").splitlines(keepends=True)[0]
    file.write_text(first, encoding="utf-8")
    with pytest.raises(SystemExit, match="has results of seed 17, not of 18; name another file"):
        run(file, 1, 18, 0.0, stored=False)
    assert file.read_text("utf-8") == first

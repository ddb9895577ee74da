"""The grid of settings is what it says, and runs are kept apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.settings.estimators import register_estimators
from evidence.settings.run import FACTORS, Setting, half, layout_seed, measure, one_at_a_time, rows_of, run, settings
from evidence.settings.tables import FILTERS, close, leads_of

HERE = Path(__file__).parent
RESULTS = HERE / "results.jsonl"


@pytest.fixture(autouse=True)
def estimators(forgotten):
    register_estimators()


@pytest.fixture(scope="module")
def leads():
    return leads_of(RESULTS)


def test_the_page_says_in_how_many_settings_grouptd_is_close_to_the_best(leads):
    second = leads_of(HERE / "second.jsonl")
    near = [close(of_run, "grouptd", FILTERS["all"])[0] for of_run in (leads, second)]
    assert f"in {near[0]} of 96 settings, and in {near[1]} in the second run" in (HERE / "README.md").read_text("utf-8")


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


def test_results_of_another_seed_are_not_mixed_in(tmp_path):
    file = tmp_path / "results.jsonl"
    first = RESULTS.read_text("utf-8").splitlines(keepends=True)[0]
    file.write_text(first, encoding="utf-8")
    with pytest.raises(SystemExit, match="has results of seed 17, not of 18; name another file"):
        run(file, 1, 18, 0.0, stored=False)
    assert file.read_text("utf-8") == first


# every kind of task, key, outcome and start, under both updates; a few methods, as the curve of one does not depend on the others
AGAIN = ("grpo", "stateless", "grouptd, centred", "grpo, dynamic sampling")
JOBS = [("results.jsonl", number) for number in (3, 12, 82, 112, 118, 120, 124)] + [
    ("second.jsonl", 3),
    ("second.jsonl", 250),
]


@pytest.mark.parametrize(("file", "number"), JOBS)
def test_stored_jobs_run_again_give_their_numbers(file, number):
    row = rows_of(HERE / file)[number]
    [setting] = [setting for setting in settings() if str(setting) == row["setting"]]
    again = measure(setting, [name for name in AGAIN if name in row["values"]], row["seed"], row["unit"])
    assert again["values"]
    for method, values in again["values"].items():
        assert row["values"][method] == pytest.approx(values, abs=1e-4), method

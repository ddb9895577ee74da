"""The study: cells, curves, sanity rules that fail loudly, predictions that can miss."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from bench.exact_fixtures import LOGITS, chain

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.columns import CURVE_COLUMNS, OFFLINE_COLUMNS, make_columns
from creditflow.train.bench.controls import Judge
from creditflow.train.bench.curves import learn_exactly
from creditflow.train.bench.exact import success
from creditflow.train.bench.policies import softmax
from creditflow.train.bench.predictions import RULES, judge_predictions, load_predictions
from creditflow.train.bench.sanity import BenchBrokenError, broken_rules, require_sane
from creditflow.train.bench.study import PRESETS, Cell, cells_of, paired, run_cell, study_tasks
from creditflow.train.cli import main


@pytest.fixture(scope="module")
def cells():
    preset = PRESETS["smoke"]
    return [run_cell(cell, preset, seed=5) for cell in cells_of(preset)]


def test_a_working_bench_breaks_no_rule(cells):
    assert broken_rules(cells) == []
    require_sane(cells)


def broken(cells, column, metric, value):
    spoilt = copy.deepcopy(cells)
    for cell in spoilt:
        cell["offline"][column][metric] = value
    return spoilt


@pytest.mark.parametrize(
    ("column", "metric", "value", "message"),
    [
        ("grpo", "cos_batch", 0.999, "grpo has a one-batch cosine"),
        ("flipped(oracle_adv)", "gain", 0.1, "flipped exact advantage gains"),
        ("shuffled(oracle_adv)", "gain", 2.0, r"shuffled\(oracle_adv\) gains"),
        ("shuffled(grouptd)", "gain", 2.0, r"shuffled\(grouptd\) gains"),
    ],
)
def test_a_broken_bench_fails_loudly(cells, column, metric, value, message):
    with pytest.raises(BenchBrokenError, match=message):
        require_sane(broken(cells, column, metric, value))


def test_the_same_seed_gives_the_same_cell(cells):
    cell = cells_of(PRESETS["smoke"])[0]
    assert run_cell(cell, PRESETS["smoke"], seed=5) == cells[0]
    assert run_cell(cell, PRESETS["smoke"], seed=6) != cells[0]


def test_another_seed_gives_other_tasks():
    first = [next(study_tasks("pits", seed)).name for seed in (0, 1, 2)]
    assert len(set(first)) == 3


def test_every_group_size_plays_the_same_tasks():
    one, other = (run_cell(Cell("open", 0.5, 8), PRESETS["smoke"], seed) for seed in (3, 3))
    assert one["states"] == other["states"]


def test_aliased_cells_compare_by_text():
    assert Cell("alias", 0.5, 8).key == "text"
    assert Cell("pits", 0.5, 8).key == "state"


def test_predictions_are_judged_one_by_one(cells):
    judged = judge_predictions(cells)
    assert [p["id"] for p in judged] == list(RULES)
    assert {p["id"] for p in load_predictions()["predictions"]} == set(RULES)
    by_id = {p["id"]: p for p in judged}
    assert by_id["P20"]["hit"] is None  # no Sokoban cell was run
    assert by_id["P05"]["hit"] is None  # no G 4


def test_a_prediction_can_miss(cells):
    worse = broken(cells, "grouptd", "gain", 0.0)
    assert next(p for p in judge_predictions(worse) if p["id"] == "P01")["hit"] is False


def test_paired_differences():
    mean, error = paired([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])
    assert mean == pytest.approx(4 / 3)
    assert error == pytest.approx(np.std([0, 1, 3], ddof=1) / np.sqrt(3))
    assert paired([1.0], [0.0])[1] == np.inf


def test_curves_spend_one_budget_of_turns():
    got = learn_exactly(
        chain(), LOGITS, ["grpo", "oracle_adv", "grouptd"], np.random.default_rng(0), size=8, updates=10, kl=0.01
    )
    start = float(success(chain(), softmax(LOGITS)))
    for curve in got.values():
        assert curve.points[0] == pytest.approx(start, abs=1e-4)
        assert curve.updates >= 10 * 0.5
    assert got["oracle_adv"].final > start


def test_a_group_without_credit_costs_its_turns_and_moves_nothing():
    hopeless = np.array([[-60.0, 60.0]] * 3)  # never succeeds: grpo has no credit
    got = learn_exactly(chain(), hopeless, ["grpo"], np.random.default_rng(0), size=4, updates=5, kl=0.01)
    assert got["grpo"].final == pytest.approx(0.0, abs=1e-12)
    assert got["grpo"].updates == 5


def test_exact_advantage_learns_at_least_as_well_as_its_shuffle():
    names = ["oracle_adv", "shuffled(oracle_adv)", "flipped(oracle_adv)"]
    got = learn_exactly(chain(), LOGITS, names, np.random.default_rng(1), size=16, updates=20, kl=0.01)
    assert got["oracle_adv"].area > got["shuffled(oracle_adv)"].area > got["flipped(oracle_adv)"].area


def test_unknown_columns_suggest_the_near_one():
    judge = Judge(chain(), softmax(LOGITS))
    with pytest.raises(ConfigError, match="did you mean 'grouptd'"):
        make_columns(["groupdt"], judge, np.random.default_rng(0))
    assert set(CURVE_COLUMNS) <= set(OFFLINE_COLUMNS)


def test_sokoban_tasks_come_from_their_stratum():
    few, many = (np.mean([next(study_tasks(f"sokoban-{k}", seed)).dead_share for seed in range(3)]) for k in ("few", "many"))  # fmt: skip
    assert few < many


def test_the_command_writes_a_study_and_shows_it(tmp_path, capsys):
    out = tmp_path / "study.json"
    assert main(["study", "--preset", "smoke", "--seed", "5", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "Predictions" in shown
    data = json.loads(out.read_text())
    assert data["study_version"] == 1
    assert data["broken_rules"] == []
    assert main(["study", "--show", str(out)]) == 0
    assert capsys.readouterr().out == shown

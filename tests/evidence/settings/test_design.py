"""The crossed design: in how many settings an order holds, and on which factor it depends."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from evidence.settings.design import COLUMNS, Design, pairs_of
from evidence.settings.protocol import PRESET, crossed_cells, crossed_rows, factors

from creditflow.train.bench.document import read_results
from creditflow.train.bench.shared.cells import run_unit

FACTORS = {"loss average": ("token mean", "trajectory mean"), "optimiser": ("KL steps", "Adam 0.03", "Adam 0.1")}
SEEDS = 5


def area(method, setting, seed):
    """grouptd leads graphgpo by 6 points under KL steps and not under Adam; both lead grpo by more everywhere."""
    noise = 0.001 * np.random.default_rng([seed, *method.encode()]).standard_normal()
    base = 0.5 + 0.05 * seed + (0.1 if setting["optimiser"] == "Adam 0.1" else 0.0)
    lead = {"grpo": 0.0, "graphgpo": 0.04, "grouptd": 0.1 if setting["optimiser"] == "KL steps" else 0.04}[method]
    return base + lead + noise


def table(value=area, methods=("grpo", "graphgpo", "grouptd")):
    settings = [dict(zip(FACTORS, levels, strict=True)) for levels in product(*FACTORS.values())]
    rows = [
        [*setting.values(), method, seed, "area", float(value(method, setting, seed))]
        for setting in settings
        for method in methods
        for seed in range(SEEDS)
    ]
    return {"columns": [*FACTORS, *COLUMNS], "rows": rows}


def test_an_order_that_one_optimiser_removes_depends_on_it_and_on_nothing_else():
    pairs = {(pair.better, pair.worse): pair for pair in pairs_of(Design(table()), ["grpo", "graphgpo", "grouptd"])}
    close = pairs["grouptd", "graphgpo"]
    assert close.factors == ("optimiser",)
    assert close.levels["optimiser"]["KL steps"].mean == pytest.approx(0.06, abs=0.003)
    assert close.levels["optimiser"]["Adam 0.03"].mean == pytest.approx(0.0, abs=0.003)
    assert (close.settings, close.holds, close.turns) == (6, 2, 0)
    assert pairs["grouptd", "grpo"].factors == ()
    assert pairs["grouptd", "grpo"].holds == 6


def test_noise_is_no_dependence():
    def noisy(method, setting, seed):
        key = [seed, *method.encode(), *setting["optimiser"].encode()]
        return 0.5 + 0.02 * (method == "grouptd") + 0.03 * np.random.default_rng(key).standard_normal()

    (pair,) = pairs_of(Design(table(noisy, ("grpo", "grouptd"))), ["grpo", "grouptd"])
    assert pair.factors == ()


def test_loss_average_centring_scale_and_optimiser_are_crossed():
    cells = crossed_cells()
    assert len(set(cells)) == len(cells) == 2 * 2 * 2 * 2 * 5
    assert {cell.sampling.centring for cell in cells} == {"none", "group"}
    assert all(cell.sampling.loss.aggregation != "auto" for cell in cells)
    for name in ("first", "second"):
        (suite,) = read_results(Path(__file__).parent / f"protocol_{name}.json.gz")["suites"]
        assert {tuple(setting.values()) for setting in Design(suite["design"]).settings} == {
            tuple(factors(cell).values()) for cell in cells
        }
        assert Design(suite["design"]).seeds == PRESET.shared.units


@pytest.mark.parametrize("number", [0, 19])  # of a KL step, and of Adam with centring and scale
def test_a_stored_row_is_measured_again(number):
    (suite,) = read_results(Path(__file__).parent / "protocol_first.json.gz")["suites"]
    stored = [tuple(row) for row in suite["design"]["rows"]]
    cell = crossed_cells()[number]
    part = run_unit(cell, PRESET.shared, (), ["grpo"], 71, 0)
    assert {tuple(row) for row in crossed_rows(cell, [part])} <= set(stored)

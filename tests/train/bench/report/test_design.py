"""The crossed design: in how many settings an order holds, on which factor it depends, and what a headline may say."""

from itertools import product

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.train.bench.report.design import COLUMNS, Design, pairs_of, unstable_rivals
from creditflow.train.bench.report.tables import _order_table
from creditflow.train.bench.report.tidy import Estimate
from creditflow.train.bench.report.verdicts import Leader, Verdict, _stable, sentences
from creditflow.train.statistics import ClusteredMean, contrasts_of

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


def suite():
    return {"schemes": ["grpo", "graphgpo", "grouptd"], "design": table()}


def test_a_design_has_the_values_of_its_table():
    found = Design(table())
    assert found.factors == FACTORS
    assert found.areas["grpo"].shape == (6, SEEDS)
    for setting, areas in zip(found.settings, found.areas["grpo"], strict=True):
        np.testing.assert_array_equal(areas, [area("grpo", setting, seed) for seed in range(SEEDS)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(1), "missing"),
        (lambda rows: rows.append(rows[0]), "twice"),
        (lambda rows: rows[0].pop(), "has 6 entries"),
    ],
)
def test_a_missing_repeated_or_short_row_is_rejected(change, message):
    data = table()
    change(data["rows"])
    with pytest.raises(DataError, match=message):
        Design(data)
    with pytest.raises(DataError, match="ends with the columns"):
        Design({"columns": ["value"], "rows": []})


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


def test_no_headline_counts_a_lead_whose_sign_depends_on_a_factor():
    assert unstable_rivals(suite(), "grouptd") == {"graphgpo": ("optimiser",)}
    lead = contrasts_of({"grouptd": ClusteredMean(0.1, 0.001, 9.0)})["grouptd"]
    leader = Leader("grouptd", Estimate(0.6, 0.59, 0.61), (), float("nan"))
    verdict = Verdict("shared policy", "pits", "distinct", "16 tasks × 8 rollouts", "5 seeds", leader, lead, None)
    stable = _stable(verdict, suite())
    assert stable.leader.tied == ("graphgpo",)
    assert "graphgpo may be as good" in sentences([stable])[0]


def test_the_table_names_the_factor():
    order = _order_table(suite())
    assert order is not None
    rows = {row[0]: row for row in order.rows[1:]}
    assert "optimiser (KL steps +6.0" in rows["grouptd − graphgpo"][-1]
    assert rows["grouptd − grpo"][2:] == ["6 of 6", "0 of 6", "no factor"]


def test_a_suite_without_a_design_has_no_table_of_it():
    assert _order_table({"schemes": ["grpo"]}) is None
    assert unstable_rivals({"schemes": ["grpo"]}, "grpo") == {}

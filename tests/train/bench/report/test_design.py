"""The crossed design: in how many settings an order holds, on which factor it depends, and what a headline may say."""

from itertools import product

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.train.bench.observations import Observation, Observations
from creditflow.train.bench.report.design import pairs_of, unstable_rivals
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tables import design_tables
from creditflow.train.bench.report.verdicts import Leader, Verdict, _stable, sentences, standing
from creditflow.train.statistics import ClusteredMean, contrasts_of

FACTORS = {"loss average": ("token mean", "trajectory mean"), "optimiser": ("KL steps", "Adam 0.03", "Adam 0.1")}
SEEDS = 5


def area(method, setting, seed):
    """grouptd leads graphgpo by 6 points under KL steps and not under Adam; both lead grpo by more everywhere."""
    noise = 0.001 * np.random.default_rng([seed, *method.encode()]).standard_normal()
    base = 0.5 + 0.05 * seed + (0.1 if setting["optimiser"] == "Adam 0.1" else 0.0)
    lead = {"grpo": 0.0, "graphgpo": 0.04, "grouptd": 0.1 if setting["optimiser"] == "KL steps" else 0.04}[method]
    return base + lead + noise


def design(value=area, methods=("grpo", "graphgpo", "grouptd")):
    settings = [dict(zip(FACTORS, levels, strict=True)) for levels in product(*FACTORS.values())]
    return Observations(
        Observation(setting, method, seed, "area", float(value(method, setting, seed)))
        for setting in settings
        for method in methods
        for seed in range(SEEDS)
    )


def suite():
    return {"schemes": ["grpo", "graphgpo", "grouptd"], "design": design().to_json()}


def test_a_table_of_results_survives_a_round_trip():
    table = design()
    assert Observations.from_json(table.to_json()).rows == table.rows
    assert table.factors == FACTORS
    assert table.values("area", "grpo", optimiser="Adam 0.1").shape == (2, SEEDS)
    np.testing.assert_array_equal(
        table.values("area", "grpo", loss_average="token mean", optimiser="KL steps")[0],
        [area("grpo", {"optimiser": "KL steps"}, seed) for seed in range(SEEDS)],
    )


def test_a_missing_or_repeated_value_is_rejected():
    rows = list(design().rows)
    with pytest.raises(DataError, match="missing"):
        Observations(rows[1:])
    with pytest.raises(DataError, match="twice"):
        Observations([*rows, rows[0]])
    with pytest.raises(DataError, match="ends with the columns"):
        Observations.from_json({"columns": ["value"], "rows": []})


def test_an_order_that_one_optimiser_removes_depends_on_it_and_on_nothing_else():
    pairs = {(pair.better, pair.worse): pair for pair in pairs_of(design(), ["grpo", "graphgpo", "grouptd"])}
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

    (pair,) = pairs_of(design(noisy, ("grpo", "grouptd")), ["grpo", "grouptd"])
    assert pair.factors == ()


def test_no_headline_counts_a_lead_whose_sign_depends_on_a_factor():
    assert unstable_rivals(suite(), "grouptd") == {"graphgpo": ("optimiser",)}
    lead = contrasts_of({"grouptd": ClusteredMean(0.1, 0.001, 9.0)})["grouptd"]
    leader = Leader("grouptd", Estimate(0.6, 0.59, 0.61), (), float("nan"))
    verdict = Verdict("shared policy", "pits", "distinct", "16 tasks × 8 rollouts", "5 seeds", leader, lead, None)
    assert standing(verdict) == "clear"
    stable = _stable(verdict, suite())
    assert stable.leader.tied == ("graphgpo",)
    assert standing(stable) == "shared"
    assert "graphgpo may be as good" in sentences([stable])[0]


def test_the_tables_name_the_factor_and_choose_each_methods_own_rate_on_other_seeds():
    order, levels, rates = design_tables(suite())
    rows = {row[0]: row for row in order.rows[1:]}
    assert "optimiser (KL steps +6.0" in rows["grouptd − graphgpo"][-1]
    assert rows["grouptd − grpo"][2:] == ["6 of 6", "0 of 6", "no factor"]
    assert levels.rows[0][-1] == "optimiser: Adam 0.1"
    assert {row[0]: row[-2:] for row in rates.rows[1:]} == {
        name: ["0", str(SEEDS)] for name in ("grpo", "graphgpo", "grouptd")
    }


def test_a_suite_without_a_design_has_no_tables_of_it():
    assert design_tables({"schemes": ["grpo"]}) == []
    assert unstable_rivals({"schemes": ["grpo"]}, "grpo") == {}

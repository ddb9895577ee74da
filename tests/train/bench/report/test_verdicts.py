"""Comparisons of schemes: families of contrasts, leaders and ties, on synthetic results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.train.bench.report.tables import regime_table, suite_tables
from creditflow.train.bench.report.tidy import study_results
from creditflow.train.bench.report.verdicts import against, contrast_texts, leader_of, p_text, verdicts
from creditflow.train.bench.studies import Study


def results(seed=0, seeds=5, tasks=30, **means):
    """Crossed results around these means; methods share the effects of task and seed."""
    rng = np.random.default_rng(seed)
    shared = 0.1 * rng.normal(size=(1, tasks)) + 0.05 * rng.normal(size=(seeds, 1))
    return {name: (mean + shared + 0.02 * rng.normal(size=(seeds, tasks))).tolist() for name, mean in means.items()}


def study(kind="pits", regime="shared policy", keys="distinct", condition="", **means):
    return Study(regime, kind, keys, 16, 8, condition, {"area": results(**means)})


def suite(*studies, controls=()):
    names = [name for name in studies[0].endpoints["area"] if name not in controls]
    return {"name": "shared", "schemes": names, "controls": list(controls), "studies": [s.to_json() for s in studies]}


MEANS = {"grpo": 0.5, "gigpo": 0.55, "rloo": 0.5, "graphgpo": 0.551}


def test_a_clear_lead_separates_and_equal_schemes_do_not():
    found = against("grpo", list(MEANS), study_results([study(**MEANS)], "both").measure("area"))
    assert {name: contrast.separates for name, contrast in found.items()} == {
        "gigpo": True,
        "rloo": False,
        "graphgpo": True,
    }
    assert found["gigpo"].difference.mean == pytest.approx(0.05, abs=0.01)


def test_the_leader_names_those_it_is_not_separated_from():
    leader = leader_of(list(MEANS), study_results([study(**MEANS)], "both").measure("area"))
    assert {leader.name, *leader.tied} == {"gigpo", "graphgpo"}
    assert 0.0 < leader.detectable < 0.03


def test_the_leader_separates_by_chance_in_at_most_a_twentieth_of_the_studies():
    """Five equal schemes: any separation is an error."""
    studies, wrong = 200, 0
    names = {f"scheme {i}": 0.5 for i in range(5)}
    for number in range(studies):
        leader = leader_of(list(names), study_results([Study("shared policy", "pits", "distinct", 16, 8, "", {"area": results(number, 5, 8, **names)})], "both").measure("area"))  # fmt: skip
        wrong += len(leader.tied) < 4
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def test_studies_are_strata_of_equal_weight():
    one, other = study(kind="pits", **MEANS), study(kind="open", seed=1, **dict.fromkeys(MEANS, 0.8))
    both = study_results([one, other], "both").measure("area")("gigpo", "grpo")
    alone = [study_results([s], "both").measure("area")("gigpo", "grpo") for s in (one, other)]
    assert both.mean == pytest.approx(np.mean([x.mean for x in alone]))
    assert both.standard_error == pytest.approx(math.hypot(*(x.standard_error for x in alone)) / 2)


def test_the_verdicts_are_by_regime_keys_batch_and_condition():
    document = {
        "suites": [
            suite(
                study(**MEANS, oracle_adv=0.7),
                study("open", seed=1, **MEANS, oracle_adv=0.7),
                study("fresh", keys="fresh", grpo=0.6, gigpo=0.5, rloo=0.5, graphgpo=0.5, oracle_adv=0.7),
                study(condition="lr", **MEANS, oracle_adv=0.7),
                controls=("oracle_adv",),
            ),
            suite(study("sokoban", "language model", grpo=0.5, gigpo=0.5)),
        ]
    }
    found = verdicts(document)
    assert [(v.regime, v.tasks, v.keys, v.batch) for v in found] == [
        ("shared policy", "pits, open", "distinct", "16 tasks × 8 rollouts"),
        ("shared policy", "fresh", "fresh", "16 tasks × 8 rollouts"),
        ("shared policy", "pits", "distinct", "16 tasks × 8 rollouts, lr"),
        ("language model", "sokoban", "distinct", "16 tasks × 8 rollouts"),
    ]
    assert found[0].lead is not None
    assert found[0].lead.separates
    assert found[0].headroom is not None
    assert found[0].headroom.mean == pytest.approx(0.15, abs=0.01)
    assert (found[1].leader.name, found[1].lead, found[1].leader.tied) == ("grpo", None, ())
    assert found[3].headroom is None
    table = regime_table(document)
    assert table is not None
    assert len(table.rows) == 5
    assert table.rows[2][6] == "–"
    tied = table.rows[4]
    assert "(detectable: " in tied[8]


def test_there_is_no_verdict_without_two_schemes_on_a_learning_curve():
    assert regime_table({"suites": [suite(study(grpo=0.5))]}) is None


def test_a_study_has_a_table_for_every_endpoint():
    one = study(**MEANS, oracle_adv=0.7)
    two = Study(**{**one.to_json(), "endpoints": {**one.endpoints, "held-out success": one.endpoints["area"]}})
    area, held_out = suite_tables(suite(two, controls=("oracle_adv",)))
    assert area.title == "shared policy, pits, 16 tasks × 8 rollouts: mean success"
    assert held_out.title.endswith("held-out success")
    assert [row[0] for row in area.rows[1:]] == [area.rows[1][0], area.rows[2][0], *[r[0] for r in area.rows[3:5]], "oracle_adv"]  # fmt: skip
    assert {row[0] for row in area.rows[1:5]} == set(MEANS)
    assert {len(row) for row in area.rows} == {5}


@given(p=st.floats(0.0, 1.0))
def test_p_values_are_short(p):
    shown = p_text(p)
    assert len(shown) <= 6
    assert (shown == "< .001") == (p < 0.001)


def test_unknown_values_are_shown_as_a_dash():
    (found,) = against("a", ["a", "b"], study_results([Study("shared policy", "x", "fresh", 1, 8, "", {"area": {"a": [[0.1]], "b": [[0.2]]}})], "both").measure("area")).values()  # fmt: skip
    assert contrast_texts(found) == ["+0.100", "–", "–"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"regime": "cloud"}, "a study's regime is one of"),
        ({"keys": "odd"}, "keys are one of"),
        ({"extra": 1}, "not a study"),
        ({"endpoints": {"area": {"a": [[0.1]], "b": [[0.1, 0.2]]}}}, "one shape"),
        ({"endpoints": {"area": {"a": [0.1], "b": [0.1]}}}, "one shape"),
        ({"endpoints": {"area": {}}}, "one shape"),
    ],
)
def test_a_malformed_study_is_rejected(change, message):
    with pytest.raises(DataError, match=message):
        Study.from_json(study(grpo=0.5).to_json() | change)


def test_a_study_survives_a_round_trip_through_json():
    one = study(**MEANS)
    assert Study.from_json(one.to_json()) == one

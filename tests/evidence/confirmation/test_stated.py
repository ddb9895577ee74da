"""Predictions stated as data, and the tables of rivals."""

import json
from pathlib import Path

import numpy as np
import pytest
from evidence.confirmation.stated import check_stated

from creditflow.train.bench.language_model.suite.summary import outcome_of
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.tables import rival_tables
from creditflow.train.bench.report.tidy import study_results
from creditflow.train.bench.shared.cells import MEASURED, assemble, cells_of, learned_names
from creditflow.train.bench.studies import Study
from creditflow.train.statistics import crossed_mean

SEEDS = 4


def study(kind, keys="distinct", condition="", **areas):
    """A study in which every method's area is the given one, give or take one layout seed."""
    noise = np.array([0.01, -0.01, 0.02, -0.02])
    rows = {name: [[mean + (0.1 if i else 1.0) * x] for x in noise] for i, (name, mean) in enumerate(areas.items())}
    return Study("shared policy", kind, keys, 16, 8, condition, {"area": rows, "final": rows}).to_json()


@pytest.fixture
def suite():
    """A suite of two studies: far ahead in the first, level in the second."""
    return {
        "name": "shared",
        "schemes": ["grpo", "gigpo", "grouptd_relative"],
        "controls": ["stateless"],
        "variations": [],
        "studies": [
            study("pits", grpo=0.4, gigpo=0.5, grouptd_relative=0.6, stateless=0.45),
            study("pits", "fresh", grpo=0.4, gigpo=0.5, grouptd_relative=0.5, stateless=0.45),
        ],
    }


def predicted(**given):
    base = {"id": "p", "statement": "s", "suite": "shared", "studies": ["all"], "endpoint": "area"}
    return base | {"better": "grouptd_relative", "worse": "gigpo"} | given


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"studies": ["pits, 16 × 8"]}, "hit"),
        ({"studies": ["pits, 16 × 8"], "margin": 0.2}, "miss"),
        ({"better": "gigpo", "worse": "grouptd_relative"}, "miss"),
        ({"studies": ["pits, fresh keys, 16 × 8"]}, "open"),
        ({"studies": ["pits, fresh keys, 16 × 8"], "margin": -0.02}, "hit"),
        ({}, "hit"),
        ({"studies": ["slip, 16 × 8"]}, "not run"),
        ({"better": "rloo"}, "not run"),
        ({"suite": "grids"}, "not run"),
    ],
)
def test_an_outcome_follows_from_the_interval_of_the_paired_difference(suite, given, outcome):
    (found,) = check_stated([predicted(**given)], [suite])
    assert found["outcome"] == outcome
    assert found["hit"] is {"hit": True, "miss": False}.get(outcome)


def test_a_prediction_is_open_when_the_interval_contains_the_margin():
    difference = crossed_mean([[0.0], [0.02]])
    assert outcome_of(difference)["outcome"] == "open"
    assert outcome_of(difference, -1.0)["outcome"] == "hit"
    assert outcome_of(difference, 1.0)["outcome"] == "miss"


def test_rivals_are_shown_by_study_and_over_all(suite):
    pooled, area, final, lead = rival_tables(suite, ["grouptd_relative"])
    assert [row[0] for row in pooled.rows[1:]] == ["grouptd_relative", "gigpo"]
    labels = ["pits, 16 × 8", "pits, fresh keys, 16 × 8", "mean of all studies"]
    for table in (area, final, lead):
        assert [row[0] for row in table.rows[1:]] == labels
    first = dict(zip(area.rows[0], area.rows[1], strict=True))
    assert first["grpo"] == "40.0 ± 2.9"
    assert first["grouptd_relative"].startswith("+20.0 [")
    assert first["grouptd_relative"].endswith("*")
    assert dict(zip(lead.rows[0], lead.rows[1], strict=True))["gigpo"].startswith("+10.0 [")


def test_every_prediction_names_what_the_preset_runs():
    preset = PRESETS["confirmation"]
    labels = set()
    for cell in cells_of(preset.shared):
        part = {"measures": {"grpo": dict.fromkeys(MEASURED, 0.0)}, "curves": {}, "undefined": {}, "states": 1.0}
        labels |= set(study_results([Study.from_json(assemble(cell, [part])["study"])]).by("title"))
    known = {*learned_names(preset.schemes, ["oracle_adv", "oracle_progress", "stateless", "position"])}
    suites = preset.envs.split(",")
    predictions = json.loads(Path(__file__).with_name("predictions.json").read_text(encoding="utf-8"))["predictions"]
    assert len({p["id"] for p in predictions}) == len(predictions)
    for p in predictions:
        assert p["suite"] in suites
        assert {p["better"], p["worse"]} <= known
        assert p["studies"] == ["all"] or p["suite"] != "shared" or set(p["studies"]) <= labels
        assert p["endpoint"] in ("area", "final", "held_out_area", "held_out_final")
    json.dumps(predictions)

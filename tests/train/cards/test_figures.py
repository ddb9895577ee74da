"""The shipped figures are those of the stored runs, and nothing else."""

from __future__ import annotations

import json
import math

import pytest
from helpers.shared_data import ROOT

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.json_text import read_json
from creditflow.train.bench.report.statistics import Estimate
from creditflow.train.bench.report.tidy import results_of
from creditflow.train.bench.results import read_results
from creditflow.train.cards.figures import Figures, collected, main, shipped

ASSET = ROOT / "assets" / "schemes" / "figures.json"
COST = ROOT / "tests" / "evidence" / "schemes" / "cost.json"
RUNS = (
    "tests/evidence/schemes/results.json.gz",
    "tests/evidence/language_models/lm.json.gz",
    "tests/evidence/language_models/second.json.gz",
)


def test_the_shipped_figures_are_what_the_stored_runs_make(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)  # the file names its sources relative to the root
    main([*RUNS, "--cost", str(COST), "--out", str(tmp_path / "figures.json")])
    assert (tmp_path / "figures.json").read_text("utf-8") == ASSET.read_text("utf-8")


def test_figures_are_the_same_after_a_round_trip():
    figures = shipped()
    assert Figures.from_json(figures.to_json()).to_json() == figures.to_json()
    assert json.loads(ASSET.read_text("utf-8")) == figures.to_json()


def test_a_figure_is_the_estimate_of_the_report():
    [suite] = [suite for suite in read_results(ROOT / RUNS[0])["suites"] if suite["name"] == "grids"]
    found = results_of(suite).estimate("gain", "gigpo")
    assert shipped().measured["gigpo"]["tables"]["step"].mean == pytest.approx(found.mean, abs=1e-6)


def test_every_source_has_its_command_and_commit():
    for source in shipped().sources:
        assert source["commit"]
        assert "dirty" not in source["commit"]
        assert source["command"]


def test_every_scheme_over_rewards_and_keys_was_measured_in_all_regimes():
    figures = shipped()
    for name in credit.names(given=()):
        methods = figures.methods_of(name)
        for regime in ("tables", "shared", "language models"):
            assert any(regime in figures.measured[m] for m in methods), (name, regime)


def test_schemes_that_read_annotations_of_earlier_rollouts_were_measured_on_tables():
    for name in ("mt_ppo", "prm", "tips", "igpo", "pica", "steppo", "trace", "sapo_single_rollout"):
        assert "tables" in shipped().measured[f"{name}[fitted]"]


def test_every_scheme_was_timed():
    assert set(credit.names()) <= set(shipped().cost)


def test_methods_of_a_scheme_begin_with_its_own_name():
    assert shipped().methods_of("graphgpo")[0] == "graphgpo"
    assert "grouptd_base" in shipped().methods_of("grouptd")
    assert shipped().methods_of("prm") == ("prm[fitted]",)


def test_unknown_limits_of_an_interval_stay_unknown():
    figures = Figures([], {"grpo": {"tables": {"step": Estimate(0.5, math.nan, math.nan)}}}, {}, {})
    data = figures.to_json()
    assert data["measured"]["grpo"]["tables"]["step"] == [0.5, None, None]
    assert math.isnan(Figures.from_json(data).measured["grpo"]["tables"]["step"].low)


def test_other_files_are_refused():
    with pytest.raises(DataError, match="version"):
        Figures.from_json({"version": 99})
    with pytest.raises(ConfigError, match="expected results of creditflow bench"):
        collected({"x.json": {"suites": [], "provenance": {}}}, read_json(COST))

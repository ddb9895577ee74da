"""Scores by task type of trained policies: their rows, estimates, tables and LaTeX."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.bench import suites
from creditflow.train.bench.played.by_type import final_scores, scores_by_type
from creditflow.train.bench.played.learning import learn
from creditflow.train.bench.presets import PRESETS, PlayedWork
from creditflow.train.bench.report.tables import by_type_cells, latex_tables
from creditflow.train.commands.bench import _latex
from creditflow.train.rollout import play_group
from creditflow.train.statistics import crossed_mean
from creditflow.wrappers.group_env import GroupEnv

KINDS = ("pick_two_obj_and_place", "pick_and_place_simple", "look_at_obj_in_light")


def houses(kinds: list[str]) -> list[Task]:
    return [Task(f"alfworld1:{i}", f"alfworld1:{i}", {"goal": [kind]}) for i, kind in enumerate(kinds)]


def run(success: list[float], **final: list[float]) -> dict[str, Any]:
    return {"success": [[0.0] * len(success), success], "final": final, "turns": 1}


@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=12),
    seeds=st.integers(1, 4),
    draw=st.integers(0, 2**32 - 1),
)
def test_rows_are_means_over_the_tasks_of_a_type_and_all_seeds(kinds: list[str], seeds: int, draw: int) -> None:
    values = np.random.default_rng(draw).integers(0, 5, (seeds, len(kinds))) / 4
    rows = scores_by_type([run(row.tolist(), score=row.tolist()) for row in values], houses(kinds))
    json.dumps(rows, allow_nan=False)
    assert [row["name"] for row in rows] == [
        name for name, kind in (("Pick", KINDS[1]), ("Look", KINDS[2]), ("Pick2", KINDS[0])) if kind in kinds
    ] + ["All"]
    assert sum(row["tasks"] for row in rows[:-1]) == rows[-1]["tasks"] == len(kinds)
    for row in rows:
        found = row["estimates"]["Success"]
        assert found["low"] is None or 0 <= found["low"] <= found["mean"] + 1e-12
        assert found["high"] is None or found["mean"] - 1e-12 <= found["high"] <= 1
        assert row["estimates"]["Score"] == found
    expected = crossed_mean(values)
    assert rows[-1]["estimates"]["Success"]["mean"] == pytest.approx(expected.mean)


def suite(**final: list[float]) -> dict[str, Any]:
    tasks = houses([KINDS[0], KINDS[1]])
    rows = {
        name: scores_by_type([run(values, **final)], tasks) for name, values in (("a_b", [1.0, 0.5]), ("c", [0.0, 0.5]))
    }
    areas = {"a_b": {"area": [0.7]}, "c": {"area": [0.2]}}
    return {"name": "houses", "schemes": ["c", "a_b"], "controls": [], "rows": areas, "by_type": rows}


def test_a_table_has_methods_as_rows_and_types_as_columns() -> None:
    cells = by_type_cells(suite(score=[1.0, 0.5]), "Success")
    assert cells[0] == ["method", "Pick (1)", "Pick2 (1)", "All (2)"]
    assert [row[0] for row in cells[1:]] == ["a_b", "c"]
    assert cells[1][3].startswith("75.0 [")


def test_a_measure_that_says_the_same_has_no_table() -> None:
    graded = suite(score=[1.0, 0.75])
    assert latex_tables(graded).count("% houses, ") == 2
    answers = suite(score=[0.0, 0.0], em=[0.0, 0.0], f1=[0.5, 0.5])
    for rows in answers["by_type"].values():
        for row in rows:
            row["estimates"] |= {"EM": row["estimates"]["Success"], "Score": row["estimates"]["Success"]}
    assert [line for line in latex_tables(answers).splitlines() if "% houses" in line] == [
        "% houses, EM",
        "% houses, F1",
    ]
    assert r"a\_b & " in latex_tables(answers)


def test_a_suite_of_a_file_with_a_line_break_in_its_name_stays_in_its_comment() -> None:
    lines = latex_tables({**suite(score=[1.0, 0.5]), "name": "webshop@a/b\n\\input{c}"}).splitlines()
    assert lines[:2] == ["% webshop@a/b", r"% \input{c}, Success"]


def test_results_without_played_suites_or_of_an_older_release_have_no_latex() -> None:
    with pytest.raises(ConfigError, match="suites that are played"):
        _latex({"suites": [{"name": "grids", "cells": []}, {"name": "shop", "rows": {}}]})


@pytest.mark.parametrize(("name", "measures"), [("webshop", ["score"]), ("wikisearch", ["score", "em", "f1"])])
def test_final_scores_are_means_of_each_tasks_rollouts(name: str, measures: list[str]) -> None:
    env = GroupEnv(name, size=2, panel="standard-v1:test")
    tasks = env.tasks
    groups = [play_group(env, ExpertAgent(), tasks.get(task_id)) for task_id in tasks.task_ids()[:3]]
    found = final_scores(env, groups)
    assert list(found) == measures
    assert found["score"] == [float(np.mean([one.score for one in group.trajectories])) for group in groups]


def test_scores_after_training_are_of_the_rollouts_after_the_last_update() -> None:
    """Exact match of answers is success in search, which differs before and after the last update."""
    open_ = suites.open_suite("wikisearch", replace(PRESETS["quick"], played=PlayedWork(2, 4, 3, 1, kl=0.3)))
    found = learn("grpo", open_.envs[0], PlayedWork(2, 4, 3, 1, kl=0.3), open_.envs[0].horizon, 0)
    assert found["success"][-1] != found["success"][-2]
    assert found["final"]["em"] == found["success"][-1]

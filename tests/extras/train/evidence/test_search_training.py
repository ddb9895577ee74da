"""The training runs of the search baselines, in miniature: what an arm changes, that it trains, and its table."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from evidence.entity_learning import warm_up, world
from evidence.search_training import run as training
from evidence.search_training.analyses import GROUP_SIZE, QUESTIONS, gaps, rollouts
from evidence.search_training.run import ARMS, BASELINE, CONSTANT, learn, settings_for, tables

from creditflow.envs.errors import DataError
from creditflow.envs.wikisearch.retrieval.simulation import Curriculum

STORED = Path(__file__).parents[3] / "evidence" / "search_training"
SIZES = {"train": 24, "valid": 6, "test": 8}
SMALL = [
    "sft.episodes=4", "sft.steps=2", "sft.batch_tokens=256", "rollout.tasks=2", "update.iterations=2", "rollout.max_new_tokens=6",
    "env.options.max_steps=3",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "SPLITS", SIZES)
        patch.setattr(warm_up, "WORLDS", 1)
        names = world.write_world(path / "world")
        settings = warm_up.settings_of(path / "world", 1, SMALL)
        warm_up.pretrain(settings, path / "world", path / "warm-up-1")
    return path, names, settings


def test_the_constant_noise_is_the_mean_of_the_curriculum():
    curriculum = Curriculum(**ARMS["zerosearch by query"]["simulation"])
    assert np.mean([curriculum.at(i / 32) for i in range(32)]) == pytest.approx(CONSTANT, abs=0.01)
    assert np.mean([curriculum.at(i / 10_000) for i in range(10_000)]) == pytest.approx(CONSTANT, abs=1e-3)


@pytest.mark.parametrize("name", list(ARMS))
def test_an_arm_trains_and_is_judged(name, folder):
    path, names, settings = folder
    assert settings_for(settings, name).env.options.get("simulation") == ARMS[name].get("simulation")
    found = learn(settings, path / "warm-up-1", name, path / "world", names)
    assert len(found["behaviour"]) == 2
    assert {step["episodes"] for step in found["behaviour"]} == {2 * 8}  # ARPO's branches and fresh episodes included
    assert len(found["greedy"]["em"]) == SIZES["test"]
    if name == "no search":
        assert found["held_out"]["turns"] == 1.0


def test_the_table_compares_the_seeds_that_all_arms_have():
    rng = np.random.default_rng(0)
    parts = [
        {
            "seed": seed, "arm": arm, "cpu_seconds": 1.0, "behaviour": [{"success": 0.5, "searches": 2.0, "tokens": 9.0}],
            **{kind: {metric: rng.random(6).tolist() for metric in ("em", "f1")} for kind in ("sampled", "greedy")},
        }
        for arm in (BASELINE, *ARMS) for seed in ((1, 2, 3) if arm == BASELINE else (1, 2))
    ]  # fmt: skip
    text = tables(parts)
    assert text.startswith("2 seeds, 6 held-out questions")
    assert all(text.count(f"\n{arm}  ") == 3 for arm in ARMS)
    few = [part for part in parts if part["arm"] in (BASELINE, "arpo")]
    assert tables(few).count("\narpo  ") == 3
    with pytest.raises(DataError, match="run that study first"):
        tables([part for part in parts if part["arm"] != BASELINE])
    with pytest.raises(DataError, match="no seed has parts of all arms"):
        tables([part for part in few if (part["seed"] == 3) == (part["arm"] == BASELINE)])


def test_the_stored_table_follows_from_the_stored_values_and_the_page_quotes_it():
    stored = json.loads(gzip.decompress((STORED / "results.json.gz").read_bytes()))["parts"]
    text = (STORED / "tables.txt").read_text(encoding="utf-8")
    assert tables(stored) == text
    printed, quoted = (
        set(re.findall(r"[+-]?\d+\.\d \[[+-]?\d+\.\d, [+-]?\d+\.\d\]", found))
        for found in (text, (STORED / "README.md").read_text(encoding="utf-8").replace("−", "-"))
    )
    assert len(quoted) > 15
    assert quoted <= printed
    shares = text.partition("minus grpo")[0]
    assert all(0.0 <= float(end) <= 100.0 for end in re.findall(r"(-?[\d.]+)[,\]]", shares))


def test_a_run_keeps_its_parts_and_writes_the_evidence(folder, tmp_path, monkeypatch, capsys):
    _, names, _ = folder
    found = {"behaviour": [{"success": 0.5, "searches": 2.0, "tokens": 9.0}], "cpu_seconds": 1.0}
    found |= {kind: {metric: [0.0, 1.0] for metric in ("em", "f1")} for kind in ("sampled", "greedy")}
    made = []

    def learn(*given):
        made.append(given[2])
        return found

    monkeypatch.setattr(training, "write_world", lambda _folder: names)
    monkeypatch.setattr(training, "learn", learn)
    (tmp_path / "parts").mkdir()
    for seed in (1, 2):
        (tmp_path / "parts" / f"{seed}-grpo.json").write_text(json.dumps({"seed": seed, "arm": "grpo", **found}))
    monkeypatch.setattr(sys, "argv", ["", "--work", str(tmp_path), "--out", str(tmp_path / "out"), "--seeds", "1", "2"])
    assert training.main() == training.main() == 0
    assert made == [*ARMS, *ARMS]  # once for each seed
    stored = json.loads(gzip.decompress((tmp_path / "out" / "results.json.gz").read_bytes()))
    assert len(stored["parts"]) == 2 * (len(ARMS) + 1)
    assert "2 seeds, 2 held-out questions" in capsys.readouterr().out


def test_the_analysed_rollouts_are_groups_with_texts_on_held_out_questions(folder):
    path, _, _ = folder
    groups = rollouts(path / "warm-up-1", path / "world", 1, questions=2)
    assert [len(group) for group in groups] == [GROUP_SIZE] * 2
    assert {group.task_id for group in groups} <= {task.task_id for task in warm_up.tasks_of(path / "world", "test")}
    assert all(member.turns[0].observation for group in groups for member in group.trajectories)


def test_the_analysed_questions_are_those_of_two_hops(tmp_path):
    world.write_world(tmp_path)
    asked = warm_up.tasks_of(tmp_path, "test")
    hops = [len(task.content["steps"]) for task in asked]
    assert hops == [2] * QUESTIONS + [3] * (len(asked) - QUESTIONS)


def test_gaps_are_correct_minus_incorrect_rates_and_incorrect_minus_correct_shares():
    def sides(correct, incorrect):
        return {"correct": {"normalised": correct}, "incorrect": {"normalised": incorrect}}

    shares = {"correct": {"uncited": {"share": 0.25}}, "incorrect": {"uncited": {"share": 0.75}}}
    found = {
        "egrpo": {"thoughts": sides(1.0, 0.25), "trajectory": sides(1.0, 0.5)},
        "uncited": {"by_outcome": shares},
    }
    assert gaps(found) == {
        "match rate in thoughts": 0.75, "match rate in the trajectory": 0.5, "thoughts minus trajectory": 0.25, "uncited share": 0.5
    }  # fmt: skip

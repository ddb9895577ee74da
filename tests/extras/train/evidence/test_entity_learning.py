"""The study of learning with entity credit, in miniature: its world, its schemes, its probe, and a run that is killed and goes on."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from evidence.entity_learning import arms, run, warm_up, world
from evidence.entity_learning.demonstrator import Demonstrator, Faults, read_passages
from evidence.entity_learning.measures import MEASURES, answers, behaviour
from evidence.entity_learning.probe import MEMBERS, advantages, probe_group
from evidence.entity_learning.schemes import register_schemes
from evidence.entity_learning.summary import by_arm, mean_of, tables

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.wikisearch.retrieval.opening import open_corpus
from creditflow.envs.wikisearch.world.graph import make_world
from creditflow.train.statistics import crossed_mean
from creditflow.wrappers import credit

SIZES = {"train": 24, "valid": 6, "test": 8}
SMALL = [
    "sft.episodes=4", "sft.steps=2", "sft.batch_tokens=256", "rollout.tasks=2", "rollout.group_size=2", "update.iterations=1",
    "rollout.max_new_tokens=4", "env.options.max_steps=2",
]  # fmt: skip


@pytest.fixture(autouse=True)
def registered(forgotten):
    """The study's schemes are known during a test of this file only."""
    register_schemes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "SPLITS", SIZES)
        world.write_world(path)
    return path


@pytest.fixture(scope="module")
def group(folder):
    return probe_group(folder)


def test_questions_of_different_splits_begin_at_different_entities():
    made = world.questions(world.facts(make_world(world.WORLD_SEED, world.ARTICLES)), np.random.default_rng(0))
    starts = {split: {one.supporting[0] for one in chosen} for split, chosen in made.items()}
    assert {split: len(chosen) for split, chosen in made.items()} == world.SPLITS
    assert not starts["train"] & starts["test"]
    assert not starts["valid"] & (starts["train"] | starts["test"])


def test_a_search_for_a_name_finds_its_own_article_first(folder):
    engine = open_corpus(str(folder / "corpus.jsonl"))
    names = [json.loads(line)["id"] for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    assert [name for name in names if engine.search((name,), 1)[0][0].passage.title != name] == []


def test_without_faults_the_demonstrator_answers_every_question(folder):
    faultless = Faults(wrong=0, early=0, early_third=0, repeat=0, beyond=0, silent=0, everything=0)
    engine = warm_up.single_engine(warm_up.settings_of(folder, 0))
    for split in SIZES:
        played = engine.play(Demonstrator(faultless), warm_up.tasks_of(folder, split), seed=0)
        assert all(one.trajectories[0].success for one in played)
        assert answers([played])["f1"].tolist() == [1.0] * SIZES[split]


def test_a_renamed_world_has_the_same_shape_and_other_facts():
    known = world.facts(make_world(world.WORLD_SEED, world.ARTICLES))
    other = world.renamed(known, np.random.default_rng(0))
    assert set(other) == set(known)
    assert sorted(map(len, other.values())) == sorted(map(len, known.values()))
    triples = [{(s, r, o) for s, found in one.items() for r, o in found.items()} for one in (known, other)]
    assert len(triples[0] & triples[1]) < 0.05 * len(triples[0])


def test_the_measures_of_the_probe_are_those_counted_by_hand(group, folder):
    names = [json.loads(line)["id"] for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    found = behaviour([group], names)
    assert found["success"] == pytest.approx(2 / 6, abs=1e-4)
    assert found["limit"] == pytest.approx(2 / 6, abs=1e-4)  # repeats, wanders
    assert found["searches"] == pytest.approx((4 * 2 + 6 + 6) / 6, abs=1e-4)
    assert found["turns"] == pytest.approx((4 * 3 + 6 + 6) / 6, abs=1e-4)
    repeated = [len(q) - len(set(q)) for m in group.trajectories for q in [[x for t in m.turns for x in t.queries]]]
    assert found["repeated"] == pytest.approx(np.mean(repeated), abs=1e-4)
    assert repeated[MEMBERS.index("repeats")] == 5


def test_schemes_of_outcomes_pay_nothing_for_stuffing_and_egrpo_pays_failures(group):
    found = advantages(group)
    stuffing = {name: found[name][[1, 3]] - found[name][[0, 2]] for name in found}
    for name in ("grpo", "stepsearch", "grouptd"):
        assert stuffing[name] == pytest.approx(0.0, abs=1e-9)
    assert stuffing["egrpo"][0] == pytest.approx(0.0, abs=1e-9)
    assert stuffing["egrpo"][1] > 0.1
    assert stuffing["egrpo_sapo"][1] > 0.1
    for name in ("grpo", "sapo", "sapo_shuffled"):
        assert (np.sign(found[name]) == [1, 1, -1, -1, -1, -1]).all()
    assert np.isnan(
        found["egrpo"][4:]
    ).all()  # what ends at the limit is left out of its loss: endless search is not unlearned


def test_the_combination_is_egrpos_outcome_with_sapos_turns(group):
    both, entity, step = (credit.make(name).assign(group) for name in ("egrpo_sapo", "egrpo", "sapo"))
    owner = group.arrays.trajectory
    expected = (
        entity.flat_advantages + 0.5 * np.abs(entity.outcome_advantages)[owner] * step.diagnostics["step_advantage"]
    )
    assert both.flat_advantages == pytest.approx(expected)
    assert (both.flat_loss_mask == entity.flat_loss_mask).all()


def test_the_control_permutes_the_steps_within_each_trajectory(group):
    plain, control, again = (credit.make(name).assign(group) for name in ("sapo", "sapo_shuffled", "sapo_shuffled"))
    assert control.flat_step_advantages.tolist() == again.flat_step_advantages.tolist()
    assert control.flat_step_advantages.tolist() != plain.flat_step_advantages.tolist()
    offsets = plain.offsets.tolist()
    for a, b in pairwise(offsets):
        assert sorted(control.flat_step_advantages[a:b]) == pytest.approx(sorted(plain.flat_step_advantages[a:b]))


@pytest.fixture
def miniature(monkeypatch):
    """Few questions, worlds and demonstrations."""
    monkeypatch.setattr(world, "SPLITS", SIZES)
    for name, value in {"WORLDS": 1, "WARM_UP_WORLDS": 1, "WARM_UP_EPISODES": 2, "WARM_UP_STEPS": 1}.items():
        monkeypatch.setattr(warm_up, name, value)
    monkeypatch.setattr(arms, "TEMPERATURES", (1.0, 0.5))


@pytest.mark.usefixtures("miniature")
def test_a_run_whose_parts_are_lost_makes_the_same_again(tmp_path, monkeypatch, capsys):
    options = [
        "--out",
        str(tmp_path / "out"),
        "--work",
        str(tmp_path / "work"),
        "--seeds",
        "1",
        "2",
        "--arms",
        "warm_up",
    ]
    chosen = ["grpo", "egrpo_sapo", *(word for setting in SMALL for word in ("--set", setting))]
    monkeypatch.setattr(sys, "argv", ["run.py", *options, *chosen])
    run.main()
    parts = tmp_path / "work" / "parts"
    first = {path.name: json.loads(path.read_text("ascii")) for path in sorted(parts.glob("*.json"))}
    assert len(first) == 6
    (parts / "2-egrpo_sapo.json").unlink()
    run.main()
    again = json.loads((parts / "2-egrpo_sapo.json").read_text("ascii"))
    assert {k: v for k, v in again.items() if k != "cpu_seconds"} == {
        k: v for k, v in first["2-egrpo_sapo.json"].items() if k != "cpu_seconds"
    }
    stored = json.loads(gzip.decompress((tmp_path / "out" / "results.json.gz").read_bytes()))["parts"]
    assert (tmp_path / "out" / "tables.txt").read_text("utf-8") == tables(stored)
    assert set(by_arm(stored)) == {"warm_up", "warm_up at its best temperature", "grpo", "egrpo_sapo"}
    assert [len(one["behaviour"]) for one in by_arm(stored)["grpo"]] == [1, 1]
    assert "egrpo_sapo" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--set", "update.iterations=2"])
    with pytest.raises(ConfigError, match="other settings"):
        run.main()


@pytest.mark.usefixtures("miniature")
def test_in_the_replication_each_seed_has_its_own_world_and_base(tmp_path, monkeypatch):
    work, out = tmp_path / "work", tmp_path / "out"
    options = ["--design", "replication", "--seeds", "11", "12", "--work", str(work), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["run.py", *options, *(word for setting in SMALL for word in ("--set", setting))])
    run.main()
    parts = json.loads(gzip.decompress((out / "results.json.gz").read_bytes()))["parts"]
    assert {(part["seed"], part["world"]) for part in parts} == {(11, 11), (12, 12)}
    assert {part["arm"] for part in parts} == set(run.DESIGNS["replication"].waves[0])
    for name in ("world-{}/test.jsonl", "world-{}/corpus.jsonl", "base-{}/model.safetensors"):
        first, second = ((work / name.format(seed)).read_bytes() for seed in (11, 12))
        assert first != second
    assert {path.name for path in out.iterdir()} == {"results.json.gz", "tables.txt"}
    table = (out / "tables.txt").read_text("utf-8")
    assert table == tables(parts)
    primary = table.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in primary[2:]] == ["grouptd", "sapo"]
    monkeypatch.setattr(sys, "argv", ["run.py", "--work", str(work), "--out", str(out)])
    with pytest.raises(ConfigError, match="other settings"):
        run.main()


def test_a_search_of_two_passages_returns_the_own_article_in_either_place_and_a_distractor(tmp_path):
    for world_seed in (11, 14, 15, 18):
        names = world.write_world(tmp_path / str(world_seed), world_seed, passages=2)
        engine = open_corpus(str(tmp_path / str(world_seed) / "corpus.jsonl"))
        found = [[hit.passage.title for hit in engine.search((name,), 2)[0]] for name in names]
        places = [titles.index(name) for name, titles in zip(names, found, strict=True)]
        assert 0.1 < np.mean(places) < 0.4
        assert np.mean([len(titles) == 2 for titles in found]) > 0.7


def test_with_distractors_a_faultless_demonstrator_reads_the_right_passage_and_a_fault_follows_others(tmp_path):
    world.write_world(tmp_path, 11, passages=2)
    engine = warm_up.single_engine(warm_up.settings_of(tmp_path, 0, ["env.options.top_k=2"]))
    tasks = [t for t in warm_up.tasks_of(tmp_path, "test") if " of " not in t.content["supporting"][0]]  # misread
    faultless = Faults(wrong=0, early=0, early_third=0, repeat=0, beyond=0, silent=0, everything=0)
    right, wrong = (
        engine.play(Demonstrator(replace(faultless, wrong=share)), tasks, seed=0, iteration=0) for share in (0, 1)
    )
    assert all(group.trajectories[0].success for group in right)
    of_distractors = 0
    for group in wrong:
        first, second = group.trajectories[0].turns[:2]
        own = read_passages(second.observation)[first.queries[0]]
        relation, _, entity = second.thought.partition(" ")
        asked = group.task["steps"][0]
        assert (relation, entity) != (asked["question"].split(" ")[0], asked["answer"])
        of_distractors += own.get(relation) != entity
    assert 0.2 < of_distractors / len(wrong) < 0.8


def test_a_result_is_read_passage_by_passage():
    text = "Results for: A\n[1] B: B. founder A; seat C.\n[2] A: employer B.\n[3] D: D. ."
    assert read_passages(text) == {"B": {"founder": "A", "seat": "C"}, "A": {"employer": "B"}, "D": {}}


def test_own_worlds_make_the_seeds_the_samples():
    rng = np.random.default_rng(0)
    found = rng.random((4, 6))
    own, shared = ([{"world": world} for world in worlds] for worlds in ((1, 2, 3, 4), (7,) * 4))
    by_seed = found.mean(axis=1)
    assert mean_of(own, found).standard_error == pytest.approx(by_seed.std(ddof=1) / 2)
    assert mean_of(own, found).degrees_of_freedom == 3
    assert mean_of(shared, found) == crossed_mean(found)


def test_a_summary_of_nothing_replaces_no_evidence(tmp_path, monkeypatch):
    (tmp_path / "results.json.gz").write_bytes(b"kept")
    options = ["--summary-only", "--out", str(tmp_path), "--work", str(tmp_path / "missing")]
    monkeypatch.setattr(sys, "argv", ["run.py", *options])
    with pytest.raises(DataError, match="there are no parts"):
        run.main()
    assert {path.name for path in tmp_path.iterdir()} == {"results.json.gz"}
    assert (tmp_path / "results.json.gz").read_bytes() == b"kept"


def test_the_tables_need_no_arm_but_the_seeds_of_those_there_are():
    found = {metric: [0.0, 1.0] for metric in ("em", "f1")}
    held_out = dict.fromkeys(("success", *MEASURES), 0.5)

    def part(seed, arm):
        return {
            "seed": seed,
            "arm": arm,
            "sampled": found,
            "greedy": found,
            "behaviour": [held_out],
            "held_out": held_out,
            "cpu_seconds": 1.0,
        }

    assert tables([part(seed, arm) for seed in (1, 2) for arm in ("sapo", "egrpo")]).startswith("2 seeds (1, 2)")
    with pytest.raises(DataError, match="no seed has parts of all arms \\(grpo, sapo\\)"):
        tables([part(1, "grpo"), part(2, "sapo")])

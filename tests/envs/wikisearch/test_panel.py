"""The published panels: pinned, reproduced by their generators, and rebuilt from their recipes."""

import hashlib
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from helpers.panels.wikisearch import PANELS
from helpers.panels.writing import write_panel

from creditflow.envs.errors import DataError
from creditflow.envs.tasks import load_panel
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.tasks import open_library

PINNED = {
    "easy-v1": "d095b5f1ae745038db3426804a54458bf04891e774dc5c5b74b2ec6609ee46db",
    "standard-v1": "1a36972a7e60019067670576e3d5b60ea837c32eca49e141eea517ff4f901b43",
}


def published(name: str) -> bytes:
    return (files("creditflow.assets") / "panels" / "wikisearch" / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", PINNED)
def test_the_panel_files_are_pinned(name: str) -> None:
    assert hashlib.sha256(published(name)).hexdigest() == PINNED[name]


@pytest.mark.parametrize("name", PINNED)
def test_the_panels_are_reproduced_by_their_generators(name: str, tmp_path: Path) -> None:
    write_panel(tmp_path / "panel.json", PANELS[name]())
    assert (tmp_path / "panel.json").read_bytes() == published(name)


def test_easy_questions_are_answered_by_one_search_and_share_no_fact() -> None:
    facts: Counter[tuple[str, str, str]] = Counter()
    for split, count in {"train": 256, "valid": 64, "test": 128}.items():
        tasks = open_library(panel=f"easy-v1:{split}").tasks
        assert len(tasks.task_ids()) == count
        for task_id in tasks.task_ids():
            question = Question.from_json(tasks.get(task_id).content)
            assert len(question.edges) == len(question.supporting) == 1
            facts.update(question.edges)
    assert set(facts.values()) == {1}
    for split in ("train", "valid", "test"):
        tasks = open_library(panel=f"standard-v1:{split}").tasks
        for task_id in tasks.task_ids():
            assert facts.keys().isdisjoint(Question.from_json(tasks.get(task_id).content).edges)


def test_the_standard_panel_has_its_splits_and_strata() -> None:
    panel = load_panel("wikisearch", "standard-v1")
    assert Counter(row.split for row in panel.rows) == {"train": 712, "valid": 96, "test": 192}
    hops = Counter((row.strata["kind"], row.strata["hops"]) for row in panel.rows)
    assert hops == {("bridge", 2): 250, ("bridge", 3): 250, ("bridge", 4): 125, ("comparison", 4): 125,
                    ("intersection", 3): 125, ("temporal", 3): 125}  # fmt: skip


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_recipes_rebuild_the_published_ids(split: str) -> None:
    tasks = open_library(panel=f"standard-v1:{split}").tasks
    ids = tasks.task_ids()
    for index in np.random.default_rng(0).integers(0, len(ids), 40):
        assert tasks.get(ids[index]).task_id == ids[index]


def test_the_entities_of_the_construction_are_those_that_a_question_describes_and_does_not_name() -> None:
    tasks = open_library(panel="standard-v1:test").tasks
    for task_id in tasks.task_ids()[:60]:
        question = Question.from_json(tasks.get(task_id).content)
        described = set(question.construction_entities)
        assert described and described < {entity.name for entity in question.entities}
        assert question.answer_node not in described
        assert not any(name in question.text for name in described)


def test_ids_do_not_depend_on_the_entities_of_the_construction() -> None:
    tasks = open_library(panel="standard-v1:test").tasks
    task = tasks.get(tasks.task_ids()[0])
    question = Question.from_json(task.content)
    without = question_task(replace(question, construction_entities=()))
    assert (without.task_id, without.canonical_id) == (task.task_id, task.canonical_id)
    assert Question.from_json(without.content) == replace(question, construction_entities=())
    with pytest.raises(DataError, match="construction_entities names 'Atlantis'"):
        replace(question, construction_entities=("Atlantis",))

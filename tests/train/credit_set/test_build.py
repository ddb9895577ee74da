"""A credit set is determined by its settings: not by workers, interruptions or the rest of the set."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.cli import main
from creditflow.train.credit_set import build as building
from creditflow.train.credit_set.build import build_credit_set
from creditflow.train.credit_set.reading import read_credit_set, read_header
from creditflow.train.credit_set.settings import BuildSettings
from creditflow.train.run.identity import OtherRunError

SMALL = BuildSettings(turns=26, envs=("sokoban", "alfworld"), forks=4)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("set") / "small.jsonl.gz"
    build_credit_set(SMALL, out)
    return out


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()[1:]]


def test_every_policy_has_its_number_of_turns(small):
    found = Counter((record["env"], record["policy"]) for record in records(small))
    assert found == {(env, policy): turns for env in SMALL.envs for policy, turns in SMALL.quotas(env).items()}
    assert sum(found.values()) == SMALL.turns
    assert max(found.values()) - min(found.values()) <= 1


def test_records_have_the_documented_fields(small):
    for record in records(small):
        actions = [record["action"], *(other["action"] for other in record["alternatives"])]
        assert len(set(actions)) == len(actions) <= 1 + SMALL.alternatives
        assert record["kind"] == ("exact" if record["env"] == "sokoban" else "forked")
        assert record["forks"] == (0 if record["kind"] == "exact" else SMALL.forks)
        assert record["advantage"] == pytest.approx(record["q"] - record["v"], abs=1e-5)
        assert record["distance"] <= record["turns_left"]
        assert record["valid"] or record["policy"] == "ngram"
        low, high = record["q_interval"]
        assert low <= record["q"] <= high
        assert all(f"\n{other['action']}" in record["prompt"] for other in record["alternatives"])


def test_reading_gives_what_was_written(small):
    turns = list(read_credit_set(small))
    for turn, record in zip(turns, records(small), strict=True):
        assert (turn.turn_id, turn.v, turn.taken.q) == (record["turn_id"], record["v"], record["q"])
        assert [other.text for other in turn.alternatives] == [other["action"] for other in record["alternatives"]]
    assert read_header(small)["turns"] == SMALL.turns


def test_two_workers_write_the_same_bytes(small, tmp_path):
    build_credit_set(SMALL, tmp_path / "two.jsonl.gz", workers=2)
    assert (tmp_path / "two.jsonl.gz").read_bytes() == small.read_bytes()


@pytest.mark.parametrize("torn", [0, 17])
@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_an_interrupted_build_resumes_to_the_same_bytes(small, tmp_path, monkeypatch, jobs, torn):
    out, partial = tmp_path / "set.jsonl.gz", tmp_path / "set.jsonl.gz.partial"
    run, calls = building.records_of_task, iter(range(jobs))

    def interrupted(*arguments):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return run(*arguments)

    monkeypatch.setattr(building, "records_of_task", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_credit_set(SMALL, out)
    monkeypatch.setattr(building, "records_of_task", run)
    assert not out.exists()
    if torn:
        with partial.open("ab") as stream:
            stream.write(b'{"env":"sokoban","'[:torn])
    with pytest.raises(ConfigError, match="--resume"):
        build_credit_set(SMALL, out)
    build_credit_set(SMALL, out, resume=True)
    assert out.read_bytes() == small.read_bytes()
    assert not partial.exists()
    build_credit_set(SMALL, out, resume=True)  # finished: stays as it is
    assert out.read_bytes() == small.read_bytes()


def test_other_settings_do_not_resume(small, tmp_path):
    out = tmp_path / "set.jsonl.gz"
    out.write_bytes(small.read_bytes())
    with pytest.raises(OtherRunError, match=r"seed: stored 0, requested 1"):
        build_credit_set(BuildSettings(turns=26, envs=SMALL.envs, forks=4, seed=1), out, resume=True)


def test_a_policy_without_usable_turns_is_an_error(tmp_path, monkeypatch):
    run = building.records_of_task
    monkeypatch.setattr(building, "MAX_UNUSABLE_JOBS", 3)
    monkeypatch.setattr(
        building, "records_of_task", lambda *a: [one for one in run(*a) if one["policy"] != "ngram"]
    )  # fmt: skip
    with pytest.raises(DataError, match="3 tasks in a row had no usable turn of ngram"):
        build_credit_set(BuildSettings(turns=8, envs=("sokoban",)), tmp_path / "set.jsonl")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--envs", "sokobann"], "did you mean 'sokoban'"),
        (["--envs", "sokoban,sokoban"], "each environment"),
        (["--forks", "3"], "even"),
        (["--agent", "hff:x"], "did you mean 'hf'"),
        (["--agent", "noisy:0.3"], "once"),
    ],
)
def test_wrong_arguments_are_explained(arguments, message, tmp_path, capsys):
    assert main(["data", "build", "credit-set", "--out", str(tmp_path / "x.jsonl"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_agent_takes_the_place_of_the_ngram_model(tmp_path):
    out = tmp_path / "x.jsonl.gz"
    command = ["data", "build", "credit-set", "--envs", "sokoban", "--turns", "8", "--agent", "noisy:0.7"]
    assert main([*command, "--workers", "1", "--out", str(out)]) == 0
    assert {record["policy"] for record in records(out)} == {"random", "expert", "noisy:0.3", "noisy:0.7"}

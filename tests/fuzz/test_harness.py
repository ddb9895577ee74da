"""The fuzzer itself: faults of a reader are found, attributed to their case, and reproducible."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from creditflow.envs.errors import DataError
from fuzz.child import Case, Result, case_bytes, run_cases
from fuzz.mutate_bytes import mutate_bytes
from fuzz.mutate_data import freeze, mutate_json, mutate_recipe, spell, thaw
from fuzz.target import Target, case_rng, judge

ROOT = Path(__file__).parents[2]


def read(data: bytes, _: Path) -> None:
    if data == b"good":
        return
    if data == b"named":
        raise DataError("file.txt: line 1: not what was expected")
    if data == b"nowhere":
        raise DataError("something is wrong with it")
    if data == b"raw":
        raise KeyError("x")
    if data == b"memory":
        bytearray(1 << 30)
    if data == b"slow":
        while True:
            pass
    if data == b"swallowing":
        while True:
            try:
                while True:
                    pass
            except Exception:  # noqa: BLE001, S112 - the reader under test catches everything
                continue
    if data == b"dies":
        os.abort()
    if data == b"leaves":
        sys.exit(3)


def tried(*traps: bytes) -> list[Result]:
    target = Target(
        name="test/test", read=read, seeds=lambda _: [b"good"], mutate=lambda _, samples: samples[0],
        traps=lambda: traps, place="file.txt", seconds=0.3, megabytes=256,
    )  # fmt: skip
    cases = [Case("sample 0", valid=True), *(Case(f"trap {i}") for i in range(len(traps)))]
    return list(run_cases(target, [b"good"], iter(cases), time.monotonic() + 60.0))


def test_accepted_cases_and_named_rejections_are_no_findings() -> None:
    assert [result.outcome.kind for result in tried(b"named", b"good")] == ["accepted", "rejected", "accepted"]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"nowhere", "no place in the message of DataError"), (b"raw", "KeyError at"), (b"memory", "MemoryError at"),
        (b"slow", "SlowError at"), (b"swallowing", "SlowError at"), (b"dies", "dies of SIGABRT"), (b"leaves", "SystemExit at"),
    ],
)  # fmt: skip
def test_a_fault_is_attributed_to_its_case_and_the_other_cases_still_run(data: bytes, what: str) -> None:
    results = tried(b"good", data, b"named", b"good")
    assert [result.outcome.kind for result in results] == ["accepted", "accepted", "finding", "rejected", "accepted"]
    assert results[2].outcome.what.startswith(what)
    assert results[2].data == data


def test_a_valid_sample_must_be_accepted() -> None:
    target = Target(name="t", read=read, seeds=lambda _: [], mutate=mutate_bytes)
    assert judge(target, DataError("file.txt: line 1"), valid=True).kind == "finding"
    assert judge(target, DataError("file.txt: line 1"), valid=False).kind == "rejected"


@pytest.mark.parametrize("mutate", [mutate_bytes, mutate_json, mutate_recipe])
def test_a_case_is_the_same_for_the_same_number_and_no_other(
    mutate: Callable[[np.random.Generator, Sequence[bytes]], bytes],
) -> None:
    target = Target(name="a/b", read=read, seeds=lambda _: [], mutate=mutate)
    seeds = [freeze({"a": [1, 2, {"b": "c"}], "d": None})]
    found = [case_bytes(target, Case(f"5:{i}"), seeds) for i in range(200)]
    assert found == [case_bytes(target, Case(f"5:{i}"), seeds) for i in range(200)]
    assert len(set(found)) > 100
    assert case_rng(5, "a/b", 1).bytes(8) != case_rng(5, "a/c", 1).bytes(8)


def test_recipes_represent_values_that_json_cannot() -> None:
    recipe = freeze({"a": "@set@", "b": "@digits:5000@", "c": "@deep:3@"})
    assert thaw(recipe) == {"a": {1, "x"}, "b": 10**5000, "c": [[[[]]]]}
    assert b'"b": ' + b"9" * 5000 in spell(recipe)
    assert b'"c": [[[]]]' in spell(recipe)


def test_the_names_of_targets_are_unique() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "fuzz", "--list"], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": "src:tests", "PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    names = [line.split()[0] for line in ran.stdout.splitlines()]
    assert len(names) == len(set(names)) > 50

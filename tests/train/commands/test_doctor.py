"""``creditflow doctor``: requirements as pip reads them, extras in every state, and a report that names remedies."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.train.cli import main
from creditflow.train.commands.doctor import (
    USES,
    Found,
    extra_of,
    machine,
    parse_requirement,
    report_text,
    requirements,
)

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
LINES = [
    *PROJECT["dependencies"],
    *(f'{line}; extra == "{name}"' for name, lines in EXTRAS.items() for line in lines),
]
VERSIONS = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda numbers: ".".join(map(str, numbers)))


def test_every_extra_has_its_use_and_every_requirement_of_ours_is_understood() -> None:
    assert set(USES) == set(EXTRAS)
    for name in ("", *EXTRAS):
        assert all(
            (one.name != "creditflow" and one.extra in EXTRAS) or not one.extra for one in requirements(LINES, name)
        )
    assert {one.name for one in requirements(LINES, "lora")} >= {"torch", "transformers", "peft"}
    assert {one.name for one in requirements(LINES, "dev")} >= {"jinja2", "uvicorn", "pytest"}
    assert "torch" not in {one.name for one in requirements(LINES)}


@given(st.lists(st.tuples(st.sampled_from([">=", "<=", "==", "<", ">"]), VERSIONS), max_size=3), VERSIONS)
def test_bounds_are_those_of_packaging(bounds: list[tuple[str, str]], version: str) -> None:
    specifiers = pytest.importorskip("packaging.specifiers", reason="pytest brings packaging")
    text = ",".join(operator + bound for operator, bound in bounds)
    assert parse_requirement(f"name{text}").allows(version) == specifiers.SpecifierSet(text).contains(version)


def test_forms_of_metadata_are_understood() -> None:
    one = parse_requirement("creditflow[train, lora] ; extra == 'x-y'")
    assert (one.name, one.of, one.extra, one.bounds) == ("creditflow", ("train", "lora"), "x-y", ())
    assert str(parse_requirement("torch (>=2.13,<3)")) == "torch>=2.13,<3"
    assert parse_requirement("mistral_common[image]>=1").of == ()
    for text in ("", "name ~= 1", "name @ https://x", 'name; python_version < "3.12"', "name>=1; os_name == 'nt'"):
        with pytest.raises(DataError, match="not a requirement"):
            parse_requirement(text)


def test_extras_that_contain_each_other_end() -> None:
    lines = ['creditflow[b]; extra == "a"', 'creditflow[a]; extra == "b"', 'x>=1; extra == "b"']
    assert [one.name for one in requirements(lines, "a")] == ["x"]


@pytest.mark.parametrize(
    ("versions", "state", "missing", "outside"),
    [
        ({"one": "1.5", "two": "9"}, "ready", [], []), ({"one": "1.5"}, "in part", ["two"], []), ({}, "missing", ["one", "two"], []),
        ({"one": "0.9", "two": "9"}, "other version", [], ["one"]), ({"one": "2.0"}, "in part", ["two"], ["one"]),
    ],
)  # fmt: skip
def test_states_of_an_extra(versions: dict[str, str], state: str, missing: list[str], outside: list[str]) -> None:
    lines = ['one>=1,<2; extra == "sb3"', 'two; extra == "sb3"']
    extra = extra_of(lines, "sb3", lambda name: versions.get(name, ""))
    assert extra.state == state
    assert [one.name for one in extra.missing] == missing
    assert [one.name for one in extra.outside] == outside
    assert extra.remedy == ("" if state == "ready" else "pip install -e '.[sb3]'")


def test_the_report_names_what_is_missing_and_its_remedy() -> None:
    lines = ["numpy>=1", 'one>=1; extra == "sb3"', 'two>=2; extra == "serve"']
    found = {"numpy": "2.0", "one": "1.0", "two": "1.0"}
    core, *extras = (extra_of(lines, name, lambda name: found.get(name, "")) for name in ("", "sb3", "serve"))
    text = report_text("9.9", core, extras, [Found("GPU", "", "none is seen"), Found("python", "3.11")])
    assert "creditflow 9.9" in text and "numpy 2.0" in text
    assert "GPU     -  (none is seen)" in text
    assert "needs two>=2; there is 1.0" in text and "pip install -e '.[serve]'" in text
    assert "not as needed: numpy>=3; pip install -e '.'" in report_text(
        "9.9", extra_of(["numpy>=3"], "", lambda _: "2.0"), [], [Found("python", "3")]
    )


def test_the_command_prints_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor"])
    text = capsys.readouterr().out
    assert "needed packages: " in text and "numpy" in text and "ALFWorld's released games" in text
    assert main(["doctor", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    offered = importlib.metadata.metadata("creditflow").get_all("Provides-Extra") or []
    assert [row["name"] for row in document["requirements"]] == ["", *(name for name in USES if name in offered)]
    assert document["requirements"][0]["state"] == "ready"
    assert code == int(any(row["state"] == "other version" for row in document["requirements"]))


def test_a_version_outside_its_range_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "creditflow.train.commands.doctor.metadata.requires", lambda _: ["numpy>=1", 'numpy<1; extra == "serve"']
    )
    assert main(["doctor"]) == 1
    assert "needs numpy<1" in capsys.readouterr().out
    monkeypatch.setattr("creditflow.train.commands.doctor.metadata.requires", lambda _: None)
    assert main(["doctor"]) == 0
    monkeypatch.setattr(
        "creditflow.train.commands.doctor.metadata.requires", lambda _: ["numpy>=1", "no-such-package-of-ours>=2"]
    )
    assert main(["doctor"]) == 1  # always needed, and missing
    assert "not as needed: no-such-package-of-ours>=2" in capsys.readouterr().out


def test_an_old_package_of_an_extra_that_is_not_complete_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fresh environment of Python 3.11 has an old setuptools, which the extra dev wants newer, and nothing else of it."""
    lines = ['numpy<1; extra == "serve"', 'nowhere>=1; extra == "serve"']
    monkeypatch.setattr("creditflow.train.commands.doctor.metadata.requires", lambda _: lines)
    assert main(["doctor"]) == 0
    assert "in part: no nowhere" in capsys.readouterr().out


def test_games_and_models_are_found_where_their_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    before = {one.name: one for one in machine()}
    assert (
        not before["ALFWorld's released games"].value
        and "alfworld-download" in before["ALFWorld's released games"].remedy
    )
    assert not before["downloaded models"].value
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    for i in range(7):
        (tmp_path / "hub" / f"models--own--m{i}").mkdir(parents=True)
    after = {one.name: one for one in machine()}
    assert "train" in after["ALFWorld's released games"].value and not after["ALFWorld's released games"].remedy
    assert "own/m0" in after["downloaded models"].value and "2 more" in after["downloaded models"].value


@pytest.mark.parametrize("variable", ["ALFWORLD_DATA", "HF_HOME"])
def test_what_is_broken_is_a_line_of_the_report(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torch that cannot be loaded and a home that does not exist: the command is called because of them."""
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open\\nshared object file')", "ascii")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv(variable, "~no-such-user/data")
    assert main(["doctor"]) in (0, 1)
    text = capsys.readouterr().out
    assert "OSError: libcudart.so.12: cannot open shared object file" in text
    assert "RuntimeError: Could not determine home directory" in text
    assert "needed packages: " in text

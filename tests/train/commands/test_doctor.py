"""``creditflow doctor``: extras in every state, and a report that names remedies."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from creditflow.train.cli import main
from creditflow.train.commands.doctor import (
    USES,
    Found,
    extra_of,
    machine,
    report_text,
)

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
LINES = [
    *PROJECT["dependencies"],
    *(f'{line}; extra == "{name}"' for name, lines in EXTRAS.items() for line in lines),
]


def test_every_extra_has_its_use_and_every_requirement_of_ours_is_understood() -> None:
    assert set(USES) == set(EXTRAS)
    assert extra_of(LINES, "").missing == ()
    names = {extra: {*extra_of(LINES, extra, lambda _: "").missing} for extra in ("", *EXTRAS)}
    assert names["lora"] >= {"torch", "transformers", "peft"}
    assert names["dev"] >= {"jinja2", "uvicorn", "pytest"}
    assert "torch" not in names[""]
    assert not any("creditflow" in of_extra for of_extra in names.values())


@pytest.mark.parametrize(
    ("versions", "state", "missing"),
    [
        ({"one": "1.5", "two": "9"}, "ready", ()), ({"one": "1.5"}, "in part: no two", ("two",)), ({}, "missing", ("one", "two")),
    ],
)  # fmt: skip
def test_states_of_an_extra(versions: dict[str, str], state: str, missing: tuple[str, ...]) -> None:
    lines = ['one>=1,<2; extra == "sb3"', 'two[more] (>=1); extra == "sb3"']
    extra = extra_of(lines, "sb3", lambda name: versions.get(name, ""))
    assert (extra.state, extra.missing) == (state, missing)


def test_the_report_names_what_is_missing_and_its_remedy() -> None:
    lines = ["numpy>=1", 'one>=1; extra == "sb3"', 'two>=2; extra == "serve"']
    found = {"numpy": "2.0", "one": "1.0"}
    core, *extras = (extra_of(lines, name, lambda name: found.get(name, "")) for name in ("", "sb3", "serve"))
    text = report_text("9.9", core, extras, [Found("GPU", "", "none is seen"), Found("python", "3.11")])
    assert "creditflow 9.9" in text and "numpy 2.0" in text and "one 1.0" in text
    assert "GPU     -  (none is seen)" in text
    assert "pip install -e '.[serve]'" in text
    without = report_text("9.9", extra_of(["numpy>=3"], "", lambda _: ""), [], [Found("python", "3")])
    assert "missing: numpy; pip install -e '.'" in without


def test_the_command_prints_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "needed packages: " in text and "numpy" in text and "ALFWorld's released games" in text


def test_a_needed_package_that_is_missing_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["numpy>=1", "no-such-package-of-ours>=2"]
    monkeypatch.setattr("creditflow.train.commands.doctor.metadata.requires", lambda _: lines)
    assert main(["doctor"]) == 1
    assert "missing: no-such-package-of-ours;" in capsys.readouterr().out
    monkeypatch.setattr("creditflow.train.commands.doctor.metadata.requires", lambda _: None)
    assert main(["doctor"]) == 0
    monkeypatch.setattr(
        "creditflow.train.commands.doctor.metadata.requires", lambda _: ['nowhere>=1; extra == "serve"']
    )
    assert main(["doctor"]) == 0


def test_games_are_found_where_their_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    before = {one.name: one for one in machine()}
    assert (
        not before["ALFWorld's released games"].value
        and "alfworld-download" in before["ALFWorld's released games"].remedy
    )
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    after = {one.name: one for one in machine()}
    assert "train" in after["ALFWorld's released games"].value and not after["ALFWorld's released games"].remedy


def test_what_is_broken_is_a_line_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torch that cannot be loaded and a home that does not exist: the command is called because of them."""
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open\\nshared object file')", "ascii")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("ALFWORLD_DATA", "~no-such-user/data")
    assert main(["doctor"]) in (0, 1)
    text = capsys.readouterr().out
    assert "OSError: libcudart.so.12: cannot open shared object file" in text
    assert "RuntimeError: Could not determine home directory" in text
    assert "needed packages: " in text

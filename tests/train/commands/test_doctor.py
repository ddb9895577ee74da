"""``creditflow doctor``: extras in every state, and a report that names remedies."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from creditflow.train.cli import main
from creditflow.train.commands import doctor
from creditflow.train.commands.doctor import machine, packages_of

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
LINES = [*PROJECT["dependencies"], *(f'{line}; extra == "{name}"' for name, lines in EXTRAS.items() for line in lines)]
GAMES = "ALFWorld's released games"


def requiring(monkeypatch: pytest.MonkeyPatch, lines: list[str] | None, versions: Mapping[str, str] | None) -> None:
    """Replace what the package requires, and unless None what is installed."""
    monkeypatch.setattr("creditflow.train.commands.doctor.metadata.requires", lambda _: lines)
    if versions is not None:
        monkeypatch.setattr(doctor, "_installed_version", lambda name: versions.get(name, ""))


def test_every_requirement_of_ours_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    requiring(monkeypatch, LINES, {})
    names = {extra: {*packages_of(extra)} for extra in ("", *EXTRAS)}
    assert names["lora"] >= {"torch", "transformers", "peft"}
    assert names["dev"] >= {"jinja2", "uvicorn", "pytest"}
    assert "torch" not in names[""]
    assert not any("creditflow" in of_extra for of_extra in names.values())


@pytest.mark.parametrize("versions", [{"one": "1.5", "two": "9"}, {"one": "1.5"}, {}])
def test_states_of_an_extra(
    versions: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requiring(monkeypatch, ['one>=1,<2; extra == "sb3"', 'two[more] (>=1); extra == "sb3"'], versions)
    assert packages_of("sb3") == {"one": "", "two": "", **versions}
    assert main(["doctor"]) == 0
    [line] = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.startswith("sb3 ")]
    missing = [name for name in ("one", "two") if name not in versions]
    remedy = f"missing: {', '.join(missing)} pip install -e '.[sb3]'"
    assert line == f"sb3 {remedy if missing else 'ready'}"


def test_the_command_prints_its_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "needed packages: " in text and "numpy" in text and GAMES in text


def test_a_needed_package_that_is_missing_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requiring(monkeypatch, ["numpy>=1", "no-such-package-of-ours>=2"], None)
    assert main(["doctor"]) == 1
    assert "missing: no-such-package-of-ours;" in capsys.readouterr().out
    requiring(monkeypatch, None, None)
    assert main(["doctor"]) == 0


def test_games_are_found_where_their_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert "alfworld-download" in machine()[GAMES]
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    assert "(train)" in machine()[GAMES] and "alfworld-download" not in machine()[GAMES]


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

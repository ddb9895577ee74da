"""Submitted results: a file that a small run wrote is checked and shown; whatever is wrong with one is said."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.smoke_bench import smoke_bench

from creditflow.assets.site import build
from creditflow.assets.site.make import submissions
from creditflow.assets.site.make.leaderboard import pages
from creditflow.assets.site.make.submissions import FOLDER, MAX_BYTES, main, quoted, read_submission, section
from creditflow.envs.errors import CreditflowError, DataError

Document = dict[str, Any]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """The results of a run of two schemes at smoke size, as from a clean commit."""
    out = tmp_path_factory.mktemp("bench") / "run"
    assert smoke_bench("grpo,grouptd", "--out", str(out)) == 0
    document: Document = json.loads((out / "results.json").read_text(encoding="utf-8"))
    document["provenance"] |= {"commit": "0123456789", "command": "creditflow bench --preset smoke"}
    return document


def sent(document: Document, folder: Path, name: str = "ada.grids.json.gz") -> Path:
    """A file that a stranger might send."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(gzip.compress(json.dumps(document).encode()))
    return folder / name


def copied(document: Document) -> Document:
    """A deep copy."""
    copy: Document = json.loads(json.dumps(document))
    return copy


def test_a_result_of_a_small_run_is_checked_and_shown_on_the_leaderboard(
    measured: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sent(measured, tmp_path / FOLDER)
    assert main([str(path), "--preset", "smoke"]) == 0
    printed = capsys.readouterr().out
    assert " is valid: ada, preset smoke, seed 0" in printed and "| ada | `grouptd` | tables | +" in printed
    assert main([str(path)]) == 1
    assert "expected the preset quick or lm, got 'smoke'" in capsys.readouterr().err
    monkeypatch.setattr(submissions, "ROOT", tmp_path)
    monkeypatch.setattr(submissions, "LISTED", ("smoke",))
    page = pages()["benchmark/leaderboard"][1]
    assert (
        "| ada | `grouptd` | tables | +" in page and "| `creditflow bench --preset smoke` | `0123456789` | 0 |" in page
    )


def fewer_cells(document: Document) -> None:
    """Leave out the cell in which the scheme does worst."""
    document["suites"][0]["cells"].pop()


def other_tasks(document: Document) -> None:
    """Tasks of a person's choice."""
    document["suites"][0]["cells"][0]["task_names"] = ["easy", "easier"]


def without(method: str) -> Callable[[Document], None]:
    """Leave a method out of all that was measured."""

    def change(document: Document) -> None:
        for cell in document["suites"][0]["cells"]:
            cell["offline"].pop(method)
            cell["curves"].pop(method, None)
        for part in ("schemes", "controls"):
            document["suites"][0][part] = [name for name in document["suites"][0][part] if name != method]

    return change


def flipped_gain(document: Document) -> None:
    """A sanity check fails, whatever the file says of it."""
    for cell in document["suites"][0]["cells"]:
        cell["offline"]["flipped(oracle_adv)"]["gain"] = 1.0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d.update(results_version=3), "version"),
        (lambda d: d["provenance"].update(commit="0123456789-dirty"), "clean git checkout"),
        (lambda d: d["provenance"].update(commit="unknown"), "clean git checkout"),
        (lambda d: d["provenance"].pop("command"), "no seed, command or commit"),
        (lambda d: d["provenance"].update(seed=1), "differ from those of the preset"),
        (lambda d: d["amounts"]["grids"].update(tasks=1), "sizes differ from those of the preset"),
        (lambda d: d["suites"][0].update(spec="sokoban@/etc/passwd"), "expected the suites grids and shared"),
        (lambda d: d["suites"].clear(), "Measure grpo and the controls"),
        (lambda d: d["suites"][0].update(cells=3), "contradict each other"),
        (lambda d: d["suites"][0].update(schemes=[str(i) for i in range(99)] + ["grpo"]), "more than 40 schemes"),
        (
            lambda d: d["suites"][0]["cells"][0]["offline"]["grouptd"].update(gain_by_task=[1e308, 1e308]),
            "got nan|finite",
        ),
        (fewer_cells, "differ from those of the preset"),
        (other_tasks, "differ from those of the preset"),
        (without("grpo"), "no results of grpo"),
        (without("oracle_adv"), "no results of oracle_adv"),
        (flipped_gain, "the negated exact advantage makes the policy worse"),
    ],
)
def test_what_is_wrong_with_a_result_is_said(
    measured: Document, tmp_path: Path, change: Callable[[Document], None], fault: str
) -> None:
    document = copied(measured)
    change(document)
    with pytest.raises(CreditflowError, match=fault) as error:
        read_submission(sent(document, tmp_path), ("smoke",))
    assert "ada.grids.json.gz" in str(error.value)


@pytest.mark.parametrize(
    "name", ["grids.json.gz", "Ada.grids.json.gz", "ada.<b>.json.gz", "ada.grids.json", ".json.gz"]
)
def test_a_file_is_named_by_who_sent_it(measured: Document, tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"expected a name like ada\.grids\.json\.gz"):
        read_submission(sent(measured, tmp_path, name), ("smoke",))


def test_a_file_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "ada.grids.json.gz"
    path.write_bytes(b"\0" * (MAX_BYTES + 1))
    with pytest.raises(DataError, match="the limit is"):
        read_submission(path)


def test_a_damaged_file_ends_the_build_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "ada.grids.json.gz").write_bytes(b"\x1f\x8b damaged")
    monkeypatch.setattr(submissions, "ROOT", tmp_path)
    monkeypatch.setattr(build, "build", lambda _out: pages())
    with pytest.raises(SystemExit) as end:
        build.main(["--out", str(tmp_path)])
    assert end.value.code == 2 and "ada.grids.json.gz" in capsys.readouterr().err


HOSTILE = "`][x] <script>|{raw}`html\n# heading `"


def test_text_of_a_stranger_stays_text(measured: Document, tmp_path: Path) -> None:
    document = copied(measured)
    document["provenance"]["command"] = HOSTILE + "](javascript:x)"
    for cell in document["suites"][0]["cells"]:
        for part in ("offline", "curves"):
            cell[part][HOSTILE] = cell[part]["grouptd"]
    shown = section([read_submission(sent(document, tmp_path), ("smoke",))])
    assert shown.count("<script>") == 2
    for line in shown.splitlines():
        assert not line.startswith("#") and "\n" not in line
        spans = line.split("`")  # text and code in turn
        assert len(spans) % 2 == 1 and not any("<" in text or "](" in text for text in spans[::2])
    assert len(quoted("x" * 10_000)) < 400 and quoted("") == quoted(" ") == "`·`"

"""The figures of the comparison with TRL's trainer: recomputed from the stored runs, and those of the page."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.peer import compare
from benchmarks.peer.compare import summary, table
from benchmarks.peer.work import WORKS

EVIDENCE = Path(__file__).resolve().parent
ROWS = json.loads((EVIDENCE / "trl.json").read_text(encoding="ascii"))["rows"]
TRAINERS = {"creditflow": "creditflow", "trl": "TRL"}


@pytest.mark.parametrize("name", ROWS)
def test_stored_summaries_are_those_of_the_stored_runs(name: str) -> None:
    row = ROWS[name]
    assert row["work"] == WORKS[name].to_json()
    found = summary(WORKS[name], row["start"], row["runs"])
    assert found["pairs"] == row["pairs"]
    for key in ("ratio", "interval", "limit_gflops"):
        assert found[key] == pytest.approx(row[key])
    for side, one in row["sides"].items():
        assert found["sides"][side]["parts"] == pytest.approx(one["parts"])
        for key in one.keys() - {"parts"}:
            assert found["sides"][side][key] == pytest.approx(one[key]), key


@pytest.mark.parametrize("name", ROWS)
def test_the_page_has_the_stored_figures(name: str) -> None:
    row, page = ROWS[name], (EVIDENCE / "README.md").read_text(encoding="utf-8")
    size = f"{name}, {WORKS[name].episodes}"
    low, high = row["interval"]
    ratio = f"**{row['ratio']:.2f}** [{low:.2f}, {high:.2f}], {row['pairs']} pairs"
    for side, one in row["sides"].items():
        first, last = (size, ratio) if side == "creditflow" else ("", "")
        parts = f"{one['parts']['generation']:.0%} / {one['parts']['update']:.0%}"
        cells = [
            first, TRAINERS[side], f"{one['cpu_seconds']:.2f}", f"{one['episodes_per_second']:.2f}",
            f"{one['trained_tokens_per_second']:,.0f}", f"{one['limit_fraction']:.0%}", parts, last,
        ]  # fmt: skip
        assert "| " + " | ".join(cells) + " |" in page


def run(cpu: list[float], signal: list[int], limit: float = 1e9) -> dict[str, Any]:
    """A run with these seconds, and these numbers of rows without signal."""
    counts = [{"rows": 8, "tokens": 1000 * (i + 1), "sampled": 300, "without_signal": n} for i, n in enumerate(signal)]
    parts = {"generation": [0.5 * one for one in cpu], "update": [0.5 * one for one in cpu]}
    return {"cpu": cpu, "wall": [2 * one for one in cpu], "counts": counts, "parts": parts, "limit": limit}


def test_the_ratio_is_the_geometric_mean_over_pairs_in_which_both_do_all_work() -> None:
    work, about = WORKS["0.4 M, 8 turns"], {"vocabulary": 340}
    runs = {
        "creditflow": [run([1.0, 2.0], [0, 8]), run([1.0, 1.0], [0, 0], 3e9)],
        "trl": [run([2.0, 9.0], [0, 0], 2e9), run([8.0, 4.0], [8, 0], 2e9)],
    }
    before = copy.deepcopy(runs)
    found = summary(work, about, runs)
    assert runs == before
    assert found["pairs"] == 3  # ours skips rows without signal, TRL's trainer does not
    assert found["ratio"] == pytest.approx(4.0)  # of 2, 8 and 4
    error = 4.302652729911275 * np.log(2.0) / 3**0.5  # t of two degrees of freedom; the deviation of log 2, 4 and 8
    assert found["interval"] == pytest.approx([4 * np.exp(-error), 4 * np.exp(error)])
    ours = found["sides"]["creditflow"]
    assert (ours["cpu_seconds"], ours["wall_seconds"]) == (1.0, 2.0)
    assert ours["episodes_per_second"] == work.episodes
    assert ours["trained_tokens_per_second"] == pytest.approx((1000 + 1000 + 2000) / 3)
    assert ours["limit_fraction"] == pytest.approx(work.operations(340) / 2e9)  # the median of the four limits
    assert ours["parts"] == {"generation": 0.5, "update": 0.5}
    assert "4.00 [" in table({"row": found})


def test_a_comparison_is_continued_pair_by_pair_with_the_same_sizes_and_versions_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, sides, name = "1.0", list[str](), "0.4 M, 8 turns"

    def in_process(side: str, _work: Any, start: Path) -> dict[str, Any]:
        sides.append(side)
        start.mkdir(parents=True, exist_ok=True)
        return {"vocabulary": 340} if side == "start" else run([1.0 + (side == "trl")], [0])

    monkeypatch.setattr(compare, "_in_process", in_process)
    monkeypatch.setattr(compare, "version", lambda _name: release)
    out = tmp_path / "peer.json"
    compare.compare([name], 1, out, "first")
    document = compare.compare([name], 2, out, "second")
    assert sides == ["start", "creditflow", "trl", "trl", "creditflow"]  # the order alternates
    row = document["rows"][name]
    assert (row["pairs"], row["ratio"], len(row["commits"])) == (2, pytest.approx(2.0), 2)
    assert json.loads(out.read_text(encoding="ascii")) == document
    release = "2.0"
    with pytest.raises(ValueError, match="other sizes or versions"):
        compare.compare([name], 3, out, "third")


def test_one_pair_has_no_interval_and_none_is_an_error() -> None:
    work, about = WORKS["0.4 M, 8 turns"], {"vocabulary": 340}
    one = summary(work, about, {"creditflow": [run([1.0], [0])], "trl": [run([3.0], [0])]})
    assert (one["ratio"], one["interval"]) == (pytest.approx(3.0), None)
    assert "3.00" in table({"row": one})
    with pytest.raises(ValueError, match="without signal"):
        summary(work, about, {"creditflow": [run([1.0], [8])], "trl": [run([3.0], [0])]})

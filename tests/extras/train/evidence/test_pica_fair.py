"""The fair test of PiCA in miniature: both programs run, continue after an interruption, and give the same again; the acting model learns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from evidence.pica.fair import downstream, study
from evidence.pica.fair.language_policy import Choice, LanguagePolicy, choice_text, imitate, open_policy


def _rows(found: dict[str, object]) -> dict[str, object]:
    """The results without what differs between runs."""
    return {name: value for name, value in found.items() if name not in ("cpu_seconds", "command", "commit")}


def _without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_seconds(one) for name, one in value.items() if name != "cpu_seconds"}
    return value


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fair") / "out"
    assert study.main(["--quick", "--out", str(out)]) == 0
    return out


def test_the_study_reports_every_policy_kind_and_rival_with_intervals(finished: Path) -> None:
    found = json.loads((finished / "results.json").read_text())
    assert set(found["tested"]) == {f"{name}, {kind}" for name in study.POLICIES for kind in ("pairs", "played")}
    for name, table in found["tested"].items():
        measure = "auc" if name.endswith("pairs") else "true_correlation"
        assert set(table[measure]) == {"model", "recency", "bag", "pairs", "lead over bag", "lead over pairs"}
        if name.endswith("pairs"):
            assert table["auc"]["recency"] == [0.5, 0.5, 0.5]
    assert found["best_linear"] in study.LINEAR
    assert found["model"]["labelled_turns"] > found["model"]["pivots"] > 0


def test_an_interrupted_study_continues_to_the_same_results(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads((finished / "results.json").read_text())
    for name in ("results.json", "played-1.json", "pairs-0.json"):
        (finished / name).unlink()
    capsys.readouterr()
    assert study.main(["--quick", "--resume", "--out", str(finished)]) == 0
    made = capsys.readouterr().out
    assert "pairs-0:" in made
    assert "\nmodel:" not in made  # what was finished is not made again
    assert "train-" not in made
    after = json.loads((finished / "results.json").read_text())
    assert _without_seconds(_rows(after)) == _without_seconds(_rows(before))


def test_a_quick_study_is_not_continued_as_the_full_one(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (finished / "results.json").read_bytes()
    assert study.main(["--resume", "--out", str(finished)]) == 2
    assert "holds parts of another study" in capsys.readouterr().err
    assert (finished / "results.json").read_bytes() == before


@pytest.mark.parametrize(("content", "status"), [("My notes", 3), ("[1]", 2), ('{"mine": 1}', 2)])
def test_a_foreign_file_of_sizes_is_rejected(content: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "sizes.json").write_text(content)
    assert study.main(["--quick", "--resume", "--out", str(tmp_path)]) == status
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"sizes.json": content}


def test_the_downstream_study_compares_all_methods_with_grpo(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert downstream.main(["--quick", "--out", str(out)]) == 0
    found = json.loads((out / "results.json").read_text())
    for suite, critics in (("shared", downstream.QUICK.critics), ("lm", downstream.QUICK.few)):
        for place in ("area", "held_out"):
            assert set(found[suite][place]["all"]) == set(downstream.methods_of(critics)) - {"grpo"}
    (out / "results.json").unlink()
    assert downstream.main(["--quick", "--resume", "--out", str(out)]) == 0
    assert _rows(json.loads((out / "results.json").read_text())) == _rows(found)


def test_the_acting_model_learns_which_sentence_follows_the_question(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ("Elm", "Oak", "Ash", "Fir", "Yew", "Bay")

    def choice() -> Choice:
        a, b, page = rng.permutation(words)[:3].tolist()
        seen = [f"Question: Who built {page}?", f"[1] {page}: It was built by {a}. It was painted by {b}."]
        return Choice((choice_text(seen, [], f"search: {a}"),), (choice_text(seen, [], f"search: {b}"),))

    policy = imitate([choice() for _ in range(60)], 25, 0)
    tested = [choice() for _ in range(20)]
    chosen = [policy.probabilities([*one.good, *one.other]) for one in tested]
    assert np.mean([odds[0] > 0.5 for odds in chosen]) > 0.9
    assert all(odds.sum() == pytest.approx(1.0) for odds in chosen)
    policy.save(tmp_path / "policy")
    again: LanguagePolicy = open_policy(tmp_path / "policy")
    for one, odds in zip(tested, chosen, strict=True):
        assert again.probabilities([*one.good, *one.other]) == pytest.approx(odds, abs=1e-5)

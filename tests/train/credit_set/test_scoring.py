"""Scores of known predictions have known values, and are invariant where they must be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.cli import main
from creditflow.train.credit_set.predictions import Prediction
from creditflow.train.credit_set.reading import CreditTurn, ValuedAction
from creditflow.train.credit_set.scoring import (
    METRICS,
    brier_score,
    cross_fitted,
    expected_calibration_error,
    isotonic,
    least_brier_score,
    score_document,
    score_env,
)


def made_turns(count: int = 240, forks: int = 0, env: str = "made") -> list[CreditTurn]:
    rng = np.random.default_rng(5)

    def action(number: int) -> ValuedAction:
        q = float(rng.random())
        if not forks:
            return ValuedAction(f"a{number}", q, 0.0, (q, q), float(rng.integers(9)))
        a, b = (float(x) for x in rng.binomial(forks // 2, q, 2) / (forks // 2))
        return ValuedAction(f"a{number}", (a + b) / 2, 0.09, (a, b), float(rng.integers(9)))

    turns = []
    for number in range(count):
        taken, others = action(0), tuple(action(n) for n in (1, 2, 3))
        v = float(np.mean([one.q for one in (taken, *others)]))
        turns.append(
            CreditTurn(f"t{number}", env, f"task{number // 6}", "random", number % 6, 9, forks, 100, taken, others, v, 0.0, (v, v), 5.0)
        )  # fmt: skip
    return turns


def rated(turns, rate):
    return [Prediction(rate(t, t.taken), tuple(rate(t, o) for o in t.alternatives)) for t in turns]


def values(turns, predictions):
    return {name: found[0] for name, found in score_env(turns, predictions, resamples=0).items()}


def test_true_values_are_perfect_and_negated_ones_the_reverse():
    turns = made_turns()
    right, wrong = values(turns, rated(turns, lambda _, a: a.q)), values(turns, rated(turns, lambda _, a: 1 - a.q))
    assert (right["concordance"], right["auroc_centred"]) == (1.0, 1.0)
    assert (wrong["concordance"], wrong["auroc_centred"]) == (0.0, 0.0)
    assert right["ece"] == pytest.approx(0.0, abs=1e-12)
    assert right["brier"] == pytest.approx(np.mean([t.taken.q * (1 - t.taken.q) for t in turns]))
    assert wrong["brier"] > right["brier"]


def test_true_advantages_are_perfect_across_states():
    turns = made_turns()
    found = values(turns, rated(turns, lambda t, a: a.q - t.v))
    assert (found["auroc"], found["concordance"]) == (1.0, 1.0)
    assert found["spearman"] == pytest.approx(1.0)
    assert np.isnan(found["brier"])  # not probabilities
    assert not np.isnan(found["brier_recalibrated"])


def test_shuffled_scores_are_at_chance():
    turns, rng = made_turns(), np.random.default_rng(0)
    found = score_env(turns, rated(turns, lambda _t, _a: float(rng.random())))
    for name, chance in (("concordance", 0.5), ("auroc", 0.5), ("auroc_centred", 0.5), ("spearman", 0.0)):
        low, high = np.quantile(found[name][1:], [0.001, 0.999])
        assert low <= chance <= high, name


def test_a_constant_scores_at_chance():
    turns = made_turns()
    found = values(turns, rated(turns, lambda _t, _a: 0.5))
    assert (found["concordance"], found["auroc"], found["auroc_centred"]) == (0.5, 0.5, 0.5)
    assert np.isnan(found["spearman"])
    assert found["brier"] == pytest.approx(0.25)


@given(st.integers(0, 2**32), st.floats(0.1, 50.0), st.floats(-20.0, 20.0))
def test_ranks_do_not_depend_on_the_scale_of_scores(seed, factor, shift):
    turns, rng = made_turns(36), np.random.default_rng(seed)
    plain = rated(turns, lambda _t, _a: float(rng.integers(8)) / 8)
    scaled = [Prediction(p.score * factor + shift, tuple(x * factor + shift for x in p.alternatives)) for p in plain]
    one, other = values(turns, plain), values(turns, scaled)
    for name in ("concordance", "auroc", "spearman", "brier_recalibrated"):
        assert one[name] == pytest.approx(other[name], abs=1e-9, nan_ok=True)


def test_alternatives_are_optional():
    turns = made_turns()
    found = values(turns, [Prediction(turn.taken.q) for turn in turns])
    assert np.isnan(found["concordance"])
    assert np.isnan(found["auroc_centred"])
    assert found["auroc"] > 0.9


def test_differences_within_noise_do_not_count():
    turns = made_turns(forks=32)
    document = score_document(turns, rated(turns, lambda _, a: a.q), resamples=20)
    facts = document["envs"]["made"]
    assert 0 < facts["pairs"] < 6 * len(turns)
    assert 0 < facts["good"] < len(turns) / 2
    assert 0.5 < facts["reliability"] < 1.0


def test_half_of_the_forks_predicts_the_other_as_well_as_its_reliability_says():
    turns = made_turns(2000, forks=32)
    facts = score_document(turns, rated(turns, lambda _, a: a.q), resamples=20)["envs"]["made"]
    halves = np.array([turn.taken.halves for turn in turns]) - np.array([[turn.v] for turn in turns])
    r = np.corrcoef(halves.T)[0, 1]
    assert facts["reliability"] == pytest.approx(2 * r / (1 + r), abs=1e-4)


def test_the_mean_is_over_environments_and_every_number_has_its_interval():
    turns = made_turns(60) + [
        turn.__class__(**{name: getattr(turn, name) for name in turn.__slots__} | {"env": "other", "turn_id": f"o{n}"})
        for n, turn in enumerate(made_turns(120))
    ]
    document = score_document(turns, rated(turns, lambda _, a: a.q), resamples=20)
    for of_env in document["rows"].values():
        for name in METRICS:
            parts = [of_env[env][name] for env in ("made", "other")]
            if None not in parts:
                mean, low, high = of_env["mean"][name]
                assert mean == pytest.approx(np.mean([part[0] for part in parts]), abs=2e-6)
                assert low <= mean + 1e-6 or name.startswith("ece")
                assert high >= low
    json.dumps(document, allow_nan=False)


# -- calibration ------------------------------------------------------------------------------------------------------------
def test_calibration_of_known_numbers():
    rate = np.array([0.0, 0.0, 1.0, 1.0])
    assert brier_score(rate, rate) == 0.0
    assert brier_score(np.full(4, 0.5), rate) == 0.25
    assert expected_calibration_error(np.full(4, 0.75), np.full(4, 0.5)) == pytest.approx(0.25)
    assert least_brier_score(np.array([0.5]), np.array([0])) == 0.25
    assert least_brier_score(np.array([0.5]), np.array([2])) == 0.5  # one of two, unbiased: 2 / 1 × 1 / 4


def test_the_least_brier_score_is_unbiased():
    rng, q, forks = np.random.default_rng(0), 0.3, 8
    rates = rng.binomial(forks, q, 200_000) / forks
    assert least_brier_score(rates, np.full(len(rates), forks)) == pytest.approx(q * (1 - q), abs=2e-3)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=30))
def test_isotonic_regression_is_monotone_keeps_the_mean_and_is_least_squares(points):
    x, y = (np.array(part, np.float64) for part in zip(*points, strict=True))
    places, fitted = isotonic(x, y)
    assert (np.diff(fitted) >= -1e-12).all()
    at = fitted[np.searchsorted(places, x)]
    assert at.mean() == pytest.approx(y.mean())
    # first-order condition of a projection on the cone of monotone functions: no monotone direction improves it
    for cut in range(len(places) + 1):
        direction = (np.searchsorted(places, x) >= cut).astype(float)
        assert float((y - at) @ direction) <= 1e-9
    assert float((y - at) @ at) == pytest.approx(0.0, abs=1e-7)


def test_recalibration_never_sees_the_task_it_is_applied_to():
    rng = np.random.default_rng(0)
    scores, rate, cluster = rng.random(200), rng.random(200), np.repeat(np.arange(20), 10)
    before = cross_fitted(scores, rate, cluster)
    changed = rate.copy()
    changed[cluster == 4] = 1.0  # an even cluster: only odd ones are recalibrated from it
    after = cross_fitted(scores, changed, cluster)
    assert np.array_equal(before[cluster % 2 == 0], after[cluster % 2 == 0])
    assert not np.array_equal(before[cluster % 2 == 1], after[cluster % 2 == 1])


# -- the command ------------------------------------------------------------------------------------------------------------
def test_the_command_prints_a_table_and_writes_scores(tmp_path: Path, capsys):
    out, judge = tmp_path / "set.jsonl", tmp_path / "judge.jsonl"
    build = ["data", "build", "credit-set", "--envs", "sokoban", "--turns", "40", "--workers", "1", "--out", str(out)]
    assert main(build) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()[1:]]
    judge.write_text(
        "".join(
            json.dumps({"turn_id": r["turn_id"], "score": r["q"], "alternatives": [a["q"] for a in r["alternatives"]]})
            + "\n"
            for r in reversed(rows)
        )
    )
    capsys.readouterr()
    command = ["bench", "--predictions", str(judge), "--credit-set", str(out)]
    assert main([*command, "--out", str(tmp_path / "scores")]) == 0
    text = capsys.readouterr().out
    assert "sokoban: 40 turns" in text
    assert "oracle progress" in text
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "scores" / "scores.json").read_text())
    assert document["rows"]["predictions"]["sokoban"]["concordance"][0] == 1.0
    assert main(["bench", "--credit-set", str(out), "--out", str(tmp_path / "x")]) == 2
    assert "--predictions" in capsys.readouterr().err

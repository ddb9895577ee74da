"""The linear rivals: a pair of words is found, a ridge is chosen, features say what they should and nothing else."""

from __future__ import annotations

import numpy as np
from evidence.pica.fair.matched import Recency
from evidence.pica.fair.rivals import KINDS, RIDGES, SparseLogistic, fit_chosen, turn_features

from creditflow.train.statistics import auroc
from creditflow.wrappers.trajectory import Turn

ABOUT = Recency("search", 1, 1, -1, -1, False)
TURNS = (
    Turn("s0", "search: Elm", "s1", observation="Who founded Elm?"),
    Turn("s1", "search: Ann", "s2", observation="Elm: Ann set it up."),
)


def test_each_kind_has_the_features_of_those_before_it_and_recency_has_no_word() -> None:
    rows = [set(turn_features(TURNS, 1, ABOUT, kind)) for kind in KINDS]
    assert rows[0] < rows[1] < rows[2]
    assert "founded × set" in rows[2]
    assert not any("elm" in name or "founded" in name for name in rows[0])
    assert "first_read 0" in rows[0]  # this very turn
    assert "first_acted -1" in rows[0]


def _planted(count: int, rng: np.random.Generator) -> tuple[list[list[str]], np.ndarray]:
    """Turns that are right if the question's relation is that of the sentence: no single word tells."""
    asked, said = rng.integers(2, size=(2, count))
    rows = [
        ["always", f"q {q}", f"m {m}", f"{q} × {m}", f"noise {rng.integers(30)}"]
        for q, m in zip(asked, said, strict=True)
    ]
    return rows, asked == said


def test_pairs_of_words_find_a_relation_that_single_words_do_not() -> None:
    rng = np.random.default_rng(0)
    (train, right), (test, label) = _planted(1500, rng), _planted(400, rng)
    alone = [[name for name in row if "×" not in name] for row in train]
    assert auroc(SparseLogistic(train, right, 1e-3).score(test), label) > 0.97
    assert abs(auroc(SparseLogistic(alone, right, 1e-3).score(test), label) - 0.5) < 0.1


def test_a_larger_ridge_gives_smaller_weights_and_the_best_one_is_chosen_on_validation() -> None:
    rng = np.random.default_rng(1)
    (train, right), (valid, label) = _planted(400, rng), _planted(200, rng)
    sizes = [float((SparseLogistic(train, right, ridge).weights ** 2).sum()) for ridge in (1.0, 0.1, 1e-4)]
    assert sizes == sorted(sizes)
    model, ridge, loss, auc = fit_chosen(train, right, valid, label)
    assert ridge in RIDGES
    losses = [
        float(np.logaddexp(0.0, np.where(label, -o, o)).mean())
        for r in RIDGES
        for o in [SparseLogistic(train, right, r).score(valid)]
    ]
    assert loss == min(losses)
    assert auc == auroc(model.score(valid), label)
    assert np.array_equal(
        model.score(valid), SparseLogistic(train, right, ridge).score(valid)
    )  # the same seed, the same model


def test_rare_and_unknown_features_do_not_count() -> None:
    rows = [["always", f"name {i}"] for i in range(20)]
    model = SparseLogistic(rows, np.arange(20) % 2 == 0, 1e-3)
    assert set(model.index) == {"always"}
    assert model.score([["always", "never seen"], []])[1] == 0.0

"""The page reports what the stored results contain, and the families have the advantages that their description gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.credit_bench.run import delayed_effect, recovery, variable_horizon

from creditflow.train.bench.controls import ExactEvaluator

HERE = Path(__file__).parent


def uniform(mdp):
    return ExactEvaluator(mdp, np.full((mdp.size, len(mdp.actions)), 0.5))


def test_a_mistake_costs_a_quarter_and_its_repair_gains_a_half():
    advantage = uniform(recovery()).advantage
    assert advantage[2, 0].tolist() == [0.25, -0.25]  # V = 1/2 + 1/4, Q(BAD) = 1/2
    assert advantage[1, 1].tolist() == [0.5, -0.5]


def test_only_the_first_action_matters_in_the_delayed_effect():
    advantage = uniform(delayed_effect(4)).advantage
    assert advantage[4, 0] == pytest.approx([0.3, -0.3])  # .8 and .2 around .5
    for left in (1, 2, 3):
        states = [2 * (4 - left) - 1, 2 * (4 - left)]
        assert advantage[left, states] == pytest.approx(np.zeros((2, 2)))


def test_continuing_is_better_at_even_turns_alone():
    advantage = uniform(variable_horizon()).advantage
    assert [bool(advantage[5 - turn, turn, 1] > 0.0) for turn in range(4)] == [True, False, True, False]


def test_every_row_of_the_page_is_computed_from_the_results():
    families = json.loads((HERE / "results.json").read_text("utf-8"))["families"]
    rows = [
        line.strip("| ").split(" | ") for line in (HERE / "README.md").read_text("utf-8").splitlines() if " | " in line
    ]

    def repaired(family, scheme):
        pair = [families[family][scheme][name] for name in ("credit of BAD, repaired", "credit of RECOVER")]
        return ", ".join(f"{value:+.2f}".replace("-", "−") for value in pair)

    def gradient(family, scheme):
        metrics = families[family][scheme]
        return f"{metrics['cosine of one batch']:.3f}, {metrics['error after scaling']:.2f}"

    eight = [f"{name}, groups of 8" for name in ("recovery", "delayed effect, 8 turns", "variable horizon")]
    checked = 0
    for scheme, *cells in rows:
        if scheme not in families["recovery"]:
            continue
        leakage = f"{families['delayed effect, 32 turns'][scheme]['leakage']:.3f}"
        first = [repaired("recovery", scheme), repaired(eight[0], scheme), leakage]
        names = [eight[0], eight[1], "delayed effect, 32 turns", eight[2], "our grids with pits"]
        assert cells == (first if len(cells) == len(first) else [gradient(name, scheme) for name in names]), scheme
        checked += 1
    assert checked == 18

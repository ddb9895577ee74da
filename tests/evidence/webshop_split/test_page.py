"""The page on WebShop's leaking split reports what the stored results contain, and stored jobs can be run again."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from evidence.webshop_split import run
from helpers.shared_data import shared_file

from creditflow.envs.webshop.catalogue.stock import load_stock

HERE = Path(run.__file__).parent
ROWS = run.rows_of(HERE / "results.jsonl")
PAGE = (HERE / "README.md").read_text("utf-8")
STUDIED = [row for row in ROWS if row["job"].get("shop") in run.SHOPS]
REPLAYED = {row["job"]["seed"]: row["fractions"] for row in ROWS if "replay" in row["job"]}


def test_the_table_of_the_page_is_that_of_the_results():
    assert f"\n\n{run.table(STUDIED)}\n\n" in PAGE


def test_the_page_states_the_replayed_fractions():
    assert len(REPLAYED) == 10
    fractions = 100.0 * np.array(list(REPLAYED.values()))
    steps = [run.EVERY * number for number in range(fractions.shape[1])]
    expected = 100.0 * np.array([run.expected_fraction(run.GOALS, run.HELD_OUT, step) for step in steps])
    last, off = fractions[:, -1], float((fractions - expected)[:, 1:].mean())
    for text in (
        f"{last.mean():.1f}% of the validation tasks had been trained on at step 150 ({last.min():.1f}% to {last.max():.1f}%)",
        f"Over all evaluations the mean is {abs(off):.1f} points {'above' if off > 0 else 'below'} the formula",
        f"{expected[-1]:.1f}%",
    ):
        assert text in " ".join(PAGE.split())


def test_the_bound_of_the_page_follows_from_its_fraction():
    """v = p s + (1 − p) u with s ≤ 1, so that v − u ≤ p (1 − v) / (1 − p)."""
    fraction = run.expected_fraction(run.GOALS, run.HELD_OUT, run.STEPS)
    (stated,) = re.findall(r"With 73\.8% this is at most ([\d.]+) points", PAGE)
    assert stated == f"{100.0 * fraction * (1.0 - 0.738) / (1.0 - fraction):.1f}"


@pytest.mark.parametrize("seed", [0, 7])
def test_a_replay_made_again_equals_the_stored_one(seed):
    assert run.replay(seed) == REPLAYED[seed]


@pytest.mark.parametrize("kind", run.RATES)
def test_a_stored_job_of_the_sample_run_again_gives_its_numbers(kind):
    job = {"shop": "sample", "policy": kind, "rate": run.RATES[kind], "seed": 0}
    stored = next(row for row in ROWS if row["job"] == job)
    again = run.measure(run.Player(run.open_shop("sample")), kind, job["rate"], job["seed"], run.SAMPLE_STEPS)
    assert again == {name: stored[name] for name in again}


def test_the_formula_is_the_mean_over_orders_of_a_small_list():
    goals, held_out, steps = 200, 40, 12
    draws = [run.leaking_draws(goals, held_out, steps, 100 * seed) for seed in range(40)]
    fractions = [float(np.isin(np.arange(goals), one.train).mean()) for one in draws]
    error = np.std(fractions) / len(fractions) ** 0.5
    assert abs(np.mean(fractions) - run.expected_fraction(goals, held_out, steps)) < 4.0 * error


def test_the_remedy_leaves_no_validation_task_that_was_trained_on():
    leaking, remedied = (run.leaking_draws(300, 60, 30, 0, remedy=remedy) for remedy in (False, True))
    assert np.isin(leaking.validation, leaking.train).any()
    assert not np.isin(remedied.validation, remedied.train).any()


def test_a_worker_has_the_price_limits_of_the_original_under_its_seed():
    folder = shared_file("data/webshop")
    one, other = (load_stock(folder, seed=seed, goal_seed=seed) for seed in (42, 7))
    products = [one.catalogue.store.product(row) for row in range(len(one.catalogue))]
    count = Counter(goal.asin for goal in one.goals)
    limits = dict(zip((p.asin for p in products if p.asin in count), run.limits_of(products, count, 7), strict=True))
    assert {goal.asin: goal.price_cap for goal in other.goals} == limits

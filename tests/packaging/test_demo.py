"""The example of ``creditflow demo`` and README's picture: played, scored and measured as they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.demo_picture import ASSETS, columns, picture, played_group, replay

from creditflow.train.cli import main
from creditflow.train.commands.demo import SHOWN, example_group, replayed_changes


def test_the_stored_rollouts_are_those_that_the_expert_plays():
    assert example_group() == played_group()


def test_the_stored_values_are_those_of_a_new_replay():
    """200 replays from each turn, within five standard errors of the difference."""
    stored = json.loads((ASSETS / "examples" / "webshop_replay.json").read_text(encoding="ascii"))
    measured = replay(example_group(), 200, np.random.default_rng(7))
    errors = np.hypot(stored["errors"], measured["errors"])
    assert (np.abs(np.array(stored["values"]) - measured["values"]) <= 5 * errors + 1e-4).all()


def test_replay_and_grouptd_blame_the_purchase_and_grpo_praises_it():
    values = columns(example_group())
    assert values["grpo"].min() > 0
    assert int(values["replay"].argmin()) == int(values["grouptd"].argmin()) == len(values["replay"]) - 1
    assert np.corrcoef(values["replay"], values["grouptd"])[0, 1] > 0.9


def test_the_pictures_are_drawn_from_these_numbers():
    for name, dark in (("light", False), ("dark", True)):
        stored = (ASSETS / "images" / f"credit-{name}.svg").read_text(encoding="utf-8")
        assert stored == picture(example_group(), dark=dark)


def test_the_command_marks_the_mistake_and_writes_a_page(tmp_path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--out", str(tmp_path / "demo.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    [marked] = [line for line in lines if "<- mistake" in line]
    assert "click[buy now]" in marked and f"{replayed_changes()[-1]:+.2f}" in marked
    assert max(map(len, lines)) <= 120
    assert example_group().trajectories[SHOWN].trajectory_id in (tmp_path / "demo.html").read_text(encoding="ascii")

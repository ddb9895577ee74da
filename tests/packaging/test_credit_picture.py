"""The README's picture is drawn from the group that the README's session plays."""

from __future__ import annotations

import pytest
from helpers.credit_picture import SHOWN, distances, draw, rollouts
from helpers.shared_data import ROOT

from creditflow.wrappers import StateGraph


def test_the_group_is_the_one_of_the_readme():
    group = rollouts()
    numbers = sum(one.success for one in group.trajectories), len(group.turns), StateGraph.from_group(group).size
    assert f"\n{numbers}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert group.trajectories[SHOWN].success


def test_distances_end_at_success_and_change_by_one_at_most():
    group = rollouts()
    far = distances(group)
    turns = group.trajectories[SHOWN].turns
    assert far[turns[-1].next_state_key] == 0
    assert all(far[one.next_state_key] >= far[one.state_key] - 1 for one in turns)


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")
    pytest.importorskip("PIL", reason="tiles need Pillow")
    draw(rollouts(), tmp_path / "credit.png")
    assert (tmp_path / "credit.png").stat().st_size > 20_000

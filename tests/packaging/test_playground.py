"""The playground of the site: its four schemes give NumPy's numbers, also after edits, and the page works at every width and by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.contrast import contrast
from helpers.servers.browser import Browser, driven
from helpers.shared_data import ROOT

from builder.make.playground import TASKS, group_data, groups, markup
from creditflow.wrappers import Group, Trajectory, credit
from creditflow.wrappers.credit.random_group import random_group

pytestmark = pytest.mark.browser

RECORDED = cache(groups)
STATIC = ROOT / "assets" / "site" / "static"
SCHEMES = ("grpo", "gigpo", "graphgpo", "grouptd")
GROUNDS = ("#ffffff", "#131416")  # of the site's theme, light and dark
PANEL = (
    "return [...document.querySelectorAll('#credits-turn tr')].slice(1)"
    ".map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent.replace('\u2212', '-')))"
)


def page(folder: Path) -> Path:
    """The playground without the site around it."""
    (folder / "concepts").mkdir(parents=True)
    (folder / "_static").symlink_to(STATIC)
    path = folder / "concepts" / "playground.html"
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    path.write_text(f'{head}<body data-theme="light">{markup()}', encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("playground")
    with driven(folder) as browser:
        browser.open(page(folder))
        yield browser


def changed(group: Group, edits: dict[str, Any]) -> Group:
    """The same edits on the package's records."""
    keys = group.arrays.states.keys
    name = {key: keys[edits["merged"][number]] for number, key in enumerate(keys)}

    def member(i: int, of: Trajectory) -> Trajectory:
        turns = [replace(t, state_key=name[t.state_key], next_state_key=name[t.next_state_key]) for t in of.turns]
        of = replace(of, turns=tuple(turns), final_state_key=name[of.final_state_key])
        if i not in edits["flipped"]:
            return of
        won = not of.success
        turns[-1] = replace(turns[-1], reward=float(won))
        return replace(
            of, turns=tuple(turns), success=won, score=float(won), stop_reason="success" if won else "failed"
        )

    members = enumerate(group.trajectories)
    return Group(tuple(member(i, of) for i, of in members if i not in edits["deleted"]), group.task)


def random_edits(group: Group, rng: np.random.Generator) -> dict[str, Any]:
    """Some rollouts deleted, at least one of them kept, some flipped, and up to two pairs of states merged."""
    size, merged = len(group), np.arange(len(group.arrays.states.keys))
    for _ in range(int(rng.integers(0, 3))):
        one, other = rng.choice(merged, 2)
        merged[merged == one] = other
    deleted = rng.choice(size, int(rng.integers(0, size)), replace=False)
    return {
        "deleted": deleted.tolist(),
        "flipped": np.flatnonzero(rng.random(size) < 0.3).tolist(),
        "merged": merged.tolist(),
    }


def graded(group: Group, rng: np.random.Generator) -> Group:
    """Failures with some score, as WebShop gives them."""
    return Group(
        tuple(m if m.success else replace(m, score=float(rng.choice([0.0, 0.3, 0.8]))) for m in group.trajectories),
        group.task,
    )


def test_the_four_schemes_give_the_numbers_of_the_package_on_random_and_on_shown_groups_with_edits(
    opened: Browser,
) -> None:
    rng = np.random.default_rng(0)
    groups = [RECORDED()[name] for name in TASKS] * 5
    groups += [graded(random_group(rng, size=int(rng.integers(1, 9)), dense=i % 2 == 1), rng) for i in range(120)]
    edits = [random_edits(group, rng) for group in groups]
    asked = json.dumps([[group_data(group), edit] for group, edit in zip(groups, edits, strict=True)])
    computed = opened.run(f"return {asked}.map(([group, edits]) => credits(group, edits))")
    moved = 0
    for group, edit, of_schemes in zip(groups, edits, computed, strict=True):
        assert set(of_schemes) == set(SCHEMES)
        for name, rollouts in of_schemes.items():
            expected = credit.make(name).assign(changed(group, edit)).advantages
            assert [len(own) for own in rollouts] == [len(own) for own in expected]
            assert np.concatenate(rollouts) == pytest.approx(np.concatenate(expected), abs=1e-9), name
            moved += bool(np.abs(np.concatenate(expected)).max() > 0)
    assert moved > 2 * len(groups)  # most of the numbers are not zero


def test_by_keyboard_a_rollout_is_deleted_an_outcome_flipped_and_two_states_merged(opened: Browser) -> None:
    opened.run("document.querySelector('[aria-current]').focus()")
    opened.press("Up", "Left", "Left")
    assert opened.run("return document.activeElement.id") == "turn-0-1"
    opened.press("Down", "Right", "Right")
    group, none = RECORDED()["WebShop"], {"deleted": [], "flipped": [], "merged": list(range(25))}
    turn = opened.run("return document.activeElement.id")
    assert turn == "turn-1-3"
    edits = dict(none)
    for keys, edit in (
        (("flip-0", "Enter"), {"flipped": [0]}),
        (("delete-4", "Enter"), {"deleted": [4]}),
        (("merge", "Enter"), {"merged": [state if state != 7 else 0 for state in range(25)]}),
        (("undo", "Enter"), none),
    ):
        opened.run(f"document.getElementById('{keys[0]}').focus()")
        opened.press(keys[1])
        edits |= edit
        expected = [credit.make(name).assign(changed(group, edits)).advantages[1][3] for name in SCHEMES]
        shown, changes = opened.run(PANEL)
        assert shown == [f"{x:+.2f}" for x in expected]
        before = [credit.make(name).assign(group).advantages[1][3] for name in SCHEMES]
        assert changes == [f"{x - b:+.2f}" if abs(x - b) > 0.005 else "" for x, b in zip(expected, before, strict=True)]
        assert opened.run("return document.activeElement.id") == keys[0]


def test_the_last_rollout_cannot_be_deleted_and_the_credit_of_one_is_zero_for_all_that_compare(opened: Browser) -> None:
    disabled = opened.run(
        "[...Array(7).keys()].forEach((i) => document.getElementById(`delete-${i}`).click());"
        "return document.getElementById('delete-7').disabled"
    )
    assert disabled
    opened.run("document.getElementById('turn-7-0').click()")
    assert opened.run(PANEL)[0][:3] == ["0.00", "0.00", "0.00"]
    opened.run("document.getElementById('undo').click()")


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_as_wide_as_the_screen(tmp_path: Path, width: int) -> None:
    with driven(tmp_path, width=width) as browser:
        browser.open(page(tmp_path))
        for name in TASKS:
            browser.run(f"document.querySelector('[value={name}]').click()")
            assert browser.run("return document.documentElement.scrollWidth") <= width


def test_colours_of_texts_stand_out_from_the_ground_in_light_and_dark() -> None:
    style = (STATIC / "playground.css").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r"{ (--good.*?)}", style)]
    assert len(themes) == 3  # light, dark as chosen, dark as the system is
    assert themes[1] == themes[2]
    for colours, ground in zip(themes, GROUNDS, strict=False):
        assert all(contrast(colours[text], ground) >= 4.5 for text in ("good", "bad"))
        assert contrast(colours["edge"], ground) >= 3.0


def test_what_the_page_tells_to_try_is_so() -> None:
    none: dict[str, Any] = {"deleted": [], "flipped": [], "merged": list(range(25))}

    def credit_of(name: str, scheme: str, **edits: Any) -> list[np.ndarray]:
        return credit.make(scheme).assign(changed(RECORDED()[name], none | edits)).advantages

    assert (credit_of("WebShop", "grpo")[1] > 0).all()
    assert (credit_of("WebShop", "grpo", deleted=[4])[1] < 0).all()
    pushed = credit_of("Sokoban", "grouptd")[1]
    assert int(np.argmin(pushed)) == 2
    assert not pushed[3:].any()
    assert credit_of("Sokoban", "grouptd", flipped=[1])[1][2] > 0
    for name in ("Sokoban", "ALFWorld"):
        for won in (True, False):
            alike = [i for i, member in enumerate(RECORDED()[name].trajectories) if member.success == won]
            assert not any(own.any() for own in credit_of(name, "grpo", deleted=alike))

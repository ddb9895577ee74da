"""The viewer's page: its data, and that hostile text in a log is never executed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from helpers.servers.browser import driven, rendered_dom

from creditflow.envs.errors import DataError
from creditflow.train.cli import main
from creditflow.train.viewer import data as data_module
from creditflow.train.viewer.data import MAX_TEXT, disagreement, layered_layout, render_page, view_data
from creditflow.wrappers import StateGraph, credit
from creditflow.wrappers.trajectory import Group, Trajectory, Turn, write_jsonl

HOSTILE = "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\"><!--\u2028'"


def rollout(name, states, end="env_limit", observation="", action="go"):
    turns = tuple(Turn(a, action, b, observation=observation) for a, b in pairwise(states))
    return Trajectory(name, "g", "task", turns, end == "success", float(end == "success"), end, states[-1])


@pytest.fixture
def group():
    return Group((rollout("t0", "abcd", "success"), rollout("t1", "abae"), rollout("t2", "aef", "failed")))


def found(pattern, page):
    match = re.search(pattern, page, re.S)
    assert match, pattern
    return match[1]


def page_data(page):
    return json.loads(found(r'<script type="application/json" id="data">(.*?)</script>', page))


def test_the_page_contains_every_turn_and_the_credit_of_every_scheme(group):
    schemes = {name: credit.make(name) for name in ("grpo", "graphgpo")}
    data = page_data(render_page(view_data([group], schemes, "title")))
    (shown,) = data["groups"]
    assert [len(r["turns"]) for r in shown["rollouts"]] == [3, 3, 2]
    expected = [round(float(x), 5) for x in schemes["graphgpo"].assign(group).flat_advantages]
    assert [turn[7][1] for r in shown["rollouts"] for turn in r["turns"]] == expected
    assert sorted(node[1] for node in shown["nodes"] if node[1] != "open") == ["failed", "goal"]


def test_equal_texts_are_stored_once(group):
    many = Group(
        tuple(replace(t, turns=tuple(replace(u, observation="the same") for u in t.turns)) for t in group.trajectories)
    )
    data = view_data([many], {"grpo": credit.make("grpo")}, "title")
    assert [text for text in data["texts"] if "is the sum of" not in text] == ["", "go", "the same"]


def test_no_character_of_markup_is_in_the_data():
    data = {"title": "t", "texts": ["a<b>c & d</script><!-- ]]>"]}
    written = found(r'<script type="application/json" id="data">(.*?)</script>', render_page(data))
    assert not set("<>&") & set(written)
    assert json.loads(written) == data


def test_the_content_security_policy_allows_exactly_the_own_script_and_style(group):
    page = render_page(view_data([group], {"grpo": credit.make("grpo")}, "title"))
    policy = found(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    script = found(r"<script>(.*?)</script>", page)
    style = found(r"<style>(.*?)</style>", page)
    for kind, text in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_hostile_text_cannot_end_the_data_block():
    group = Group((rollout("t0", ["a", HOSTILE], observation=HOSTILE, action=HOSTILE),))

    class Tags(HTMLParser):
        def __init__(self):
            super().__init__()
            self.seen = []

        def handle_starttag(self, tag, attrs):
            self.seen.append(tag)

    tags = Tags()
    tags.feed(render_page(view_data([group], {"grpo": credit.make("grpo")}, HOSTILE)))
    assert tags.seen.count("script") == 2
    assert "img" not in tags.seen


@pytest.mark.browser
def test_in_a_browser_hostile_text_is_shown_and_not_executed(tmp_path):
    group = Group((rollout("t0", ["a", HOSTILE], observation=HOSTILE, action=HOSTILE), rollout("t1", "ab", "success")))
    page = tmp_path / "view.html"
    page.write_text(render_page(view_data([group], {"grpo": credit.make("grpo")}, "fine")), encoding="ascii")
    dom = rendered_dom(page, tmp_path / "profile")
    assert 'data-ready="yes"' in dom
    assert "<title>fine</title>" in dom
    assert "<img" not in dom
    assert "onerror" in dom  # as text


def test_layers_follow_the_distance_from_the_start(group):
    graph = StateGraph.from_group(group)
    places = layered_layout(graph, np.array([graph.keys.index("a")]))
    across = dict(zip(zip(graph.keys, graph.kind.tolist(), strict=True), places[:, 0], strict=True))
    assert across["a", 0] == 0.0
    assert across["b", 0] == across["e", 0] == pytest.approx(1 / 3)
    assert across["d", 1] == 1.0
    assert ((places >= 0) & (places <= 1)).all()


def test_a_branch_does_not_begin_in_the_first_layer(group):
    branch = replace(rollout("branch", "cg", "failed"), parent="t0", fork_turn=2)
    (shown,) = view_data([Group((*group.trajectories, branch))], {}, "title")["groups"]
    across = {node[0]: node[2] for node in shown["nodes"]}
    assert across["a"] == 0.0
    assert across["c"] == pytest.approx(2 / 3, abs=1e-5)


def test_the_command_writes_a_page_and_rejects_an_empty_log(group, tmp_path, capsys):
    log, out, empty = tmp_path / "log.jsonl", tmp_path / "view.html", tmp_path / "empty.jsonl"
    write_jsonl(log, [group])
    empty.write_text("")
    assert main(["view", str(log), "--out", str(out), "--schemes", "grpo,gigpo"]) == 0
    assert "t0" in out.read_text()
    assert main(["view", str(empty), "--out", str(out), "--force"]) == 3
    assert "t0" in out.read_text()
    assert "contains no trajectories" in capsys.readouterr().err
    assert main(["view", str(log), "--out", str(out), "--schemes", "grp"]) == 2


SHOWN = (
    "return [...document.querySelectorAll('#turns tr')].findIndex((r) => r.getAttribute('aria-selected') === 'true')"
)
ROLLOUT = "return [...document.querySelectorAll('#rollouts button')].findIndex((b) => b.getAttribute('aria-selected') === 'true')"


@pytest.mark.browser
def test_keys_select_turns_and_rollouts_and_a_click_on_a_state_its_turn(group, tmp_path):
    page = tmp_path / "view.html"
    page.write_text(render_page(view_data([group], {"grpo": credit.make("grpo")}, "fine")), encoding="ascii")
    with driven(tmp_path) as browser:
        browser.open(page)
        browser.press("Down", "Down", "Down", "Down")
        assert (browser.run(ROLLOUT), browser.run(SHOWN)) == (0, 2)
        browser.press("Right")
        assert (browser.run(ROLLOUT), browser.run(SHOWN)) == (1, 0)
        browser.press("Up", "Left", "Left")
        assert (browser.run(ROLLOUT), browser.run(SHOWN)) == (0, 0)
        keys = [node[0] for node in page_data(page.read_text())["groups"][0]["nodes"]]
        click = "document.querySelector('[data-node=\"{}\"]').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
        browser.run(click.format(keys.index("c")))
        assert (browser.run(ROLLOUT), browser.run(SHOWN)) == (0, 2)
        browser.run(click.format(keys.index("e")))
        assert (browser.run(ROLLOUT), browser.run(SHOWN)) == (2, 1)  # the others do not leave it


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 0])
def test_columns_are_explained_and_the_page_is_as_wide_as_the_screen(group, tmp_path, width):
    page = tmp_path / "view.html"
    schemes = {name: credit.make(name) for name in ("grpo", "gigpo", "graphgpo", "rewardflow", "grouptd")}
    page.write_text(render_page(view_data([group], schemes, "fine")), encoding="ascii")
    with driven(tmp_path, width=width) as browser:
        browser.open(page)
        inside, screen = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert inside <= screen
        heads = browser.run("return [...document.querySelectorAll('th .term')].map((b) => [b.textContent, b.title])")
        assert [name for name, _ in heads] == ["turn", "action", "reward", *schemes]
        assert all(title for _, title in heads)
        browser.run("document.querySelectorAll('th .term')[3].focus()")
        browser.press("Enter")
        assert "grpo" in browser.run("return document.querySelector('#explained:popover-open').innerText")
        browser.press("Escape")
        assert browser.run("return document.querySelector('#explained:popover-open')") is None


@pytest.mark.browser
def test_a_click_on_a_number_shows_why_it_is_so(group, tmp_path):
    page = tmp_path / "view.html"
    schemes = {name: credit.make(name) for name in ("gigpo", "grouptd")}
    page.write_text(render_page(view_data([group], schemes, "fine")), encoding="ascii")
    with driven(tmp_path) as browser:
        browser.open(page)
        for column, scheme in enumerate(schemes):
            browser.run(f"document.querySelectorAll('#turns tr')[1].querySelectorAll('.why')[{column}].click()")
            popover = browser.run("return document.querySelector('#explained:popover-open').innerText")
            assert credit.explain(group, scheme, 0, 1).text() in popover
            assert browser.run(SHOWN) == 1
            browser.press("Escape")


def test_a_page_of_too_many_numbers_has_the_command_that_explains_one(group, monkeypatch):
    texts = view_data([group], {"grpo": credit.make("grpo")}, "title")["texts"]
    assert any("is the sum of" in text for text in texts)
    monkeypatch.setattr("creditflow.train.viewer.data.MAX_REASONS", len(group.turns) - 1)
    texts = view_data([group], {"grpo": credit.make("grpo")}, "title")["texts"]
    assert not any("is the sum of" in text for text in texts)


def test_texts_and_pages_have_limits(monkeypatch):
    group = Group(
        (
            Trajectory(
                "t", "g", "x", (Turn("a", "go", "b", observation="y" * (MAX_TEXT + 7)),), False, 0.0, "failed", "b"
            ),
        )
    )
    data = view_data([group], {}, "title")
    assert max(map(len, data["texts"])) < MAX_TEXT + 60
    assert any(text.endswith("7 more characters, which the log has") for text in data["texts"])
    monkeypatch.setattr(data_module, "MAX_PAGE", 1000)
    with pytest.raises(DataError, match="--limit"):
        render_page(data)


def test_the_limit_of_a_page_is_that_of_what_is_written(monkeypatch):
    """Where ``<`` takes six characters."""
    title, other = "<" * 1000, "x" * 1000
    limit = len(json.dumps({"title": other}, separators=(",", ":")))
    monkeypatch.setattr(data_module, "MAX_PAGE", limit)
    assert other in render_page({"title": other})
    with pytest.raises(DataError, match=f"{limit + 5000:,} characters"):
        render_page({"title": title})


def test_disagreement_is_in_units_of_each_schemes_root_mean_square():
    # root mean squares 2 and 10: scaled [1, −1] and [1, 1], so the schemes agree about the first turn only
    scales, spread = disagreement([np.array([2.0, -2.0]), np.array([10.0, 10.0])])
    assert scales == [2.0, 10.0]
    assert spread.tolist() == [0.0, 2.0]
    scales, spread = disagreement([np.zeros(2)])  # a scheme without credit, and nothing to disagree with
    assert (scales, spread.tolist()) == ([1.0], [0.0, 0.0])


def test_the_page_opens_where_schemes_disagree_most_and_marks_the_rows():
    # in the first group all succeed at once and nobody gets credit
    alike = Group((rollout("a", "ab", "success"), rollout("b", "ab", "success")))
    told_apart = Group((rollout("c", "abcd", "success"), rollout("d", "abe", "failed")))
    two = {name: credit.make(name) for name in ("grpo", "graphgpo")}
    data = view_data([alike, told_apart], two, "title")
    opened, number, turn = data["opens"]
    assert opened == 1
    assert data["groups"][1]["rollouts"][number]["turns"][turn][-1] == 1
    assert view_data([told_apart], {"grpo": credit.make("grpo")}, "title")["opens"] is None

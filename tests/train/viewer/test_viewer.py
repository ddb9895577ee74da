"""The viewer's page: its data, and that hostile text in a log is never executed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
from helpers.contrast import contrast
from helpers.servers.browser import driven, rendered_dom

from creditflow.envs.errors import DataError
from creditflow.train.cli import main
from creditflow.train.commands.demo import example_group
from creditflow.train.viewer import data as data_module
from creditflow.train.viewer.data import MAX_TEXT, layered_layout, render_page, view_data
from creditflow.wrappers import StateGraph, credit
from creditflow.wrappers.credit.properties import sample_group
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
    for name, of_scheme in zip(data["schemes"], shown["credit"], strict=True):
        advantages = schemes[name].assign(group).flat_advantages
        assert of_scheme["advantages"] == [float(f"{x:.5g}") for x in advantages]
    assert sorted(node[0] for node in shown["nodes"] if node[0] != "open") == ["failed", "goal"]


@pytest.mark.parametrize("name", credit.names())
def test_the_stored_terms_add_up_to_the_stored_advantage(name):
    scheme = credit.make(name)
    group = sample_group(scheme, np.random.default_rng(3))
    of_scheme = page_data(render_page(view_data([group], {name: scheme}, "t")))["groups"][0]["credit"][0]
    outcome = np.array(of_scheme["outcome"])[group.arrays.trajectory]
    total = outcome + sum(np.array(values) for _, values in of_scheme["terms"])
    assert total == pytest.approx(np.array(of_scheme["advantages"]), rel=1e-3, abs=1e-4)


def test_the_recommended_scheme_comes_first_and_the_others_keep_their_order(group):
    schemes = {name: credit.make(name) for name in ("grpo", "gigpo", "grouptd")}
    assert view_data([group], schemes, "t", recommended="grouptd")["schemes"] == ["grouptd", "grpo", "gigpo"]
    assert view_data([group], schemes, "t", recommended="graphgpo")["schemes"] == list(schemes)


def test_equal_texts_are_stored_once(group):
    many = Group(
        tuple(replace(t, turns=tuple(replace(u, observation="the same") for u in t.turns)) for t in group.trajectories)
    )
    data = view_data([many], {"grpo": credit.make("grpo")}, "title")
    assert data["texts"] == ["", "go", "the same"]


def test_reasoning_that_the_response_lacks_stands_before_it():
    turns = (
        Turn("a", "up", "b", thought="left is blocked", response="<think>left is blocked</think> up"),
        Turn("b", "up", "c", thought="again", response="up"),
    )
    group = Group((Trajectory("t", "g", "task", turns, False, 0.0, "failed", "c"),))
    texts = view_data([group], {}, "t")["texts"]
    assert "<think>left is blocked</think> up" in texts
    assert "<think>again</think>\nup" in texts


def test_twenty_groups_fit_into_four_megabytes():
    groups = []
    for number in range(20):
        members = example_group().trajectories
        numbered = [  # as 20 tasks of their own: no text of one group is one of another
            replace(one, group_id=f"g{number}", turns=tuple(replace(u, observation=f"{number} {u.observation}") for u in one.turns))
            for one in members
        ]  # fmt: skip
        groups.append(Group(tuple(numbered)))
    schemes = {name: credit.make(name) for name in ("grpo", "gigpo", "graphgpo", "rewardflow", "grouptd")}
    assert len(render_page(view_data(groups, schemes, "title"))) < 4 * 2**20


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_stands_out_from_every_ground(theme):
    """A contrast of at least 4.5 (WCAG 2.2, 1.4.3)."""
    style = (files("creditflow.assets") / "viewer" / "viewer.css").read_text(encoding="ascii")
    colours = dict(re.findall(r"--(\w+): (#\w{6})", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[theme]))
    pairs = [(text, ground) for text in ("ink", "soft", "good", "bad") for ground in ("paper", "band", "chosen")]
    for text, ground in [*pairs, ("ink", "found")]:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


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
    whole = Group((*group.trajectories, branch))
    (shown,) = view_data([whole], {}, "title")["groups"]
    keys = StateGraph.from_group(whole).keys
    across = {key: node[1] for key, node in zip(keys, shown["nodes"], strict=True)}
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


CHOSEN = (  # the rollout's number in its group and the turn's, from the parts of the page that show them
    "return [document.querySelector('#rollouts [aria-selected=true] span + span')?.textContent, "
    "document.querySelector('.turn[aria-current] header span').textContent, location.hash]"
)
SET = (
    "const box = document.getElementById('{}'); box.value = '{}'; box.dispatchEvent(new Event('{}')); "
    "return [...document.querySelectorAll('#rollouts span + span')].map((one) => one.textContent)"
)


def written(folder, groups, names=("grouptd", "grpo"), **options):
    page = folder / "view.html"
    schemes = {name: credit.make(name) for name in names}
    page.write_text(render_page(view_data(groups, schemes, "fine", **options)), encoding="ascii")
    return page


@pytest.mark.browser
def test_keys_select_turns_and_rollouts_and_the_address_names_the_place(group, tmp_path):
    page = written(tmp_path, [group])
    with driven(tmp_path) as browser:
        browser.do("POST", "/url", {"url": page.as_uri() + "#1.1.1"})
        browser.press("j", "Down", "j", "j")
        assert browser.run(CHOSEN) == ["1.1", "turn 3", "#1.1.3"]
        browser.press("Right")
        assert browser.run(CHOSEN) == ["1.2", "turn 1", "#1.2.1"]
        browser.press("k", "Left", "Left")
        assert browser.run(CHOSEN) == ["1.1", "turn 1", "#1.1.1"]
        browser.run("location.hash = '#1.3.2'")
        assert browser.run(CHOSEN) == ["1.3", "turn 2", "#1.3.2"]


@pytest.mark.browser
def test_a_click_on_a_state_selects_a_turn_that_begins_there_and_zooming_keeps_it(group, tmp_path):
    page = written(tmp_path, [group])
    keys = list(StateGraph.from_group(group).keys)
    click = "document.querySelector('[data-node=\"{}\"]').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    with driven(tmp_path) as browser:
        browser.do("POST", "/url", {"url": page.as_uri() + "#1.1.1"})
        browser.press("g")
        browser.run(click.format(keys.index("c")))
        assert browser.run(CHOSEN)[2] == "#1.1.3"
        whole = browser.run("return document.getElementById('graph').getAttribute('viewBox')")
        browser.run("document.querySelector('[data-zoom=\"0.7\"]').click()")
        assert browser.run("return document.getElementById('graph').getAttribute('viewBox')") != whole
        browser.run(click.format(keys.index("e")))
        assert browser.run(CHOSEN)[2] == "#1.3.2"  # the others do not leave it
        browser.run("document.querySelector('[data-zoom=\"0\"]').click()")
        assert browser.run("return document.getElementById('graph').getAttribute('viewBox')") == whole


@pytest.mark.browser
def test_rollouts_are_sorted_filtered_and_searched(tmp_path):
    long = rollout("long", "abababa", "failed", observation="a needle, here")
    group = Group((rollout("won", "abcd", "success"), long, rollout("short", "ae", "failed")))
    other = Group((rollout("x", "pq", "success"), rollout("y", "pr", "failed", action="Needle")))
    page = written(tmp_path, [group, other])
    with driven(tmp_path) as browser:
        browser.open(page)
        assert browser.run(SET.format("sort", "length", "change"))[:2] == ["1.2", "1.1"]
        assert browser.run(SET.format("sort", "return", "change"))[-2:] == ["1.1", "2.1"]
        assert browser.run(SET.format("sort", "log", "change")) == ["1.1", "1.2", "1.3", "2.1", "2.2"]
        assert browser.run(SET.format("outcome", "won", "change")) == ["1.1", "2.1"]
        browser.run(SET.format("outcome", "", "change"))
        assert browser.run(SET.format("search", "nEEdle", "input")) == ["1.2", "2.2"]
        assert browser.run(SET.format("group", "1", "change")) == ["2.2"]
        browser.press("Right")
        assert browser.run(CHOSEN)[2] == "#2.2.1"  # among those that are listed
        assert browser.run("return document.querySelector('#talk mark').textContent") == "Needle"


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 0])
def test_the_page_is_as_wide_as_the_screen_and_the_recommended_scheme_is_on_it(group, tmp_path, width):
    page = written(tmp_path, [group], ("grpo", "gigpo", "graphgpo", "rewardflow", "grouptd"), recommended="grouptd")
    with driven(tmp_path, width=width) as browser:
        browser.open(page)
        inside, screen = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert inside <= screen
        assert browser.run("return document.querySelector('#scheme').selectedOptions[0].textContent") == (
            "grouptd (recommended)"
        )
        for part in ("scheme", "number", "why"):
            place = browser.run(
                f"const r = document.getElementById('{part}').getBoundingClientRect(); return [r.top, r.bottom]"
            )
            assert 0 <= place[0] <= place[1] <= browser.run("return window.innerHeight"), part


@pytest.mark.browser
def test_two_sentences_explain_a_number_by_what_the_scheme_computed(tmp_path):
    group, names = example_group(), ("gigpo", "grpo", "grouptd")
    page = written(tmp_path, [group], names)
    with driven(tmp_path) as browser:
        browser.do("POST", "/url", {"url": page.as_uri() + "#1.2.1"})
        for number, name in enumerate(names):
            browser.run(f"document.querySelectorAll('#compare button')[{number}].click()")
            for turn in range(len(group.trajectories[1].turns)):
                browser.run(f"document.querySelectorAll('.turn')[{turn}].click()")
                assert browser.run(CHOSEN)[2] == f"#1.2.{turn + 1}"
                sentences = browser.run("return document.getElementById('why').textContent")
                why = credit.explain(group, name, 1, turn)
                for term in why.terms:
                    named = "the outcome of the rollout" if term.name == "outcome advantage" else term.name
                    shown = f"{term.value:+.2f} from {named}".replace("-", "\u2212")
                    assert (shown in sentences) == (term.value != 0), (shown, sentences)
                for compared in why.comparisons[-1:]:
                    size = len(compared.samples)
                    mean = f"{compared.mean:.3g}, the mean of {size} {'rollouts' if name == 'grpo' else 'turns'}."
                    assert f"Its {compared.quantity}, {compared.value:.3g}, is " in sentences
                    assert (mean if size > 1 else "is the only one") in sentences


CALLS: tuple[tuple[str, str, list[str]], ...] = (  # what the model wrote, the action, and name and arguments as shown; none where the text stays as it is
    ('<think>why</think><tool_call>{"name": "buy", "arguments": {"id": "B<7>"}}</tool_call>', "x", ["buy", "id", "B<7>"]),
    ('Let me look.\nopen({"id": 3, "all": true})', 'open({"id": 3, "all": true})', ["open", "id", "3", "all", "true"]),
    ("", '{"function": {"name": "go", "arguments": "{\\"to\\": \\"x\\"}"}}', ["go", "to", "x"]),
    ("", "click[Buy Now]", ["click: Buy Now"]),
    ("", '{"name": 3}', []),
    ("", "go({not json})", []),
)  # fmt: skip


@pytest.mark.browser
def test_calls_of_tools_are_shown_as_name_and_arguments(tmp_path):
    turns = tuple(Turn("a", action, "a", response=response) for response, action, _ in CALLS)
    page = written(tmp_path, [Group((Trajectory("t", "g", "x", turns, False, 0.0, "failed", "a"),))])
    with driven(tmp_path) as browser:
        browser.open(page)
        shown = browser.run(
            "return [...document.querySelectorAll('.agent')].map((one) => "
            "[one.textContent, [...one.querySelectorAll('.call > *')].map((part) => part.textContent)])"
        )
        for (text, parts), (_, action, call) in zip(shown, CALLS, strict=True):
            assert parts == call
            assert call or action in text


def test_the_command_begins_with_the_scheme_that_the_audit_recommends_or_with_the_first_that_is_named(tmp_path):
    log, out = tmp_path / "log.jsonl", tmp_path / "view.html"
    write_jsonl(log, [example_group()])
    alone = tmp_path / "alone.jsonl"  # a rollout by itself can be compared with nothing
    write_jsonl(alone, [Group(example_group().trajectories[:1])])
    for command, first, recommended in (
        (["view", str(log)], "grouptd", "grouptd"),
        (["view", str(log), "--schemes", "gigpo,grouptd"], "gigpo", ""),
        (["view", str(alone)], "grpo", ""),
    ):
        assert main([*command, "--out", str(out), "--force"]) == 0
        data = page_data(out.read_text(encoding="ascii"))
        assert (data["schemes"][0], data["recommended"]) == (first, recommended)


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


@pytest.mark.browser
def test_the_page_opens_at_the_worst_turn_of_a_failed_rollout_beside_a_success(tmp_path):
    alike = Group((rollout("a", "ab", "success"), rollout("b", "ab", "success")))
    told_apart = Group((rollout("c", "abcd", "success"), rollout("d", "abe", "failed")))
    with driven(tmp_path) as browser:
        browser.open(written(tmp_path, [alike, told_apart]))
        assert browser.run(CHOSEN) == ["2.2", "turn 2", "#2.2.2"]

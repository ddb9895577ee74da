"""What the viewer shows instead of raw text: it never raises and loses no text."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import creditflow
from creditflow.envs.webshop import WebShopEnv
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.train.viewer.scenes.group import (
    alfworld_scene,
    environment_of,
    scene_maker,
    search_names,
    search_scene,
    webshop_scene,
)
from creditflow.train.viewer.scenes.lines import KINDS, MARKS, MAX_SCENE, Span, marked
from creditflow.wrappers import Group, Trajectory, Turn

HOSTILE = "</script><img src=x onerror=\"document.title='pwned'\"><![x[ [button] [SEP] {\u2028"
PIECES = st.sampled_from(
    [" [SEP] ", "[button] ", " [button_]", "Instruction:", "\n", "C0A2B80Z2X", "$3.50", "{", "[1] A: ", "<information>", "cabinet 3", "<![", "&#", "Buy Now",
     "<!DOCTYPE html>", "Your task is to: ", HOSTILE, '{"options": [1], "products": [1, {"asin": 2}], "clickables": 3}']
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=12), max_size=12).map("".join)


def words(scene):
    return re.sub(r"\s+", "", "".join(span.text for line in scene for span in line.spans))


@settings(deadline=None, max_examples=150)
@given(TEXTS, TEXTS)
@example("<!DOCTYPE html><![x[", "click[a]")
@example('{"options": {"a": null}}', "click[")
def test_any_text_has_a_scene_or_none(observation, action):
    scenes = (
        webshop_scene(observation, action, ["x"]),
        alfworld_scene(observation, action),
        search_scene(observation, {action: "answer"}, (action,)),
    )
    for scene in scenes:
        for line in scene:
            assert line.kind in KINDS
            assert all(span.mark in MARKS for span in line.spans)


@settings(deadline=None)
@given(TEXTS, st.dictionaries(st.text(max_size=8), st.just("answer"), max_size=5))
def test_marking_changes_no_text(text, names):
    assert "".join(span.text for span in marked(text, names)) == text


@settings(deadline=None)
@given(TEXTS)
def test_scenes_of_sentences_have_all_their_words(text):
    plain = "\n".join(line for line in text.split("\n") if not line.startswith("-= "))
    assert words(alfworld_scene(text, "go to cabinet 3")) == re.sub(r"\s+", "", plain)


def test_names_are_marked_as_whole_words_and_the_longest_wins():
    spans = list(marked("Ada Bell, ADA and Adam", {"Ada": "entity0", "Ada Bell": "answer"}))
    assert [(span.mark, span.text) for span in spans if span.mark] == [("answer", "Ada Bell"), ("entity0", "ADA")]


@pytest.mark.parametrize("name", ["Straße", "İzmir", "ﬁne", "Ǆ"])
def test_a_name_whose_folded_form_has_other_letters_is_marked(name):
    assert Span("answer", name) in list(marked(f"To {name}, and back.", {name: "answer"}))


@pytest.mark.parametrize("obs_mode", ["text", "text_rich", "json", "html"])
def test_pages_of_webshop_show_instruction_products_prices_and_the_click(obs_mode):
    env = WebShopEnv(obs_mode=obs_mode)
    page, info = env.reset(seed=0)
    for step in range(4):
        action = env.oracle.optimal_actions(env.get_state())[0]
        scene = webshop_scene(page, action)
        spans = [span for line in scene for span in line.spans]
        (head,) = [line for line in scene if line.kind == "head"]
        assert env.task.content["instruction"] in head.spans[0].text
        if action.startswith("click") and obs_mode != "html":
            assert action.removeprefix("click[").removesuffix("]") in [
                s.text.casefold() for s in spans if s.mark == "picked"
            ]
        if step == 1:
            assert len([line for line in scene if line.kind == "item"]) == 10
            assert len([span for span in spans if span.mark == "price"]) == 10
        page, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break
    assert info["elapsed_steps"] > 2


def test_a_plain_page_loses_no_text():
    env = WebShopEnv()
    page, _ = env.reset(seed=0)
    for _ in range(3):
        action = env.oracle.optimal_actions(env.get_state())[0]
        parts = [part for part in page.split(" [SEP] ") if part != "Instruction:"]
        shown = [span.text for line in webshop_scene(page, action) for span in line.spans]
        assert shown == parts
        page = env.step(action)[0]


def test_entities_answers_and_found_names_have_marks():
    task = {"entities": [{"name": "Ada", "aliases": ["A."]}, "Bell"], "answers": ["Bell", 3]}
    assert search_names(task, ["Cyd"]) == {"Ada": "entity0", "A.": "entity0", "Bell": "answer", "Cyd": "entity3"}
    for junk in (
        {},
        {"entities": 3, "answers": {}},
        {"entities": [None, {"name": 7, "aliases": "x"}], "answers": "no"},
    ):
        assert search_names(junk) == {}


def test_long_observations_stay_plain_text():
    turn = Turn("a", "look", "b", observation="cabinet 3 " * MAX_SCENE)
    group = Group((Trajectory("t", "g", "alfworld1:x", (turn,), False, 0.0, "env_limit", "b"),))
    assert scene_maker(group)(turn) == ()
    assert environment_of("no id") == ""


@pytest.mark.parametrize("dialect", ["tool_call", "browse"])
def test_results_and_pages_of_tool_calls_have_headings_and_items(dialect):
    env = creditflow.make("wikisearch", world={"articles": 300, "questions": 4, "seed": 3}, dialect=dialect).unwrapped
    assert isinstance(env, WikiSearchEnv)
    env.reset(seed=0)
    found = env.step(env.dialect.write(Call("search", ("town", "river"))))[0]
    opened = env.step(env.dialect.write(Call("visit", (next(iter(env.episode.pages)),))))[0]
    for text, heads in ((found, 2), (opened, 1)):
        kinds = [line.kind for line in search_scene(text, {}, ())]
        assert kinds.count("head") == heads
        assert kinds.count("item") >= 2 * heads - 1

"""Malformed and hostile game files: each is rejected with its name, what was expected, and how to fix it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.shared_data import shared_file

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.content import validate_content
from creditflow.envs.alfworld.game_files.reading import content_from_fields, content_from_file, fields_from_file
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.alfworld.pddl import MAX_DEPTH, read_sexpr
from creditflow.envs.errors import DataError

REAL = shared_file("data/alfworld/json_2.1.1/valid_seen/pick_and_place_simple-Vase-None-CoffeeTable-207/*/game.tw-pddl")


def fields(**changes: Any) -> dict[str, Any]:
    return {**fields_from_file(REAL), **changes}


def edited(name: str, old: str, new: str) -> dict[str, Any]:
    text = fields()[name]
    assert old in text
    return fields(**{name: text.replace(old, new, 1)})


# -- one file --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a JSON game file"),
        (b"\xff\xfe", "not a JSON game file"),
        (b"[" * 100_000, "not a JSON game file"),
        (b"[]", "one JSON object"),
        (b"{}", "'pddl_domain' is missing"),
        (b'{"pddl_domain": 5}', "'pddl_domain' is missing"),
        (b'{"pddl_domain": "", "grammar": ""}', "'pddl_problem' is missing"),
        (b'{"pddl_domain": "", "grammar": "", "pddl_problem": ""}', "pddl_domain"),
        (b" " * 8_000_001, "at most"),
    ],
)
def test_a_broken_file_is_named_with_what_was_expected(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        content_from_file(path)
    assert str(path) in str(caught.value)
    assert "alfworld" in str(caught.value).lower()


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DataError, match=r"nowhere\.tw-pddl.*alfworld-download"):
        ALFWorldEnv(game="nowhere.tw-pddl")


def test_a_file_that_declares_its_game_unsolvable_is_rejected() -> None:
    with pytest.raises(DataError, match="unsolvable"):
        ALFWorldEnv(game=fields(solvable=False))


def test_older_files_without_solution_and_flag_are_accepted() -> None:
    old = {name: text for name, text in fields().items() if name not in ("solvable", "walkthrough")}
    assert ALFWorldEnv(game=old).reset()[1]["task_id"] == ALFWorldEnv(game=str(REAL)).reset()[1]["task_id"]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("pddl_problem", "(:init", "(:init (isPainted vase_1)", "unknown predicate 'ispainted'"),
        ("pddl_problem", "(:init", "(:init (openable nothing_1)", "undeclared"),
        ("pddl_problem", "(:init", "(:init (openable agent1)", "expected"),
        ("pddl_problem", "(:init", "(:init openable", "must be flat"),
        ("pddl_problem", "(:init", "(:start", "no section"),
        ("pddl_problem", "(:goal", "(:gaol", "no section"),
        ("pddl_problem", "agent1 - agent", "agent1 - ", "declared|type"),
        ("pddl_problem", "(:domain alfred)", "(:domain blocks)", "expected alfred"),
        ("pddl_problem", "(exists", "(forall", "none of ALFWorld's six"),
        ("pddl_problem", "(inReceptacle ?o ?r)", "(or (inReceptacle ?o ?r))", "none of ALFWorld's six"),
        ("pddl_domain", "(not (holdsAny ?a))", "(holdsAny ?a)", "changed actions: .'pickupobject'"),
        ("pddl_domain", "(:action look", "(:action gaze", "missing actions: .'look'"),
        ("grammar", "You open the {r.name}. #examineReceptacle.feedback#", "You open it. #other#", "version"),
        ("grammar", "take {o} from {r}", "grab {o} from {r}", "command of action 'pickupobject'"),
        ("grammar", '"task"', '"mission"', "no rule"),
        ("grammar", "Your task is to: ", "Do this: ", "task sentence"),
        ("grammar", '"list_separator"', '"list_comma"', "'list_separator' is missing"),
        ("grammar", "ishot(o:object) & issliced(o:object)", "ishot(o:object)", "conditions"),
    ],
)
def test_a_file_with_changed_rules_is_rejected(name: str, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        content_from_fields(edited(name, old, new), "game")


def test_a_file_with_changed_wording_keeps_that_wording() -> None:
    changed = edited("grammar", "You close the {r.name}.", "The {r.name} falls shut.")
    assert Game(content_from_fields(changed, "game")).dialect.closed == "The {r} falls shut."


def test_the_article_free_generation_of_files_is_understood() -> None:
    """The earliest games: no articles, "put … in/on …", and the list of what the agent is facing states whether it is open."""
    text = fields()["grammar"]
    for old, new in (
        ("You arrive at {r.name}.", "You arrive at {lend.name}."),
        ("move {o} to {r}", "put {o} in/on {r}"),
        ("o.indefinite + ' ' + ", ""),
        ("o2.indefinite + ' ' + ", ""),
        ("{o.indefinite} {o.name}", "{o.name}"),
        ("{r.indefinite} {r.name or r.id}", "{r.name or r.id}"),
        ("facing the [{r.name |", "facing [{#overview_with_state(r)# |"),
        ("The {r.name} is open. In it", "In {r.name}"),
        ("You open the {r.name}.", "You open {r.name}."),
    ):
        assert old in text
        text = text.replace(old, new)
    env = ALFWorldEnv(game=fields(grammar=text[: text.index("action help")]))
    env.reset()
    assert "help" not in env.step("look")[4]["admissible_actions"]
    assert env.step("go to tvstand 1")[0].endswith("you see keychain 1, television 1, and vase 1.")
    assert env.step("look")[0] == "You are facing shelf 2, and tvstand 1. Next to it, you see nothing."


# -- brackets --------------------------------------------------------------------------------------------------------
def test_nesting_is_limited_without_recursion() -> None:
    read_sexpr("(" * MAX_DEPTH + ")" * MAX_DEPTH, "text")
    for depth in (MAX_DEPTH + 1, 1_000_000):
        with pytest.raises(DataError, match="deeper than"):
            read_sexpr("(" * depth, "text")


@pytest.mark.parametrize(("text", "message"), [("(a", "missing"), ("a)", "too many"), ("a b", "one"), ("", "one")])
def test_unbalanced_brackets_are_rejected(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_sexpr(text, "text")


# -- contents --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 2, "format 2, expected 1"),
        ("sentence", 5, "'sentence'"),
        ("goal", ["win", "a", "b"], "'goal'"),
        ("agent", ["agent1", "loc_bar_00"], "'agent'"),
        ("agent", ["agent1", "loc_bar_00", "ghost_bar_1"], "not an object"),
        ("dialect", "klingon", "dialect"),
        ("dialect", {"put": "{o.__class__}"}, "dialect"),
        ("receptacles", [], "at least one"),
        ("receptacles", [["b", "x", "l", ""], ["a", "x", "l", ""]], "sorted"),
        ("receptacles", [["a", "x", "l", "ajar"]], "a receptacle is"),
        ("objects", [["o", "t", [], ["ghost"], [], []]], "does not have"),
        ("objects", [["o", "t", [], [], [], ["isblue"]]], "unknown properties"),
        ("objects", [["o", "t", ["b", "a"], [], [], []]], "sorted"),
        ("objects", [["o"]] * 3_000, "at most"),
        ("contain", {"a": ["z", "b"]}, "'contain'"),
    ],
)
def test_malformed_content_is_rejected(key: str, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ALFWorldEnv(game={**generate(1), key: value})


def test_templates_with_attribute_access_are_rejected() -> None:
    dialect = {**json.loads(json.dumps(_full_dialect())), "closed": "{r.__class__}"}
    with pytest.raises(DataError, match="placeholder"):
        validate_content({**generate(1), "dialect": dialect}, "game")


def _full_dialect() -> dict[str, Any]:
    changed = edited("grammar", "You close the {r.name}.", "Shut.")
    dialect: dict[str, Any] = content_from_fields(changed, "game")["dialect"]
    return dialect

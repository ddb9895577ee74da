"""Broken and hostile files: each is refused with its name, what was expected, and how to mend it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from helpers.shared_data import shared_file
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files import folder as folder_module
from creditflow.envs.alfworld.game_files.archive import iter_archive, unpack_archive
from creditflow.envs.alfworld.game_files.content import validate_content
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.reading import content_from_fields, content_from_file, fields_from_file
from creditflow.envs.alfworld.generator.houses import generate
from creditflow.envs.alfworld.pddl.reading import MAX_DEPTH, read_sexpr
from creditflow.envs.errors import ConfigError, DataError

REAL = shared_file("data/alfworld/json_2.1.1/valid_seen/pick_and_place_simple-Vase-None-CoffeeTable-207/*/game.tw-pddl")
SCENE = "valid_seen/pick_and_place_simple-Mug-None-Desk-1/trial_1/game.tw-pddl"


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


def test_a_file_that_says_it_is_unsolvable_is_not_played() -> None:
    with pytest.raises(DataError, match="cannot be solved"):
        ALFWorldEnv(game=fields(solvable=False))


def test_older_files_without_solution_and_flag_are_played() -> None:
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
def test_a_changed_file_is_refused_rather_than_played_wrongly(name: str, old: str, new: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        content_from_fields(edited(name, old, new), "game")


def test_changed_wording_alone_is_played_in_that_wording() -> None:
    changed = edited("grammar", "You close the {r.name}.", "The {r.name} falls shut.")
    assert Game(content_from_fields(changed, "game")).dialect.closed == "The {r} falls shut."


def test_the_article_free_generation_of_files_is_understood() -> None:
    """The earliest games: no articles, "put … in/on …", open or closed said when facing something."""
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
def test_nesting_is_capped_without_recursion() -> None:
    read_sexpr("(" * MAX_DEPTH + ")" * MAX_DEPTH, "text")
    for depth in (MAX_DEPTH + 1, 1_000_000):
        with pytest.raises(DataError, match="deeper than"):
            read_sexpr("(" * depth, "text")


@pytest.mark.parametrize(("text", "message"), [("(a", "missing"), ("a)", "too many"), ("a b", "one"), ("", "one")])
def test_unbalanced_brackets_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_sexpr(text, "text")


@given(st.text(alphabet="()ab; \n?-=", max_size=80))
def test_no_bracket_text_raises_anything_but_a_data_error(text: str) -> None:
    try:
        expr = read_sexpr(text, "text")
    except DataError:
        return
    assert isinstance(expr, list)


@given(position=st.integers(0, 40_000), junk=st.sampled_from(["", "(", ")", "-", "(and", "\x00", "é", ";"]))
def test_no_damaged_problem_raises_anything_but_a_data_error(position: int, junk: str) -> None:
    text = fields()["pddl_problem"]
    try:
        content_from_fields(fields(pddl_problem=text[:position] + junk + text[position + 3 :]), "game")
    except DataError as error:
        assert "game" in str(error)


# -- contents --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 2, "format 2, expected 1"),
        ("sentence", 5, "'sentence'"),
        ("goal", ["win", "a", "b"], "'goal'"),
        ("agent", ["agent1", "loc_bar_00"], "'agent'"),
        ("agent", ["agent1", "loc_bar_00", "ghost_bar_1"], "no object"),
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
def test_malformed_content_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ALFWorldEnv(game={**generate(1), key: value})


def test_templates_may_not_reach_into_objects() -> None:
    dialect = {**json.loads(json.dumps(_full_dialect())), "closed": "{r.__class__}"}
    with pytest.raises(DataError, match="placeholder"):
        validate_content({**generate(1), "dialect": dialect}, "game")


def _full_dialect() -> dict[str, Any]:
    changed = edited("grammar", "You close the {r.name}.", "Shut.")
    dialect: dict[str, Any] = content_from_fields(changed, "game")["dialect"]
    return dialect


# -- folders ---------------------------------------------------------------------------------------------------------
def test_a_folder_that_is_not_there_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(ConfigError, match=r"not a folder.*alfworld-download"):
        ALFWorldEnv(data_path="/no/such/folder")


@pytest.mark.parametrize("made", ["", "json_2.1.1", "json_2.1.1/train", "json_2.1.1/train/movable-x/trial"])
def test_an_empty_folder_is_refused_with_the_way_to_fill_it(tmp_path: Path, made: str) -> None:
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ConfigError, match="alfworld-download"):
        ALFWorldEnv(data_path=str(tmp_path))


def test_data_path_expands_variables_but_the_environment_is_never_read_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nothing"))
    ALFWorldEnv().reset(seed=0)
    with pytest.raises(ConfigError, match="nothing"):
        ALFWorldEnv(data_path="$ALFWORLD_DATA")


def test_absurdly_many_games_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_GAMES", 3)
    for number in range(5):
        trial = tmp_path / "train" / f"pick_and_place_simple-Mug-None-Desk-{number}" / "trial"
        trial.mkdir(parents=True)
        (trial / "game.tw-pddl").write_text("{}")
    with pytest.raises(DataError, match="more than 3 games"):
        ALFWorldEnv(data_path=str(tmp_path))


def test_unsupported_tasks_are_skipped_and_notes_name_the_type_of_oddly_named_folders(tmp_path: Path) -> None:
    for name in (
        "pick_and_place_with_movable_recep-A-B-C-1",
        "look_at_obj_in_light-AppleSliced-None-DeskLamp-1",
        "odd",
    ):
        trial = tmp_path / "train" / name / "trial"
        trial.mkdir(parents=True)
        (trial / "game.tw-pddl").write_text(json.dumps(game_fields(Game(generate(3)))))
        (trial / "traj_data.json").write_text(json.dumps({"task_type": "pick_two_obj_and_place"}))
    env = ALFWorldEnv(data_path=str(tmp_path), task_types=["pick_two_obj_and_place"])
    assert [path.parent.parent.name for path in env.tasks.paths] == ["odd"]  # type: ignore[attr-defined]  # a FolderTasks


def test_games_that_their_files_call_unsolvable_are_passed_over(tmp_path: Path) -> None:
    for number in range(4):
        trial = tmp_path / "train" / f"pick_and_place_simple-Mug-None-Desk-{number}" / "trial"
        trial.mkdir(parents=True)
        game = {**game_fields(Game(generate(number))), "solvable": number == 2}
        (trial / "game.tw-pddl").write_text(json.dumps(game))
    env = ALFWorldEnv(data_path=str(tmp_path))
    assert {env.reset(seed=seed)[1]["task_id"] for seed in range(8)} == set(env.tasks.task_ids())
    assert len(env.tasks.task_ids()) == 1


# -- archives --------------------------------------------------------------------------------------------------------
def archive_of(path: Path, *members: tuple[str, bytes, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, kind, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(data)
            info.linkname = "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            archive.addfile(info, io.BytesIO(data))
    return path


def test_only_regular_files_where_games_lie_leave_an_archive(tmp_path: Path) -> None:
    path = archive_of(
        tmp_path / "games.tar",
        (f"./json_2.1.1/{SCENE}", tarfile.REGTYPE, b"{}"),
        (f"../{SCENE}", tarfile.REGTYPE, b"evil"),
        (f"/{SCENE}", tarfile.REGTYPE, b"evil"),
        (f"x/../../{SCENE}", tarfile.REGTYPE, b"evil"),
        (SCENE.replace("trial_1", "trial_2"), tarfile.SYMTYPE, b""),
        (SCENE.replace("trial_1", "trial_3"), tarfile.LNKTYPE, b""),
        (SCENE.replace("trial_1", "trial_4"), tarfile.FIFOTYPE, b""),
        ("json_2.1.1/valid_seen/run.sh", tarfile.REGTYPE, b"evil"),
    )
    assert list(iter_archive(path)) == [(SCENE, b"{}")]
    out = tmp_path / "out"
    assert unpack_archive(path, out) == 1
    assert [p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()] == [f"json_2.1.1/{SCENE}"]


def test_an_archive_beyond_the_caps_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive_of(tmp_path / "games.tar", (SCENE, tarfile.REGTYPE, b"x" * 100))
    for cap, value in (("MAX_MEMBER_BYTES", 50), ("MAX_ARCHIVE_BYTES", 50), ("MAX_ARCHIVE_MEMBERS", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(f"creditflow.envs.reading.archives.{cap}", value)
            with pytest.raises(DataError, match=r"more than 50\b|more than 0 members"):
                list(iter_archive(path))


def test_what_is_no_archive_or_holds_no_game_is_refused(tmp_path: Path) -> None:
    (tmp_path / "junk.tar").write_bytes(b"junk" * 1_000)
    with pytest.raises(DataError, match="not a readable tar"):
        list(iter_archive(tmp_path / "junk.tar"))
    with pytest.raises(DataError, match="not a readable tar"):
        list(iter_archive(tmp_path / "nothing.tar"))
    with pytest.raises(DataError, match="holds no"):
        unpack_archive(archive_of(tmp_path / "empty.tar", ("readme", tarfile.REGTYPE, b"")), tmp_path / "out")

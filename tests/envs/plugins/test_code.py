"""Code by its place: what is named is imported, once, and every way in which that fails says so in one error."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.plugins import AGENT, ENVIRONMENT, SCHEME

from creditflow import credit
from creditflow.agents.registry import check_agent, load_agent, make_agent
from creditflow.envs.errors import ConfigError
from creditflow.envs.foreign.env import ForeignEnv
from creditflow.envs.plugins import load_code, names_code
from creditflow.envs.registration import env_id, load_environment, make
from creditflow.train.run.identity import versions

pytestmark = pytest.mark.usefixtures("forgotten")


def write(folder: Path, name: str, source: str) -> str:
    path = folder / name
    path.write_text(source, "utf-8")
    return str(path)


def test_a_scheme_an_agent_and_an_environment_are_known_by_their_names_once_loaded(tmp_path):
    before = versions()
    assert credit.load(write(tmp_path, "mine.py", SCHEME) + ":Mine") == "mine"
    assert asdict(credit.make("mine", weight=2.0)) == {"weight": 2.0}
    assert "mine" in credit.names(given=())
    assert "A_i = w (R_i - mean R)" in credit.describe("mine")
    assert load_agent(write(tmp_path, "nth.py", AGENT) + ":Nth:2") == "nth:2"
    assert make_agent("nth:3").number == 3  # type: ignore[attr-defined] # of the class in the file
    assert load_environment(write(tmp_path, "ladder.py", ENVIRONMENT) + ":Ladder") == "Ladder"
    assert isinstance(make("Ladder", success="positive_reward"), ForeignEnv)
    plugins = versions()["plugins"]
    assert sorted(plugins) == ["agent nth", "environment Ladder", "scheme mine"]
    assert all(digest.startswith("blake2b:") for digest in plugins.values())
    assert "plugins" not in before


def test_loading_the_same_content_again_changes_nothing_and_other_content_is_refused(tmp_path):
    spec = write(tmp_path, "mine.py", SCHEME) + ":Mine"
    credit.load(spec)
    kind = credit.registry.lookup("mine")
    assert credit.load(spec) == "mine"
    copy = write(tmp_path, "copy_of.py", SCHEME)
    assert credit.registry.lookup(spec) is kind
    with pytest.raises(ConfigError, match="a scheme named 'mine' exists already: creditflow_plugin_mine_"):
        credit.load(f"{copy}:Mine")
    write(tmp_path, "mine.py", SCHEME.replace("self.weight *", "self.weight + self.weight *"))
    with pytest.raises(ConfigError, match="exists already"):
        credit.load(spec)
    with pytest.raises(ConfigError, match="has changed since the command began"):
        credit.load(spec, digest="blake2b:0")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("1 / 0\n", r"cannot be loaded \(line 1\): ZeroDivisionError"),
        ("import sys\n\nsys.exit(3)\n", r"cannot be loaded \(line 3\): SystemExit: 3"),
        ("def f(:\n", r"cannot be loaded \(line 1\): SyntaxError"),
        ("import no_such_module_at_all\n", "ModuleNotFoundError"),
        ("\x00", "cannot be loaded"),
        ("raise KeyError('x')\n", "KeyError"),
        ("Mine = 3\n", "is not a credit scheme: expected a class derived from"),
        ("class Mine: pass\n", "is not a credit scheme"),
        ("from creditflow.wrappers.credit import Scheme\nclass Mine(Scheme):\n    name = 'mine'\n", "but it lacks assign"),
        ("mine = 3\n", "unknown name in .*did you mean 'mine'"),
        (SCHEME.replace('"mine"', '"grpo"'), r"a scheme named 'grpo' exists already: creditflow\.wrappers\.credit\.outcomes\.grpo\.GRPO"),
        (SCHEME.replace('"mine"', '"gigpo[fitted]"'), "one word of letters"),
        (SCHEME.replace('"mine"', '""'), "needs a class attribute name"),
        (SCHEME.replace("@dataclass(frozen=True, kw_only=True)", ""), "decorate the class with @dataclass"),
        (SCHEME.replace("weight: float = 1.0", "weight: float"), "needs a default"),
        (SCHEME.replace("properties", "presets = {'paper': {'wieght': 2}}; properties"), "unknown parameter in Mine.presets"),
    ],
)  # fmt: skip
def test_what_is_no_scheme_is_refused_in_one_error_and_leaves_nothing_behind(source, message, tmp_path):
    names = credit.names()
    spec = write(tmp_path, "bad.py", source) + ":Mine"
    with pytest.raises(ConfigError, match=message) as error:
        credit.load(spec)
    assert "bad.py" in str(error.value)
    assert credit.names() == names


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Nth = 3\n", "is not an agent"), ("class Nth: pass\n", "is not an agent"),
        (AGENT.replace('name = "nth"', 'name = "noisy"'), "exists already: creditflow's own agent 'noisy'"),
        (AGENT.replace('name = "nth"', 'name = "n th"'), "one word"),
        ("from functools import partial\nNth = partial(int)\n", "an agent needs a name: its attribute name, or that of the function"),
    ],
)  # fmt: skip
def test_what_is_no_agent_is_refused(source, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        load_agent(write(tmp_path, "bad.py", source) + ":Nth")


@pytest.mark.parametrize(
    ("source", "spec", "message"),
    [
        (
            "def __init__(self): pass",
            "Nth:3",
            "is made with the argument '3', which it does not take: too many positional",
        ),
        (
            "def __init__(self, a, b='1'): pass",
            "Nth",
            "is made with no argument, which it does not take: missing a required",
        ),
    ],
)
def test_an_agent_that_does_not_take_its_argument_is_wrong_use(source, spec, message, tmp_path):
    text = f"class Nth:\n    name = 'nth'\n    {source}\n    def act(self, views): return []\n"
    name = load_agent(f"{write(tmp_path, 'bad.py', text)}:{spec}")
    with pytest.raises(ConfigError, match=message):
        make_agent(name)


def test_a_function_that_makes_something_else_is_refused_when_it_is_called(tmp_path):
    name = load_agent(write(tmp_path, "bad.py", "def nothing(): return 3\n") + ":nothing")
    with pytest.raises(ConfigError, match="expected an object with act"):
        make_agent(name)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Ladder = 3\n", "is not an environment"),
        (ENVIRONMENT.replace("class Ladder", "class sokoban").replace("\nclass", "\nclass") + "\nLadder = sokoban\n", "named 'sokoban' exists already"),
    ],
)  # fmt: skip
def test_what_is_no_environment_is_refused(source, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        load_environment(write(tmp_path, "bad.py", source) + ":Ladder")


@pytest.mark.parametrize(
    "spec", ["", ":", "mine.py", "mine.py:", "mine.py:1", "grpo", "http://evil.org/x.py:Mine", "a b:C", "mine.py:A.b"]
)
def test_other_forms_are_refused(spec):
    with pytest.raises(ConfigError, match=r"expected path/to/file\.py:NAME"):
        load_code(spec)


def test_missing_files_and_modules_are_named(tmp_path):
    for spec, message in (
        ("nowhere/at/all.py:Mine", "cannot be read: No such file"),
        (f"{tmp_path}/folder.py:Mine", "cannot be read"),
        (
            "no_such.module:Mine",
            "there is no module 'no_such'; install its package, or pass its file: path/to/file.py:NAME",
        ),
        ("creditflow.no_such:Mine", "there is no module 'creditflow.no_such'"),
        ("creditflow.wrappers.credit:Schem", "did you mean 'Scheme'"),
    ):
        (tmp_path / "folder.py").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match=message):
            load_code(spec)


def test_looking_a_name_up_never_runs_code(tmp_path):
    spec = write(tmp_path, "trap.py", f"open({str(tmp_path / 'ran')!r}, 'w').close()\n" + SCHEME) + ":Mine"
    for look in (credit.make, credit.describe, check_agent, make_agent, env_id, make):
        with pytest.raises(ConfigError, match="is code, which runs only if you load it yourself"):
            look(spec)
    assert not (tmp_path / "ran").exists()
    assert names_code(spec)
    assert not any(
        map(
            names_code,
            ("noisy:0.3", "hf:runs/model", "openai:http://host.py:8000/v1#m", "react:hf:x", "minigrid:Empty-v0"),
        )
    )

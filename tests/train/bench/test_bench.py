"""The benchmark end to end at smoke size: what it writes, prints, resumes and rejects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.shared_data import shared_file
from helpers.toy_text import CLIFF, TAXI

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.tasks import parse_panel_spec
from creditflow.train.bench.document import read_results, write_results
from creditflow.train.bench.presets import PRESETS
from creditflow.train.bench.report.page import document_text
from creditflow.train.bench.report.tables import suite_tables
from creditflow.train.bench.suites import open_suite
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups

SMOKE = ["bench", "--preset", "smoke", "--workers", "1", "--seed", "5"]
CONTROLS = {
    "oracle_adv",
    "stateless",
    "shuffled(oracle_adv)",
    "flipped(oracle_adv)",
    "shuffled(graphgpo)",
    "shuffled(grouptd)",
    "flipped(grouptd)",
}
WITHOUT_CURVES = {"shuffled(graphgpo)", "shuffled(grouptd)", "flipped(grouptd)"}


def test_results_have_a_version_and_their_provenance(document):
    assert document["results_version"] == 4
    assert {"command", "commit", "python", "numpy", "machine", "seed", "preset", "seconds"} <= set(
        document["provenance"]
    )
    assert [suite["name"] for suite in document["suites"]] == ["shared"]


def test_every_table_has_every_scheme_and_every_control(document):
    for suite in document["suites"]:
        tables = suite_tables(suite)
        assert len(tables) == 2
        for table in tables:
            left_out = WITHOUT_CURVES if table.title == "Learning" else set()
            assert {row[0] for row in table.rows[1:]} == (CONTROLS | {"grpo", "graphgpo", "grouptd"}) - left_out
            assert table.controls == 3


def test_a_control_that_equals_its_scheme_is_undefined_with_the_reason(document):
    for suite in document["suites"]:
        assert "equal to the scheme" in suite["undefined"]["shuffled(grpo)"]


def test_a_complete_run_leaves_no_unfinished_jobs(out):
    assert not (out / "unfinished").exists()
    assert not list(out.rglob("*.tmp"))


def test_a_second_run_with_several_workers_gives_the_same_numbers(document, tmp_path):
    command = [*SMOKE, "--envs", "shared", "--schemes", "grpo,graphgpo,grouptd", "--out", str(tmp_path)]
    assert main([*command, "--workers", "2"]) == 0
    assert read_results(tmp_path / "results.json")["suites"][0] == document["suites"][0]


def test_a_stored_run_is_shown_as_it_was(out, document, tmp_path, capsys):
    assert main(["bench", "--show", str(out / "results.json")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(document_text(document) + "\n\nWhat won: ")
    assert [line.partition(":")[0] for line in printed.splitlines()[-2:]] == ["What won", "How sure"]
    write_results(document, tmp_path / "packed.json.gz")
    assert main(["bench", "--show", str(tmp_path / "packed.json.gz"), "--out", str(tmp_path / "page")]) == 0
    assert (tmp_path / "page" / "report.html").read_bytes() == (out / "report.html").read_bytes()


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"results_version": 1}', '{"results_version": 3}', '{"results_version": 4, "suites": [{}]}']
)
def test_a_file_without_results_is_rejected(text, tmp_path, capsys):
    path = tmp_path / "results.json"
    path.write_text(text)
    assert main(["bench", "--show", str(path)]) == 3
    assert "results.json" in capsys.readouterr().err


def test_a_played_suite_gives_the_reason_why_exact_metrics_are_missing(tmp_path, capsys):
    command = [*SMOKE, "--envs", "webshop", "--schemes", "grpo,grouptd", "--out", str(tmp_path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "exact values are not defined here" in shown
    assert len(read_groups(tmp_path / "rollouts-webshop.jsonl.gz")) == PRESETS["smoke"].played.tasks
    (suite,) = read_results(tmp_path / "results.json")["suites"]
    assert list(suite["rows"]) == [
        "grpo", "grouptd", "stateless", "shuffled(grouptd)", "flipped(grouptd)",
    ]  # fmt: skip
    assert "oracle_adv" in suite["undefined"]
    assert len({row["first"] for row in suite["rows"].values()}) == 1
    work = PRESETS["smoke"].played
    assert {np.shape(row["area_by_seed"]) for row in suite["rows"].values()} == {(work.seeds, work.tasks)}
    for row in suite["rows"].values():
        assert row["area"][0] == pytest.approx(np.mean(row["area_by_seed"]), abs=1e-6)


def test_levels_of_a_users_file_are_played(tmp_path):
    levels = tmp_path / "own#1.xsb"  # a name with the sign that leads a panel
    rows = ("#@ $ .#", "#@  $.#", "# @ $.#", "#@ $. #", "# @$ .#")
    levels.write_text("\n\n".join(f"; {i}\n#######\n{row}\n#     #\n#######" for i, row in enumerate(rows)) + "\n")
    suite = open_suite(f"sokoban@{levels}", PRESETS["smoke"])
    assert suite.env is not None
    assert len(suite.env.tasks) == PRESETS["smoke"].played.tasks


def test_a_suite_plays_the_files_that_a_panel_lists(tmp_path):
    folder = shared_file("data/alfworld/json_2.1.1").parent
    with pytest.raises(DataError, match="does not exist"):
        open_suite(f"alfworld@{tmp_path}/none#released-v2:valid_unseen", PRESETS["smoke"])
    with pytest.raises(ConfigError, match="need no files"):
        open_suite(f"sokoban@{tmp_path}#small-v1:test", PRESETS["smoke"])
    with pytest.raises(DataError, match="No such file"):  # one of the first games is not in this part of the release
        open_suite(f"alfworld@{folder}#released-v2:valid_unseen", PRESETS["smoke"])
    shop = shared_file("data/webshop")
    suite = open_suite(f"webshop@{shop}#small-human-v1:test", PRESETS["smoke"])
    listed = [row.task_id for row in parse_panel_spec("webshop", "small-human-v1:test")]
    assert suite.env is not None
    assert (suite.name, suite.env.settings["panel"]) == (
        "webshop@data/webshop#small-human-v1:test",
        "small-human-v1:test",
    )
    assert [task.task_id for task in suite.env.tasks] == [listed[0], listed[3], listed[6]]


def test_the_tasks_of_a_suite_are_at_even_intervals_of_the_panel():
    suite_env = open_suite("webshop", PRESETS["quick"]).env
    assert suite_env is not None
    listed = [row.task_id for row in parse_panel_spec("webshop", "standard-v1:train")]
    wanted = PRESETS["quick"].played.tasks
    assert [task.task_id for task in suite_env.tasks] == [listed[i * len(listed) // wanted] for i in range(wanted)]


def test_a_truncated_results_file_is_rejected(tmp_path):
    path = tmp_path / "results.json.gz"
    path.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(DataError, match="does not contain the results"):
        read_results(path)


def test_quick_compares_every_registered_scheme_and_full_gives_them_annotations():
    from creditflow.train.bench.methods import default_schemes, with_annotation_sources

    assert set(default_schemes(False)) == set(credit.names())
    annotated = {with_annotation_sources([name])[0] for name in credit.names()}
    assert set(default_schemes(True)) == annotated


def test_results_contain_neither_nan_nor_infinity(out):
    json.loads((out / "results.json").read_text(), parse_constant=lambda name: pytest.fail(name))


PLAIN = """
import gymnasium as gym
from gymnasium import spaces


class Line(gym.Env):
    action_space, observation_space = spaces.Discrete(2), spaces.Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 1
        return self.x, {}

    def step(self, action):
        self.x = max(0, min(5, self.x + (1 if action else -1)))
        return self.x, float(self.x == 5), self.x == 5, False, {}
"""


STRANGERS = Path(__file__).parents[2] / "helpers/strangers.py"


@pytest.mark.parametrize(
    "name",
    ["line.py:Line", "FrozenLake-v1", "CartPole-v1", f"{STRANGERS}:Guess", f"{STRANGERS}:GuessOn"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in (CLIFF, TAXI)],
)
@pytest.mark.filterwarnings("ignore:.*names no limit")
def test_any_gymnasium_environment_is_a_suite(name, forgotten, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("line.py").write_text(PLAIN)
    options = ["--schemes", "grpo,gigpo", "--workers", "1", "--out", "out"]
    assert main(["bench", "--preset", "smoke", "--envs", name, *options]) == 0
    [suite] = json.loads(Path("out/results.json").read_text())["suites"]
    assert set(suite["rows"]) >= {"grpo", "gigpo"} and suite["expert"] is None

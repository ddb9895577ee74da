"""``creditflow analyse``, and the logs it is for: WikiSearch rollouts, imported trajectories, other environments."""

from __future__ import annotations

import json

import pytest

from creditflow.train.cli import main
from creditflow.train.commands.analyse import ANALYSES
from creditflow.wrappers.records.jsonl import read_groups

WORLD = ["--env-set", 'world={"articles":400,"questions":6,"seed":3}']


@pytest.fixture(scope="module")
def search_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "search.jsonl"
    command = ["rollout", "--env", "wikisearch", *WORLD, "--agent", "noisy:0.4", "--group-size", "6", "--oracle"]
    assert main([*command, "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def sokoban_log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "sokoban.jsonl"
    assert main(["rollout", "--agent", "noisy:0.4", "--limit", "2", "--group-size", "4", "--out", str(path)]) == 0
    return path


# a scripted expert writes no thoughts, in which alone an entity can be cited
DEFINED = [name for name in ANALYSES if name != "uncited"]


def test_the_analyses_print_on_wikisearch_rollouts(search_log, capsys):
    assert main(["analyse", str(search_log)]) == 0
    shown = capsys.readouterr().out
    for name in DEFINED:
        assert f"\n{name}: " in shown
    assert shown.count("not applicable") == shown.count("uncited: not applicable to this log: needs thoughts") == 1


def test_the_numbers_come_as_json_too(search_log, capsys):
    assert main(["analyse", "--json", "--key", "text", "--match", "normalized", str(search_log)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["analyses"]) == DEFINED
    assert list(found["not_defined"]) == ["uncited"]
    assert found["log"]["rollouts"] == 36
    assert found["analyses"]["graphgpo"]["key"] == "text"
    assert found["analyses"]["graphgpo"]["oracle"]["all"]["turns"] > 0
    # a noisy expert answers correctly only once it has seen all the evidence
    steps = found["analyses"]["gdcr"]["by_step"]
    assert steps[0]["correct"]["best"] < steps[0]["incorrect"]["best"]


def test_each_analysis_is_drawn(search_log, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")
    assert main(["analyse", "--plot", str(tmp_path / "plots"), str(search_log)]) == 0
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == sorted(f"{name}.png" for name in DEFINED)
    assert capsys.readouterr().err.count(".png") == len(DEFINED)


def test_other_environments_have_graphs_but_no_entities_which_is_reported(sokoban_log, capsys):
    assert main(["analyse", str(sokoban_log)]) == 0
    shown = capsys.readouterr().out
    assert "gdcr: not applicable to this log: needs an entity graph" in shown
    assert "egrpo: not applicable to this log: needs the question's entities" in shown
    assert "\ngraphgpo: fractions" in shown


def test_nothing_defined_is_missing_data(sokoban_log, capsys):
    assert main(["analyse", "--only", "gdcr", str(sokoban_log)]) == 3
    assert "none of gdcr is defined" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--only", "gdrc"], "did you mean 'gdcr'"), (["--only", "gdcr,gdcr"], "named twice")],
)
def test_wrong_names_are_explained(arguments, message, sokoban_log, capsys):
    assert main(["analyse", *arguments, str(sokoban_log)]) == 2
    assert message in capsys.readouterr().err


def test_imported_trajectories_are_analysed_like_any_log(tmp_path, capsys):
    template = (
        "<search>Nile</search>\n\n<information>Doc 1(Title: Nile) It is long.</information>\n\n<answer>%s</answer>"
    )
    rows = [
        {"question": "Longest river?", "answers": ["Nile"], "model": model, "response": template % answer}
        for model, answer in (("one", "Nile"), ("two", "Po"))
    ]
    source, log = tmp_path / "rows.json", tmp_path / "log.jsonl"
    source.write_text(json.dumps(rows))
    assert main(["data", "import", "searchr1", str(source), "--out", str(log)]) == 0
    assert "2 rollouts in 2 groups, 4 turns" in capsys.readouterr().out
    assert main(["analyse", "--group-by", "task", str(log)]) == 0
    assert "1 group, 2 rollouts, 4 turns" in capsys.readouterr().out


def test_rollouts_are_graded_and_scored_by_named_rewards(tmp_path, capsys):
    log, out = tmp_path / "log.jsonl", tmp_path / "credit.jsonl"
    command = [
        "rollout",
        "--env",
        "wikisearch",
        *WORLD,
        "--env-set",
        "dialect=search_r1",
        "--limit",
        "2",
        "--group-size",
        "3",
    ]
    assert main([*command, "--agent", "noisy:0.3", "--reward", "pica", "--reward", "egrpo", "--out", str(log)]) == 0
    assert "reward.pica" in capsys.readouterr().err
    members = [member for group in read_groups(log) for member in group.trajectories]
    assert all(
        member.values["reward.pica"] == (1.0 if member.success else member.values["reward.pica"]) for member in members
    )
    assert not any(member.values["reward.egrpo"] for member in members)  # another form
    assert main(["credit", "--scheme", "rloo", "--reward", "pica", str(log), "--out", str(out)]) == 0
    assert main(["credit", "--scheme", "rloo", "--reward", "picca", str(log)]) == 2
    assert "did you mean 'pica'" in capsys.readouterr().err


def test_wikisearch_logs_can_be_scored_by_stepsearch(search_log, tmp_path, capsys):
    assert main(["credit", "--scheme", "stepsearch", str(search_log), "--out", str(tmp_path / "c.jsonl")]) == 0
    assert "step credit on 0%" not in capsys.readouterr().err

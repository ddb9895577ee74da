"""A broken bench fails loudly: every rule, fed with figures that break it."""

from __future__ import annotations

import pytest

from creditflow.train.bench.report.sanity import BenchBrokenError, require_sane, sanity_rules
from creditflow.train.bench.run import write_results
from creditflow.train.cli import main


def spoil(document, column, metric, value):
    for suite in document["suites"]:
        for cell in suite["cells"]:
            cell["offline"][column][metric] = value


def test_a_working_bench_breaks_no_rule(document):
    rules = sanity_rules(document)
    assert all(rule.holds for rule in rules)
    assert {rule.suite for rule in rules} == {"grids", "sokoban"}
    require_sane(document)
    assert [rule._asdict() for rule in rules] == document["sanity"]


SPOILT = [
    ("grpo", "cos_batch", 0.999, "exact advantage has the best one-batch cosine"),
    ("flipped(oracle_adv)", "gain", 0.1, "flipped exact advantage makes the policy worse"),
    ("shuffled(oracle_adv)", "gain", 2.0, r"shuffled\(oracle_adv\) gains less than oracle_adv"),
    ("shuffled(grouptd)", "gain", 2.0, r"shuffled\(grouptd\) gains less than grouptd"),
]


@pytest.mark.parametrize(("column", "metric", "value", "message"), SPOILT)
def test_a_broken_control_is_named(document, column, metric, value, message):
    spoil(document, column, metric, value)
    with pytest.raises(BenchBrokenError, match=message):
        require_sane(document)


@pytest.mark.parametrize(("column", "metric", "value", "message"), SPOILT)
def test_the_command_fails_when_a_rule_breaks(document, column, metric, value, message, tmp_path, capsys):
    spoil(document, column, metric, value)
    write_results(document, tmp_path / "broken.json")
    assert main(["bench", "--show", str(tmp_path / "broken.json"), "--out", str(tmp_path / "page")]) == 1
    shown = capsys.readouterr()
    assert "the benchmark is broken" in shown.err
    assert "BROKEN" in shown.out
    assert "BROKEN" in (tmp_path / "page" / "report.html").read_text()


def test_a_single_cell_with_a_positive_flipped_control_is_enough(document):
    document["suites"][1]["cells"][0]["offline"]["flipped(oracle_adv)"]["gain"] = 0.001
    (broken,) = [rule for rule in sanity_rules(document) if not rule.holds]
    assert broken.suite == "sokoban"
    assert "sokoban-few" in broken.observed


def test_missing_controls_break_the_bench(document):
    for cell in document["suites"][0]["cells"]:
        del cell["offline"]["oracle_adv"]
    with pytest.raises(BenchBrokenError, match="controls were measured"):
        require_sane(document)


def test_curves_that_start_apart_break_the_bench(document):
    document["suites"][0]["cells"][0]["curves"]["grpo"]["points"][0] += 0.2
    with pytest.raises(BenchBrokenError, match="start at one success"):
        require_sane(document)


def test_a_run_that_turns_out_broken_fails_and_still_leaves_its_page(tmp_path, monkeypatch, capsys):
    from creditflow.train.bench import columns

    monkeypatch.setattr(columns, "flipped", lambda column: column)  # a flip that does not flip
    command = ["bench", "--preset", "smoke", "--envs", "grids", "--schemes", "grpo", "--workers", "1"]
    assert main([*command, "--out", str(tmp_path)]) == 1
    assert "flipped exact advantage" in capsys.readouterr().err
    assert "BROKEN" in (tmp_path / "report.html").read_text()


def played(**areas):
    def row(area):
        return {"first": 0.5, "area": [area, area - 0.05, area + 0.05], "gain": [area - 0.5, area - 0.55, area - 0.45], "curve": [0.5, area]}  # fmt: skip

    return {"suites": [{"name": "shop", "rows": {name: row(area) for name, area in areas.items()}}]}


def test_played_suites_have_rules_of_their_own():
    assert all(r.holds for r in sanity_rules(played(**{"x": 0.7, "shuffled(x)": 0.6, "flipped(x)": 0.2})))
    with pytest.raises(BenchBrokenError, match=r"flipped\(x\) learns less"):
        require_sane(played(**{"x": 0.5, "flipped(x)": 0.6}))
    with pytest.raises(BenchBrokenError, match=r"shuffled\(x\) does not learn clearly more"):
        require_sane(played(**{"x": 0.5, "shuffled(x)": 0.9}))
    require_sane(played(**{"x": 0.5, "shuffled(x)": 0.55}))  # ahead by chance


def test_where_nobody_learns_a_flip_changes_nothing():
    still = played(**{"x": 0.5, "flipped(x)": 0.5})
    require_sane(still)


def test_played_columns_that_start_apart_break_the_bench():
    one = played(x=0.7, y=0.7)
    one["suites"][0]["rows"]["y"]["first"] = 0.4
    with pytest.raises(BenchBrokenError, match="same rollouts"):
        require_sane(one)

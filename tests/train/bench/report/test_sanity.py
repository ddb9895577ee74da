"""A broken benchmark fails: every sanity check, on results that violate it."""

from __future__ import annotations

import pytest

from creditflow.train.bench.document import write_results
from creditflow.train.bench.report.sanity import BenchmarkBrokenError, require_sane, sanity_checks
from creditflow.train.cli import main


def overwrite(document, method, metric, value):
    for suite in document["suites"]:
        for study in suite["studies"]:
            values = study["endpoints"][metric]
            values[method] = [[value]] * len(values[method])


def test_a_working_benchmark_passes_every_check(document):
    checks = sanity_checks(document)
    assert all(check.passed for check in checks)
    assert {check.suite for check in checks} == {"shared"}
    require_sane(document)
    assert [check._asdict() for check in checks] == document["sanity"]


VIOLATIONS = [
    ("grpo", "cos_batch", 0.999, "exact advantage has the best one-batch cosine"),
    ("flipped(oracle_adv)", "gain", 0.1, "negated exact advantage makes the policy worse"),
    ("shuffled(oracle_adv)", "gain", 2.0, r"shuffled\(oracle_adv\) gains less by one step than oracle_adv"),
    ("shuffled(grouptd)", "gain", 100.0, r"shuffled\(grouptd\) does not gain clearly more by one step than grouptd"),
]


@pytest.mark.parametrize(("method", "metric", "value", "message"), VIOLATIONS)
def test_a_broken_control_is_named(document, method, metric, value, message):
    overwrite(document, method, metric, value)
    with pytest.raises(BenchmarkBrokenError, match=message):
        require_sane(document)


def test_the_command_fails_when_a_check_fails(document, tmp_path, capsys):
    overwrite(document, "grpo", "cos_batch", 0.999)
    write_results(document, tmp_path / "broken.json")
    assert main(["bench", "--show", str(tmp_path / "broken.json"), "--out", str(tmp_path / "page")]) == 1
    shown = capsys.readouterr()
    assert "sanity checks failed" in shown.err
    assert "FAILED" in shown.out
    assert "FAILED" in (tmp_path / "page" / "report.html").read_text()


def test_one_setting_with_a_positive_flipped_control_fails_the_check(document):
    document["suites"][0]["studies"][1]["endpoints"]["gain"]["flipped(oracle_adv)"] = [[0.001]] * 2
    (failed,) = [check for check in sanity_checks(document) if not check.passed]
    assert "fresh keys" in failed.observed


def test_missing_controls_fail_a_check(document):
    for study in document["suites"][0]["studies"]:
        del study["endpoints"]["gain"]["oracle_adv"]
    with pytest.raises(BenchmarkBrokenError, match="controls were measured"):
        require_sane(document)


def test_a_run_with_a_failed_check_still_writes_its_page(tmp_path, monkeypatch, capsys):
    from creditflow.train.bench import methods

    monkeypatch.setattr(methods, "flipped", lambda method: method)  # does not negate
    command = ["bench", "--preset", "smoke", "--envs", "shared", "--schemes", "grpo", "--workers", "1"]
    assert main([*command, "--out", str(tmp_path)]) == 1
    assert "negated exact advantage" in capsys.readouterr().err
    assert "FAILED" in (tmp_path / "report.html").read_text()


def played(**areas):
    def row(area):
        return {"first": 0.5, "area": [area, area - 0.05, area + 0.05], "gain": [area - 0.5, area - 0.55, area - 0.45], "curve": [0.5, area]}  # fmt: skip

    return {"suites": [{"name": "shop", "rows": {name: row(area) for name, area in areas.items()}}]}


def test_played_suites_have_checks_of_their_own():
    assert all(check.passed for check in sanity_checks(played(**{"x": 0.7, "shuffled(x)": 0.6, "flipped(x)": 0.2})))
    with pytest.raises(BenchmarkBrokenError, match=r"flipped\(x\) learns less"):
        require_sane(played(**{"x": 0.5, "flipped(x)": 0.6}))
    with pytest.raises(BenchmarkBrokenError, match=r"shuffled\(x\) does not learn clearly more"):
        require_sane(played(**{"x": 0.5, "shuffled(x)": 0.9}))
    require_sane(played(**{"x": 0.5, "shuffled(x)": 0.55}))  # ahead by chance


def test_negated_credit_may_equal_the_credit_where_nothing_is_learned():
    require_sane(played(**{"x": 0.5, "flipped(x)": 0.5}))


def test_played_methods_with_different_starts_fail_a_check():
    one = played(x=0.7, y=0.7)
    one["suites"][0]["rows"]["y"]["first"] = 0.4
    with pytest.raises(BenchmarkBrokenError, match="same rollouts"):
        require_sane(one)

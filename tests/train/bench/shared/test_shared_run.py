"""The suite end to end at smoke size: its report and its sanity checks."""

import pytest

from creditflow.train.bench.report.page import document_text, headline
from creditflow.train.bench.report.sanity import BenchmarkBrokenError, require_sane, sanity_checks
from creditflow.train.bench.report.verdicts import verdicts


def test_all_sanity_checks_pass(document):
    assert [check.check for check in sanity_checks(document) if not check.passed] == []


def test_the_report_states_the_suite_in_words(document, shared_out):
    text = document_text(document)
    assert "One policy over features of the state is shared by 16 training tasks" in text
    assert "shared policy" in text.partition("Which scheme when")[2]
    assert "than grpo" in headline(document).sentence
    assert "One step" in (shared_out / "report.html").read_text()
    assert len(verdicts(document)) == 2


def test_grpo_equal_to_rloo_breaks_the_benchmark(document):
    for study in document["suites"][0]["studies"]:
        study["endpoints"]["gain"]["rloo"] = study["endpoints"]["gain"]["grpo"]
    with pytest.raises(BenchmarkBrokenError, match="grpo and rloo differ"):
        require_sane(document)


def test_curves_that_start_apart_or_learn_from_negated_credit_break_the_benchmark(document):
    curves = document["suites"][0]["curves"][1]
    curves["grpo"][0][0] += 0.01
    with pytest.raises(BenchmarkBrokenError, match="start at the same success rate"):
        require_sane(document)
    curves["grpo"][0][0] -= 0.01
    curves["flipped(oracle_adv)"][0][-1] = 0.9
    with pytest.raises(BenchmarkBrokenError, match="lowers the success rate"):
        require_sane(document)

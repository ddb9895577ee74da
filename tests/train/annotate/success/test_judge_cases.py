"""The hand-made cases tell a judge that follows the rules from judges that do not."""

from __future__ import annotations

import json

import pytest
from helpers.scripted_pivot_judge import scripted_judge
from helpers.servers.replies import replying, serving

from creditflow.envs.errors import ServiceError
from creditflow.train.annotate.success.judge_cases import CASES, QUESTION, missed_cases
from creditflow.train.annotate.success.labelling import PivotJudge
from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.trajectory import Group, Trajectory, Turn


def test_there_is_a_case_for_every_rule():
    rules = {"omission", "deviation", "hallucination", "mismatch", "false positive", "conflict with the final answer"}
    assert rules < {case.rule for case in CASES}
    assert "a failed search that is recognised" in {case.rule for case in CASES}


def test_a_judge_that_follows_the_rules_passes_every_case():
    assert missed_cases(scripted_judge) == []


def all_alike(label):
    return lambda case: {"labels": [label] * len(case["steps"])}


def grader_of_results(case):
    """A judge that reads only the first 2,000 characters of results, as a grader of answers does."""
    golden = [step["answer"] for step in case["golden_sub_questions"]]
    labels = ["+" if any(answer in step["result"][:2000] for answer in golden) else "-" for step in case["steps"]]
    return {"labels": labels}


def without_thoughts(case):
    steps = [{**step, "thought": ""} for step in case["steps"]]
    return scripted_judge({**case, "steps": steps, "final_thought": ""})


@pytest.mark.parametrize(
    ("judge", "missed"),
    [
        (all_alike("+"), {"omission", "deviation", "hallucination", "mismatch", "false positive"}),
        (all_alike("-"), {"golden queries whose answers are used", "a failed search that is recognised"}),
        (grader_of_results, {"omission", "mismatch", "false positive", "an answer at the end of a long result"}),
        (without_thoughts, {"a failed search that is recognised"}),
    ],
)
def test_a_judge_that_ignores_rules_misses_their_cases(judge, missed):
    assert missed <= set(missed_cases(judge))


def test_a_judge_without_any_reply_is_an_error():
    with serving(replying({})) as url, pytest.raises(ServiceError):
        missed_cases(PivotJudge(url, "m", max_attempts=1))


def test_the_command_says_how_the_judge_does_on_the_cases_and_how_far_it_agrees_with_the_rule(tmp_path, capsys):
    turns = (
        Turn("a", "search", "b", queries=("Who founded Harlow Press?",)),
        Turn("b", "Tarn", "c", observation="Harlow Press was founded by Ines Vale."),
    )
    member = Trajectory("t", "g", "task", turns, True, 1.0, "success", "c")
    write_jsonl(tmp_path / "log.jsonl", [Group((member,), QUESTION.to_json())])

    def answer(handler, body):
        case = json.loads(body["messages"][1]["content"])
        text = json.dumps({"reason": "", "labels": ["-"] * len(case["steps"])})
        replying({"choices": [{"message": {"content": text}}]})(handler, body)

    with serving(answer) as url:
        judge = ["--judge", f"{url}#m", "--out", str(tmp_path / "labels.jsonl"), "--audit", "0"]
        assert main(["data", "label", str(tmp_path / "log.jsonl"), *judge]) == 0
    output = capsys.readouterr()
    assert f"judge: 1 of {len(CASES)} hand-made cases" in output.err  # all "-": right for the mismatch alone
    # one search: the rule says "+" since the result holds the sub-answer, the judge "-"
    assert "agreement with the rule: 0.000 of 1 tool turns" in output.out

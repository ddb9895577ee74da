"""The judge of rubrics: citations per turn, scores of rollouts, and the credit of DRACO that they make."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.envs.http.client import JsonClient
from creditflow.train.annotate import AnnotationError, Context, annotate, make_annotator
from creditflow.train.annotate.rubric import RubricAnnotator
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.trajectory import Group

CRITERIA = ["finds the town", "names a source", "is short"]
Rows = list[dict[str, Any]]


def verdict(criterion: int, passed: bool, *turns: int) -> dict[str, Any]:
    return {"criterion": criterion, "passed": passed, "turns": list(turns)}


class Client:
    """Replies by the first action of the rollout."""

    def __init__(self, replies: dict[str, Rows | str]) -> None:
        self.replies, self.cases = replies, list[dict[str, Any]]()

    def post(self, path: str, body: Any) -> Any:
        assert path == "/chat/completions"
        case = json.loads(body["messages"][1]["content"])
        self.cases.append(case)
        reply = self.replies[case["turns"][0]["did"]]
        return {"choices": [{"message": {"content": reply if isinstance(reply, str) else json.dumps(reply)}}]}


def judge(client: Client, **options: Any) -> RubricAnnotator:
    return RubricAnnotator("http://127.0.0.1:1", "m", client=cast("JsonClient", client), workers=1, **options)


def searched(**task: Any) -> Group:
    made = group(walk("s a b", "failed", actions=["x", "y"]), walk("s c d e", "failed", actions=["v", "w", "u"]))
    return Group(made.trajectories, {"question": "Where?", "rubric": CRITERIA} | task)


# criterion 1 is failed by the first, 2 by the second, 3 by none: it is removed
REPLIES: dict[str, Rows | str] = {
    "x": [verdict(1, False, 2), verdict(2, True, 1), verdict(3, True, 1, 2)],
    "v": [verdict(1, True, 1, 3), verdict(2, False, 3)],
}


def values(done: Group, name: str) -> list[list[float]]:
    return [[turn.values[name] for turn in member.turns] for member in done.trajectories]


def test_citations_are_counted_without_criteria_that_no_member_failed() -> None:
    [done] = annotate([searched()], judge(Client(REPLIES)))
    assert values(done, "rubric.passed") == [[1.0, 0.0], [1.0, 0.0, 1.0]]
    assert values(done, "rubric.failed") == [[0.0, 1.0], [0.0, 0.0, 1.0]]
    assert [m.values["rubric.score"] for m in done.trajectories] == [0.0, 0.0]
    assert '"model":"served:m"' in done.trajectories[0].provenance["rubric.score"]


def test_the_paper_example_of_draco_follows_from_citations() -> None:
    # the first rollout passes both criteria and is cited in turns 1 and 2 (Q 1, 1/2 by one failed citation of the third)
    replies: dict[str, Rows | str] = {
        "x": [verdict(1, True, 1, 2), verdict(2, True, 1), verdict(3, False, 2)],
        "v": [verdict(1, False, 1), verdict(2, False, 2), verdict(3, True, 3)],
    }
    [done] = annotate([searched()], judge(Client(replies)))
    assert [m.values["rubric.score"] for m in done.trajectories] == pytest.approx([1 / 3, -1 / 3])
    scored = credit.make("draco", score_from="rubric").assign(done)
    assert scored.outcome_advantages == pytest.approx([0.5**0.5, -(0.5**0.5)])
    # without tokens every turn counts as one: A N w / Σw with w = (1, 1/2) and, where A < 0, w = 1 - (0, 0, 1)
    assert scored.flat_advantages == pytest.approx(0.5**0.5 * np.array([4 / 3, 2 / 3, -1.5, -1.5, 0.0]))


def test_scores_by_the_rubric_need_the_annotation() -> None:
    [done] = annotate([searched()], judge(Client(REPLIES)))
    bare = replace(done, trajectories=tuple(replace(m, values={}) for m in done.trajectories))
    with pytest.raises(CreditError, match="rubric:URL#MODEL"):
        credit.make("draco", score_from="rubric").assign(bare)
    assert np.isfinite(credit.make("draco").assign(bare).flat_advantages).all()


def test_the_judge_receives_the_criteria_and_all_turns() -> None:
    client = Client(REPLIES)
    annotate([searched()], judge(client))
    assert client.cases[0] == {
        "task": "Where?",
        "criteria": [{"criterion": n, "text": text} for n, text in enumerate(CRITERIA, 1)],
        "turns": [{"turn": 1, "did": "x"}, {"turn": 2, "did": "y"}],
    }


def test_a_branch_gets_the_citations_of_its_own_turns() -> None:
    root = walk("s a b g", name="root", actions=["x", "y", "z"])
    branch = walk("a c", "failed", name="branch", actions=["q"], parent="root", fork_turn=1)
    replies: dict[str, Rows | str] = {"x": [verdict(1, False, 1, 2)]}
    [done] = annotate([Group((root, branch), {"rubric": CRITERIA})], judge(Client(replies)))
    assert values(done, "rubric.failed") == [[1.0, 1.0, 0.0], [1.0]]


def test_a_rollout_without_verdicts_scores_zero_and_is_scored_as_by_grpo() -> None:
    [done] = annotate([searched()], judge(Client({"x": [], "v": REPLIES["v"]})))
    assert done.trajectories[0].values["rubric.score"] == 0.0
    assert values(done, "rubric.passed")[0] == [0.0, 0.0]


def test_no_case_is_requested_twice(tmp_path: Path) -> None:
    cache, first = str(tmp_path / "verdicts.jsonl"), Client(REPLIES)
    done = annotate([searched()], judge(first, cache=cache))
    silent = Client({})
    assert annotate([searched()], judge(silent, cache=cache))[0].trajectories == done[0].trajectories
    assert not silent.cases


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("all fine", "a JSON list of verdicts"),
        ('{"criterion": 1}', "must reply"),
        ([verdict(4, True, 1)], "each of the criteria 1 to 3"),
        ([verdict(1, True, 1), verdict(1, False, 1)], "at most once"),
        ([verdict(1, True, 3)], "cite turns from 1 to 2"),
        ([{"criterion": 1, "passed": "yes", "turns": []}], "must reply"),
    ],
)
def test_replies_that_are_no_verdicts_are_rejected(reply: Rows | str, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        annotate([searched()], judge(Client({**REPLIES, "x": reply})))


def test_a_reply_in_a_fence_is_read() -> None:
    text = "```json\n" + json.dumps(REPLIES["x"]) + "\n```"
    [done] = annotate([searched()], judge(Client({**REPLIES, "x": text})))
    assert values(done, "rubric.failed")[0] == [0.0, 1.0]


@pytest.mark.parametrize("rubric", [None, [], "text", ["a"] * 25, [""], [1]])
def test_a_task_without_a_valid_rubric_is_rejected(rubric: Any) -> None:
    with pytest.raises(AnnotationError, match="1 to 24 criteria"):
        annotate([searched(rubric=rubric)], judge(Client(REPLIES)))


@pytest.mark.parametrize("option", ["workers", "max_chars"])
def test_numbers_below_one_are_rejected(option: str) -> None:
    RubricAnnotator("http://127.0.0.1:1", "m", **{option: 1})  # type: ignore[arg-type]  # both are integers
    with pytest.raises(ConfigError, match=r"at least 1, got .*\b0\b"):
        RubricAnnotator("http://127.0.0.1:1", "m", **{option: 0})  # type: ignore[arg-type]  # both are integers


def test_a_judge_is_named_by_url_and_model() -> None:
    with pytest.raises(ConfigError, match="rubric:URL#MODEL"):
        make_annotator("rubric:http://x")
    with pytest.raises(ConfigError, match="did you mean 'field'"):
        make_annotator("rubric:http://x#m", Context({"fields": "rubric"}))

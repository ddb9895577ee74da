"""The LLM judge of turns: scores of a served model, cached, requested once, rejected when they are not scores."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate import AnnotationError, Context, annotate, make_annotator
from creditflow.train.annotate.judge import JudgeAnnotator
from creditflow.wrappers.trajectory import Group


class Client:
    """Scores a turn by the length of its action."""

    def __init__(self, reply: str = "") -> None:
        self.reply, self.cases = reply, list[dict[str, Any]]()

    def post(self, path: str, body: Any) -> Any:
        assert path == "/chat/completions"
        case = json.loads(body["messages"][1]["content"])
        self.cases.append(case)
        text = self.reply or str(len(case["marked"]["did"]))
        return {"choices": [{"message": {"content": text}}]}


def judge(client: Client, **options: Any) -> JudgeAnnotator:
    return JudgeAnnotator("http://127.0.0.1:1", "m", client=client, workers=1, **options)


def searched() -> Group:
    made = group(walk("s a b g", actions=["x", "xyz", "xy"]), walk("s a", "failed", actions=["xxxx"]))
    members = [
        replace(t, turns=tuple(replace(u, observation=f"page {u.state_key}") for u in t.turns))
        for t in made.trajectories
    ]
    return Group(tuple(members), {"question": "Who?"})


def test_every_turn_gets_its_score() -> None:
    [done] = annotate([searched()], judge(Client()))
    assert [turn.values["judge.score"] for turn in done.turns] == [0.1, 0.3, 0.2, 0.4]
    assert credit.make("prm").assign(done).flat_step_rewards.tolist() == [0.1, 0.3, 0.2, 0.4]
    assert '"model":"served:m"' in done.trajectories[0].provenance["judge.score"]


def test_thoughts_before_a_score_are_no_part_of_it_and_their_room_is_an_option() -> None:
    [done] = annotate([searched()], judge(Client("<think>10? No, 3.</think>\n7")))
    assert {turn.values["judge.score"] for turn in done.turns} == {0.7}
    with pytest.raises(AnnotationError, match=r"has thoughts alone.*max_tokens 50"):
        annotate([searched()], judge(Client("<think>Perhaps 10"), max_tokens=50))


def test_the_judge_receives_the_task_the_turns_before_and_the_next_observation() -> None:
    client = Client()
    annotate([searched()], judge(client, context_turns=1))
    assert client.cases[2] == {
        "task": "Who?",
        "steps": [{"saw": "page a", "did": "xyz"}],
        "marked": {"saw": "page b", "did": "xy", "result": "(the episode ends here)"},
    }
    assert client.cases[1]["marked"]["result"] == "page b"


def test_a_branch_is_scored_with_the_turns_of_its_prefix() -> None:
    root = walk("s a b g", name="root", actions=["x", "x", "x"])
    branch = walk("a c", "failed", name="branch", actions=["xx"], parent="root", fork_turn=1)
    client = Client()
    annotate([Group((root, branch))], judge(client))
    assert [step["did"] for step in client.cases[3]["steps"]] == ["x"]


def test_no_case_is_requested_twice(tmp_path: Path) -> None:
    cache = str(tmp_path / "scores.jsonl")
    client = Client()
    first = annotate([searched()], judge(client, cache=cache))
    assert len(client.cases) == 4
    silent = Client("not requested")
    assert annotate([searched()], judge(silent, cache=cache))[0].trajectories == first[0].trajectories
    assert not silent.cases
    (tmp_path / "scores.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="line 1: not a cached reply"):
        judge(client, cache=cache)


def test_equal_cases_that_are_asked_at_once_have_one_request_and_one_value() -> None:
    class Undecided(Client):
        """Answers every request differently, the first one when all threads run."""

        def post(self, path: str, body: Any) -> Any:
            self.reply = str(len(self.cases))
            reply = super().post(path, body)
            running.wait()
            return reply

    running, client = threading.Barrier(5, timeout=10.0), Undecided()
    chat = judge(client)._chat

    def ask(scores: list[float]) -> None:
        if scores is not values[0]:
            running.wait()
        scores.append(chat.ask({"marked": {"did": "x"}}))

    values: list[list[float]] = [[] for _ in range(5)]
    threads = [threading.Thread(target=ask, args=(scores,)) for scores in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [[0.0]] * 5
    assert len(client.cases) == 1


@pytest.mark.parametrize("spec", ["judge", "judge:", "judge:http://x", "judge:#m"])
def test_a_judge_is_named_with_url_and_model(spec: str) -> None:
    with pytest.raises(ConfigError, match="URL#MODEL"):
        make_annotator(spec)


def test_a_wrong_setting_suggests_the_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'workers'"):
        make_annotator("judge:http://x#m", Context({"worker": 2}))
    with pytest.raises(ConfigError, match="workers must be int"):
        make_annotator("judge:http://x#m", Context({"workers": "many"}))

"""Questions worded by a language model on a server: its recipes, its verification, and replies that are of no use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.chat_server import chat_server, json_server
from helpers.worlds.film_corpus import write_films
from helpers.worlds.question_writer import QuestionWriter

from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.synthesis import instructions
from creditflow.train.cli import main
from creditflow.train.synthesis.build import provenance_of

Reply = Callable[[list[dict[str, Any]]], str]


def run(corpus: Path, out: Path, url: str, *more: str, limit: int = 6) -> int:
    return main([
        "data", "synthesize", "--corpus", str(corpus), "--limit", str(limit), "--seed", "3", "--out", str(out),
        "--writer", f"openai:{url}#toy", *more,
    ])  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_films(tmp_path / "films.jsonl")


def reasons(out: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in provenance_of(out).read_text().splitlines()[1:]:
        reason = json.loads(line)["reason"]
        found[reason] = found.get(reason, 0) + 1
    return found


def test_every_recipe_asks_as_it_says_and_shows_its_passages(corpus: Path, tmp_path: Path) -> None:
    model, out = QuestionWriter(), tmp_path / "q.jsonl"
    with chat_server(model) as url:
        assert run(corpus, out, url, limit=15) == 0
    asked = {instruction for instruction, _ in model.asked}
    assert {instructions.WALK, instructions.INJECT, instructions.OBFUSCATE, instructions.ANSWER} <= asked
    questions = read_questions(out)
    assert len(questions) == 15
    for question in questions:
        cases = [
            case
            for instruction, case in model.asked
            if instruction == instructions.ANSWER and case["question"] == question.text
        ]
        counts = [len(case["passages"]) for case in cases]
        whole = len(question.supporting)
        assert counts == [whole, 0, *[whole - 1] * whole]
        assert len({tuple(case["passages"]) for case in cases}) == len(cases)
        hidden = [
            name for entity in question.entities for name in (entity.name, *entity.aliases) if name not in question.text
        ]
        assert question.answer_node in hidden
        assert any(normalized_phrase(entity.name, question.text) for entity in question.entities)


@pytest.mark.parametrize(("limit", "attempts"), [(6, "100"), (20, "3")])  # enough questions; all candidates tried
def test_the_number_of_requests_at_a_time_changes_no_byte(
    limit: int, attempts: str, corpus: Path, tmp_path: Path
) -> None:
    files = []
    for workers in ("1", "4"):
        out = tmp_path / f"{workers}.jsonl"
        with chat_server(QuestionWriter()) as url:
            assert run(corpus, out, url, "--workers", workers, "--attempts", attempts, limit=limit) == 0
            files.append((out.read_bytes(), provenance_of(out).read_bytes().replace(url.encode(), b"URL")))
    assert files[0] == files[1]


def wrong(instruction: str, reply: Callable[[str], str]) -> Reply:
    """A model that fails at every other request of one kind."""
    model, count = QuestionWriter(), [0]

    def answer(messages: list[dict[str, Any]]) -> str:
        good = model(messages)
        if messages[0]["content"] != instruction:
            return good
        count[0] += 1
        return reply(good) if count[0] % 2 else good

    return answer


HOSTILE: dict[str, tuple[str, Callable[[str], str], str]] = {
    "no JSON": (instructions.WALK, lambda _: "I will not.", "invalid reply"),
    "broken JSON": (instructions.WALK, lambda _: '{"question": "What', "invalid reply"),
    "other type": (instructions.WALK, lambda _: '{"question": ["What?"]}', "invalid reply"),
    "a key twice": (instructions.WALK, lambda _: '{"question": "a", "question": "b"}', "invalid reply"),
    "nested": (instructions.WALK, lambda _: "{" * 3_000 + "}" * 3_000, "invalid reply"),
    "endless": (instructions.WALK, lambda _: '{"question": "' + "what " * 5_000 + '?"}', "invalid reply"),
    "empty": (instructions.WALK, lambda _: '{"question": " "}', "no text"),
    "names nothing": (instructions.WALK, lambda _: '{"question": "Who was it?"}', "name dropped"),
    "too long": (
        instructions.WALK, lambda good: good.replace("Which", "which " * 110 + "Which"), "too long",
    ),
    "asks nothing": (instructions.WALK, lambda good: good.replace("?", "."), "no question"),
    "does not find its answer": (instructions.ANSWER, lambda _: '{"answer": "no idea"}', "not answered from the passages"),
    "no answer": (instructions.ANSWER, lambda _: "none", "invalid reply"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(HOSTILE))
def test_replies_of_no_use_reject_the_candidate_with_a_reason(name: str, corpus: Path, tmp_path: Path) -> None:
    instruction, reply, reason = HOSTILE[name]
    out = tmp_path / "q.jsonl"
    with chat_server(wrong(instruction, reply)) as url:
        assert run(corpus, out, url, "--recipe", "walk", limit=4) == 0
    assert reasons(out)[reason] >= 1
    assert len(read_questions(out)) == 4


def test_a_text_that_tells_the_answer_or_copies_a_passage_is_rejected(corpus: Path, tmp_path: Path) -> None:
    model, worded = QuestionWriter(), [0]

    def telling(messages: list[dict[str, Any]]) -> str:
        case = json.loads(messages[1]["content"])
        worded[0] += messages[0]["content"] == instructions.WALK
        if messages[0]["content"] == instructions.WALK and worded[0] % 3:
            passage = case["facts"][0]["passage"].partition(": ")[2]
            told = case["answer"] if worded[0] % 3 == 1 else passage.replace(case["facts"][0]["object"], "someone")
            model(messages)
            text = f"Is it, given {' '.join(case['must_name'])}, {told}?"
            model._answers[text] = case["answer"]
            return json.dumps({"question": text})
        return model(messages)

    out = tmp_path / "q.jsonl"
    with chat_server(telling) as url:
        assert run(corpus, out, url, "--recipe", "walk", limit=4) == 0
    assert reasons(out)["answer in the question"] >= 1
    assert reasons(out)["copied from a passage"] >= 1


def test_a_question_that_drops_one_of_its_names_is_rejected(corpus: Path, tmp_path: Path) -> None:
    model, out = QuestionWriter(), tmp_path / "q.jsonl"

    def forgetful(messages: list[dict[str, Any]]) -> str:
        reply, case = model(messages), json.loads(messages[1]["content"])
        names = case.get("must_name", ())
        return reply.replace(f"{names[0]} and ", "") if len(names) > 1 else reply

    with chat_server(forgetful) as url:
        assert run(corpus, out, url, "--recipe", "obfuscate", limit=3) == 0
    assert reasons(out)["name dropped"] >= 1


@pytest.mark.parametrize(("known", "reason"), [(0, "answered without passages"), (1, "answered without a passage")])
def test_a_question_that_needs_fewer_passages_is_rejected(
    known: int, reason: str, corpus: Path, tmp_path: Path
) -> None:
    model = QuestionWriter()

    def knowing(messages: list[dict[str, Any]]) -> str:
        reply, case = model(messages), json.loads(messages[1]["content"])
        if (
            messages[0]["content"] == instructions.ANSWER
            and len(case["passages"]) == known
            and len(case["question"]) % 2
        ):
            return json.dumps({"answer": f"The {model._answers[case['question']]}."})
        return reply

    out = tmp_path / "q.jsonl"
    with chat_server(knowing) as url:
        assert run(corpus, out, url, "--recipe", "walk", limit=4) == 0
    assert reasons(out)[reason] >= 1


@contextmanager
def failing(model: QuestionWriter, fails: Callable[[int], bool], *, slow: bool) -> Any:
    """A server some of whose responses are slow, or no completions of a bounded size."""
    count = [0]

    def answer(_path: str, body: dict[str, Any]) -> Any:
        count[0] += 1
        if fails(count[0]):
            if slow:
                time.sleep(1.0)
            return {"choices": "x" * (2**21)}
        return {"choices": [{"message": {"role": "assistant", "content": model(body["messages"])}}]}

    with json_server(answer) as url:
        yield f"{url}/v1"


@pytest.mark.parametrize("slow", [False, True])
def test_a_server_that_fails_now_and_then_loses_candidates_only(slow: bool, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    with failing(QuestionWriter(), lambda n: 2 <= n <= (4 if slow else 2), slow=slow) as url:
        assert run(corpus, out, url, "--recipe", "walk", "--timeout", "0.4", limit=4) == 0
    assert reasons(out) == {"": 4, "no reply": 1} | {k: v for k, v in reasons(out).items() if k not in ("", "no reply")}


def test_failures_count_only_in_a_row(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    with failing(QuestionWriter(), lambda n: n % 6 == 2, slow=False) as url:
        assert run(corpus, out, url, "--recipe", "walk", limit=6) == 0
    assert reasons(out)["no reply"] > 3
    assert len(read_questions(out)) == 6


def test_a_server_that_is_down_ends_the_command_which_is_resumed_to_the_same_questions(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "q.jsonl"
    down = [False]
    with failing(QuestionWriter(), lambda n: down[0], slow=False) as url:
        assert run(corpus, whole, url) == 0
        total = len(reasons(whole))
        with failing(QuestionWriter(), lambda n: n > 16, slow=False) as bad:
            assert run(corpus, out, bad) == 1
    assert "127.0.0.1" in capsys.readouterr().err
    partial = out.with_name("q.jsonl.partial")
    lines = partial.read_text().splitlines(True)
    assert len(lines) > 1
    assert total
    assert all(json.loads(line)["reason"] != "no reply" for line in lines[1:])
    assert not out.exists()
    # the server is back, under another port: the address is part of the settings
    with chat_server(QuestionWriter()) as url:
        partial.write_text(lines[0].replace(bad, url) + "".join(lines[1:]))
        assert run(corpus, out, url, "--resume") == 0
    assert out.read_bytes() == whole.read_bytes()

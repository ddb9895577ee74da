"""The LLM judge: verdicts, its cache, and servers that return none."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.loopback import Exchange
from helpers.servers.replies import replying, serving

from creditflow.envs.errors import ConfigError, DataError, ServiceError
from creditflow.envs.wikisearch.grading.grade import ModelJudge, make_judge


def chat(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}}]}


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("CORRECT", 1.0), ("incorrect.", 0.0), ("Verdict: Correct", 1.0), (" **INCORRECT**\n", 0.0),
        ("<think>Is it correct? No: INCORRECT fits.</think>\n\nCORRECT", 1.0),
    ],
)  # fmt: skip
def test_a_verdict_is_parsed(text: str, score: float) -> None:
    with serving(replying(chat(text))) as url:
        assert ModelJudge(url, "m", max_attempts=1)("q", ["g"], "a") == score


@pytest.mark.parametrize(
    "body",
    [
        *map(chat, ("maybe", "CORRECT or INCORRECT", "", "The candidate is not correct.", "Not Correct", "PARTIALLY CORRECT",
                    "It is correct", "UNCORRECT", "<think>It is CORRECT", "CORRECT</think>",
                    "!correct", "≠ correct", "❌ CORRECT", "CORRECT?", "in correct", "verdict: not correct", "Yes", '{"correct": true}')),
        {}, {"choices": []}, [1],
    ],
)  # fmt: skip
def test_no_verdict_is_an_error(body: Any) -> None:
    with serving(replying(body)) as url, pytest.raises(ServiceError):
        ModelJudge(url, "m", max_attempts=1)("q", ["g"], "a")


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("CORRECT.", 1.0), ("**Correct!**", 1.0), ("_correct_", 1.0), ('{"verdict": "CORRECT"}', 1.0), ("```json\n{\"verdict\": \"incorrect\"}\n```", 0.0),
        ("Verdict: **INCORRECT**", 0.0), ("<think>is it incorrect?</think>\n\nCORRECT", 1.0),
    ],
)  # fmt: skip
def test_a_verdict_may_be_decorated(reply: str, score: float) -> None:
    with serving(replying(chat(reply))) as url:
        assert ModelJudge(url, "m", max_attempts=1)("q", ["g"], "a") == score


@pytest.mark.parametrize("finish", ["max_tokens", "model_length", "content_filter"])
def test_a_reply_is_cut_in_the_words_of_any_server(finish: str) -> None:
    body = {"choices": [{"message": {"reasoning": "Is it"}, "finish_reason": finish}]}
    with serving(replying(body)) as url, pytest.raises(ServiceError, match=f"was cut .*{finish}.*field reasoning"):
        ModelJudge(url, "m", max_attempts=1)("q", ["g"], "a")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "<think>\nOkay, is the candidate correct? The"}, "was cut"),
        ({"content": "CORRECT"}, "was cut"),
        ({"content": None, "reasoning": "Is it correct?"}, "in the field reasoning"),
        ({"content": "", "reasoning_content": "Is it correct?"}, "in the field reasoning_content"),
    ],
)
def test_a_cut_reply_is_an_error_that_names_the_cut_and_is_not_cached(message: Any, said: str, tmp_path: Path) -> None:
    body = {"choices": [{"message": message, "finish_reason": "length"}]}
    cache = str(tmp_path / "verdicts.jsonl")
    with serving(replying(body)) as url, pytest.raises(ServiceError, match=f"{said}.*max_tokens=…") as error:
        ModelJudge(url, "m", max_attempts=1, cache=cache)("q", ["g"], "a")
    assert "finish_reason 'length', max_tokens 4096" in str(error.value)
    assert not Path(cache).exists()


def test_the_limit_of_a_reply_is_an_option() -> None:
    asked: list[Any] = []

    def answer(handler: Exchange, body: Any) -> None:
        asked.append(body)
        replying(chat("CORRECT"))(handler, body)

    with serving(answer) as url:
        make_judge({"url": url, "model": "m", "max_tokens": 9000})("q", ["g"], "a")
    assert asked[0]["max_tokens"] == 9000
    with pytest.raises(ConfigError, match="max_tokens must be at least 1"):
        make_judge({"url": "http://127.0.0.1:9", "model": "m", "max_tokens": -1})


def test_verdicts_are_requested_once_and_cached_in_a_file(tmp_path: Path) -> None:
    asked: list[Any] = []

    def answer(handler: Exchange, body: Any) -> None:
        asked.append(body)
        replying(chat("CORRECT"))(handler, body)

    cache = str(tmp_path / "verdicts.jsonl")
    with serving(answer) as url:
        for _ in range(2):
            judge = make_judge({"url": url, "model": "m", "cache": cache})
            assert judge("q", ["g"], "a") == judge("q", ["g"], "a") == 1.0
    assert len(asked) == 1
    assert asked[0]["temperature"] == 0
    assert json.loads(asked[0]["messages"][1]["content"]) == {"question": "q", "references": ["g"], "candidate": "a"}


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"key": "k", "correct": true}\n{"key"\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        ModelJudge("http://127.0.0.1:9", "m", cache=str(tmp_path / "v.jsonl"))


@pytest.mark.parametrize(
    "content",
    [
        b"My thesis, on one line",
        b"line\nno line break at the end",
        b'{"keys": 1}',
        b'{"key": "secret"}',
        b"\x1f\x8b\x08\x00",
    ],
)
def test_a_file_that_is_no_cache_is_refused_and_keeps_every_byte(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 1"):
        ModelJudge("http://127.0.0.1:9", "m", cache=str(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("kept", range(0, 30, 3))
def test_an_unfinished_line_is_cut_off_a_cache(tmp_path: Path, kept: int) -> None:
    line = b'{"key": "[]", "correct": true}\n'
    path = tmp_path / "v.jsonl"
    for whole in (b"", line):
        path.write_bytes(whole + line[:kept])
        ModelJudge("http://127.0.0.1:9", "m", cache=str(path))
        assert path.read_bytes() == whole


SERVER = {"url": "http://127.0.0.1:9", "model": "m"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**SERVER, "temperature": 1}, "url, model"), ({**SERVER, "client": 5}, "got 'client'"), ({**SERVER, "key": "a"}, "got 'key'"),
        ({**SERVER, "question": "a"}, "got 'question'"), ({1: 2}, "got 1"), ({"url": "http://x"}, "model is missing"),
        ({**SERVER, "url": 5}, "its url"), ({**SERVER, "model": 3}, "its model"), ({**SERVER, "cache": 5}, "its cache"),
        ({**SERVER, "timeout": True}, "its timeout"), ({**SERVER, "max_attempts": 1.5}, "its max_attempts"),
        ({**SERVER, "cache": "no-folder/v.jsonl"}, "a cache is a file"), ({**SERVER, "cache": "."}, "a cache is a file"),
        ({**SERVER, "cache": "a\0b"}, "must be the path"), ({**SERVER, "cache": "x" * 5_000}, "a cache that cannot be read and written"),
    ],
)  # fmt: skip
def test_wrong_options_of_a_model_are_configuration_errors(options: dict[Any, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_judge(options)

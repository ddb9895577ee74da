"""The web's retriever: requests, keys, recordings that replay exactly, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.loopback import Exchange
from helpers.servers.replies import replying, serving

from creditflow.envs.errors import ConfigError, DataError, ServiceError
from creditflow.envs.registration import make
from creditflow.envs.wikisearch.retrieval.web import WebRetriever

KEY = "k" * 20
RESULTS = {
    "organic": [
        {"title": "Ada", "link": "https://a.example/ada", "snippet": "A mathematician."},
        {"title": "Byron", "link": "https://b.example/", "snippet": "A poet."},
    ]
}
PAGE = {"data": {"title": "Ada Lovelace", "content": "She was born in London. " + "filler " * 300 + "She met Babbage."}}


class Web:
    """A server that has the search and the page service, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.keys: list[str | None] = []

    def __call__(self, request: Exchange, body: Any) -> None:
        self.asked.append(body)
        self.keys.append(request.headers.get("X-API-KEY"))
        replying(PAGE if "url" in body else RESULTS)(request, body)


def options_of(url: str, **more: Any) -> dict[str, Any]:
    return {
        "web_search": {"url": f"{url}/search", "key_variable": "WEB_KEY", "key_header": "X-API-KEY"},
        "web_page": {"url": f"{url}/page"},
        "max_attempts": 1,
        **more,
    }


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_KEY", KEY)


def test_a_search_sends_query_number_and_key_and_gives_results_in_order() -> None:
    web = Web()
    with serving(web) as url:
        hits = WebRetriever(**options_of(url)).search(["ada", "poet"], 1)
    assert web.asked == [{"q": "ada", "num": 1}, {"q": "poet", "num": 1}]
    assert web.keys == [KEY, KEY]
    assert [[hit.passage.id for hit in of_query] for of_query in hits] == [["https://a.example/ada"]] * 2
    assert (hits[0][0].passage.title, hits[0][0].passage.url) == ("Ada", "https://a.example/ada")


def test_a_visit_gives_the_passages_that_fit_the_goal() -> None:
    with serving(Web()) as url:
        retriever = WebRetriever(**options_of(url, page_passages=1))
        (passages,) = retriever.visit(["https://a.example/ada"], "Babbage")
        assert passages is not None
        assert passages[0].text.endswith("She met Babbage.")
        assert retriever.fetch([passages[0].id]) == list(passages)


def test_what_a_model_wants_to_visit_is_data_for_the_page_service_and_never_a_host_to_contact() -> None:
    web = Web()
    with serving(web) as url:
        WebRetriever(**options_of(url)).visit(["http://169.254.169.254/secret", "file:///etc/passwd", "no url"], "")
    assert web.asked == [{"url": "http://169.254.169.254/secret"}]


def test_a_recording_replays_without_a_server_and_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, web = str(tmp_path / "web.jsonl"), Web()
    with serving(web) as url:
        live = WebRetriever(**options_of(url, recording=recording))
        expected = live.search(["ada"], 2), live.visit(["https://a.example/ada"], "born")
        assert live.search(["ada"], 2) == expected[0]  # asked once
    assert len(web.asked) == 2
    assert KEY not in Path(recording).read_text()
    monkeypatch.delenv("WEB_KEY")
    replayed = WebRetriever(**options_of(url, recording=recording, replay=True))
    assert (replayed.search(["ada"], 2), replayed.visit(["https://a.example/ada"], "born")) == expected
    with pytest.raises(ServiceError, match="lacks the request"):
        replayed.search(["another"], 2)


def test_a_model_writes_what_a_page_says_about_the_goal() -> None:
    def answer(request: Exchange, body: Any) -> None:
        if "messages" not in body:
            return replying(PAGE)(request, body)
        case = json.loads(body["messages"][1]["content"])
        assert (case["goal"], case["page"][:8]) == ("birth", "She was ")
        text = json.dumps({"evidence": "She was born in London.", "summary": "Born in London."})
        return replying({"choices": [{"message": {"content": text}}]})(request, body)

    with serving(answer) as url:
        retriever = WebRetriever(**options_of(url, summary={"url": url, "model": "m"}))
        (passages,) = retriever.visit(["https://a.example/ada"], "birth")
    assert passages is not None
    assert passages[0].text == "Evidence: She was born in London. Summary: Born in London."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"web_search": {}}, "web_search takes a url"),
        ({"web_search": {"url": "http://127.0.0.1:9", "color": "red"}}, "web_search takes a url"),
        ({"web_search": {"url": "http://127.0.0.1:9", "key_variable": "UNSET_KEY"}}, "unset or empty"),
        ({"web_search": {"url": "http://127.0.0.1:9", "key_header": "a b"}}, "name of an HTTP header"),
        ({"web_search": {"url": "http://127.0.0.1:9"}, "replay": True}, "replay needs a recording"),
        ({"web_search": {"url": "http://127.0.0.1:9"}, "page_passages": 0}, "page_passages"),
    ],
)
def test_wrong_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WebRetriever(**options)


def test_a_file_that_is_no_recording_is_rejected_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("my thesis\n")
    with pytest.raises(DataError, match="line 1"):
        WebRetriever({"url": "http://127.0.0.1:9"}, recording=str(path))
    assert path.read_text() == "my thesis\n"


@pytest.mark.parametrize("reply", [{}, {"organic": {}}, {"organic": [{"title": "no link"}]}, [1]])
def test_a_reply_without_results_is_an_error(reply: Any) -> None:
    with serving(replying(reply)) as url, pytest.raises(ServiceError):
        WebRetriever({"url": url}, max_attempts=1).search(["q"], 1)


def test_an_environment_plays_over_a_recorded_web(tmp_path: Path) -> None:
    questions, recording = tmp_path / "q.jsonl", tmp_path / "web.jsonl"
    questions.write_text(json.dumps({"question": "Whom did Ada meet?", "answers": ["Babbage"]}) + "\n")

    def play(url: str, **more: Any) -> list[str]:
        env = make(
            "wikisearch", questions=str(questions), dialect="browse", oracle="proxy",
            retriever=options_of(url, recording=str(recording), page_passages=1, **more),
        )  # fmt: skip
        env.reset(seed=0)
        search = '<tool_call>{"name": "search", "arguments": {"query": ["Ada"]}}</tool_call>'
        visit = '{"name": "visit", "arguments": {"url": ["https://a.example/ada"], "goal": "Babbage"}}'
        seen = [env.step(search)[0], env.step(f"<tool_call>{visit}</tool_call>")[0]]
        *_, info = env.step("<answer>Babbage</answer>")
        assert info["success"]
        return seen

    with serving(Web()) as url:
        seen = play(url)
    assert "https://a.example/ada" in seen[0]
    assert "She met Babbage." in seen[1]
    assert play(url, replay=True) == seen

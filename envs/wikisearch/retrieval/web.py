"""The open web behind the tool interface: a search API and a page-reading API, recorded to a file and replayed exactly.

Both are JSON services that the user names with the environment variable that holds their key, such as Serper or Tavily for
search and Jina's reader for pages. Only these two hosts are contacted: a URL that a model wants to visit is sent to the
page reader as data, so that a model cannot reach addresses of this machine or its network.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from creditflow.envs.errors import ConfigError, DataError, ServiceError, short_repr
from creditflow.envs.files.appended import read_appended
from creditflow.envs.files.paths import checked_path
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey
from creditflow.envs.wikisearch.retrieval.base import Hit, Passage
from creditflow.envs.wikisearch.retrieval.page_readers import make_reader, make_summary
from creditflow.envs.wikisearch.retrieval.remote import HttpRetriever

__all__ = ["WebRetriever", "WebService"]

MAX_PAGE: Final = 200_000  # characters of a page that are read
PASSAGE_WORDS: Final = 120
_BEGINNING: Final = '{"request": ['  # of every line of a recording


@dataclass(frozen=True, kw_only=True)
class WebService:
    """A JSON service, and where its texts are.

    Attributes:
        url: what is posted to.
        key_variable: environment variable with the API key; "" for none.
        key_header: header that carries it; "Authorization" sends "Bearer KEY".
        query: name of the request's field with the query or the page's URL.
        count: name of the field with the number of results; "" sends none.
        results: keys, joined by dots, under which the reply has its results or the page: "organic", "data".
        title, link, text: names of these fields of a result.
    """

    url: str
    key_variable: str = ""
    key_header: str = "Authorization"
    query: str = "q"
    count: str = ""
    results: str = "organic"
    title: str = "title"
    link: str = "link"
    text: str = "snippet"

    def __post_init__(self) -> None:
        for field in fields(self):
            if not isinstance(getattr(self, field.name), str):
                raise ConfigError(
                    f"{field.name} of a web service is a text, got {short_repr(getattr(self, field.name))}"
                )

    @classmethod
    def of(cls, options: Any, what: str, **defaults: str) -> WebService:
        """A service from plain values.

        Raises:
            ConfigError: no URL, or an unknown option.
        """
        known = {field.name for field in fields(cls)}
        if not isinstance(options, Mapping) or "url" not in options or not options.keys() <= known:
            raise ConfigError(f"{what} takes a url and {', '.join(sorted(known - {'url'}))}, got {short_repr(options)}")
        return cls(**{**defaults, **options})


class WebRetriever(HttpRetriever):
    """Search and pages of the web. A result is a passage with the page's URL as its id; a visit reads the page.

    Args:
        web_search: ``WebService`` as a mapping; by default in the form of Serper's replies.
        web_page: the page reader, as a mapping; by default in the form of Jina's. Without one, nothing can be visited.
        recording: JSON Lines file of requests and replies. What it has is not requested again; what it lacks is appended.
        replay: answer from the recording alone; a request that it lacks is an error, and no connection is made.
        page_passages: passages of about 120 words that one visit returns.
        reader: a model that chooses them, as for a site; None for those that share most words with the goal.
        summary: instead, a model that writes what the page says about the goal: arguments of ``page_readers.ModelSummary``.
        timeout, max_attempts, remember: see ``HttpRetriever``.
        max_bytes: most bytes of a reply.

    Raises:
        ConfigError: a wrong or missing option, or an unset variable.
        DataError: a malformed recording.
    """

    def __init__(
        self,
        web_search: Mapping[str, str],
        *,
        web_page: Mapping[str, str] | None = None,
        recording: str = "",
        replay: bool = False,
        page_passages: int = 5,
        reader: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        max_attempts: int = 4,
        remember: int = 100_000,
        max_bytes: int = 8 * 2**20,
    ) -> None:
        if replay and not recording:
            raise ConfigError("replay needs a recording, the file to answer from")
        if type(page_passages) is not int or not 1 <= page_passages <= 1_000:
            raise ConfigError(f"page_passages must be an integer from 1 to 1000, got {short_repr(page_passages)}")
        self._search = WebService.of(web_search, "web_search", count="num")
        self._page = None
        if web_page is not None:
            self._page = WebService.of(web_page, "web_page", query="url", results="data", link="url", text="content")
        super().__init__(self._search.url, timeout=timeout, max_attempts=max_attempts, remember=remember)
        self._replay, self._page_passages = replay, page_passages
        self._reader, self._summary = make_reader(reader), make_summary(summary)
        self._clients: dict[WebService, JsonClient] = {}
        for service in filter(None, (self._search, self._page) if not replay else ()):
            self._clients[service] = JsonClient(
                [service.url], timeout=timeout, max_attempts=max_attempts, max_bytes=max_bytes,
                key=ApiKey.named(service.key_variable), key_header=service.key_header,
            )  # fmt: skip
        self._recording = checked_path("recording", recording) if recording else None
        self._recorded: dict[str, Any] = {}
        self._writing = threading.Lock()
        if self._recording is not None:
            self._read_recording(self._recording, required=replay)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The first ``k`` results for each query, in the service's order; their scores fall from 0 by 1."""
        lists = []
        for query in queries:
            body = {self._search.query: query} | ({self._search.count: k} if self._search.count else {})
            rows = self._ask(self._search, body)
            if not isinstance(rows, list):
                raise ServiceError(f"the search service must send a list of results, got {short_repr(rows, 80)}")
            lists.append([Hit(self._result(row), -float(rank)) for rank, row in enumerate(rows[:k])])
        return lists

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        """What each page contains about the goal; None if it is not a URL, or if there is no page reader."""
        return [self._visited(url, goal) for url in ids]

    def _visited(self, url: str, goal: str) -> tuple[Passage, ...] | None:
        if self._page is None or urlsplit(url).scheme not in ("http", "https"):
            return None
        row = self._ask(self._page, {self._page.query: url})
        if not isinstance(row, dict) or not isinstance(row.get(self._page.text), str):
            raise ServiceError(f"the page service must send a page with a text, got {short_repr(row, 80)}")
        title, words = str(row.get(self._page.title) or url), row[self._page.text][:MAX_PAGE].split()
        texts = [" ".join(words[at : at + PASSAGE_WORDS]) for at in range(0, len(words), PASSAGE_WORDS)]
        if self._summary is not None:
            return (self._remembered(Passage(f"{url}#{goal}", title, self._summary(goal, texts), url)),)
        chosen = self._reader(goal, texts, self._page_passages)
        return tuple(self._remembered(Passage(f"{url}#{i}", title, texts[i], url)) for i in chosen)

    def _result(self, row: Any) -> Passage:
        service = self._search
        if not isinstance(row, dict) or not isinstance(row.get(service.link), str):
            raise ServiceError(f"a search result must have a {service.link!r}, got {short_repr(row, 80)}")
        url = row[service.link]
        title, text = str(row.get(service.title) or url), str(row.get(service.text) or "")
        return self._remembered(Passage(url, title, text[:MAX_PAGE], url, url))

    def _ask(self, service: WebService, body: dict[str, Any]) -> Any:
        """What a service replies, from the recording if it has it."""
        key = json.dumps([service.url, body], sort_keys=True)
        if key not in self._recorded:
            if self._replay:
                raise ServiceError(f"the recording {self._recording} lacks the request {short_repr(body)}")
            reply = self._clients[service].post("", body)
            with self._writing:
                self._recorded[key] = reply
                if self._recording is not None:
                    with self._recording.open("a", encoding="ascii") as file:
                        file.write(json.dumps({"request": [service.url, body], "reply": reply}) + "\n")
        reply = self._recorded[key]
        for name in filter(None, service.results.split(".")):
            reply = reply.get(name) if isinstance(reply, dict) else None
        return reply

    def _read_recording(self, path: Path, *, required: bool) -> None:
        if not path.exists():
            if required:
                raise DataError(f"there is no recording {path}")
            return
        for where, row in read_appended(path, _BEGINNING, "a recording of the web"):
            if not isinstance(row, dict) or row.keys() != {"request", "reply"}:
                raise DataError(f"{where}: not a recorded request, expected the keys 'request' and 'reply'")
            self._recorded[json.dumps(row["request"], sort_keys=True)] = row["reply"]

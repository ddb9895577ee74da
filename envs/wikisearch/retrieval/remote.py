"""The client of a search server: Search-R1's ``/retrieve`` and its variants.

search_r1    {"queries": […], "topk": k, "return_scores": true} → {"result": [[{"document": …, "score": …}]]}
rewardflow   {"query": "…", …}, one request per query, its result wrapped in a list of one
asearcher    as search_r1, and POST /access {"urls": […]} → {"result": [page or null]}
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, ServiceError, short_repr, unknown_name_error
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey
from creditflow.envs.wikisearch.retrieval.base import Hit, Passage, read_document

__all__ = ["SERVER_DIALECTS", "HttpRetriever"]

SERVER_DIALECTS: Final = ("search_r1", "rewardflow", "asearcher")
MAX_CONTENTS: Final = 1_000_000


class HttpRetriever:
    """Search through a server; keeps the passages, so that snapshots of this process can be restored.

    Args:
        url: one URL or several; several are tried in turn when one fails.
        dialect: the server's request format.
        path: path of the search endpoint.
        timeout, max_attempts, backoff: see ``JsonClient``.
        remember: number of passages kept in memory; older ones are dropped.
        key_variable: environment variable with the server's key, sent as ``Authorization: Bearer KEY``.
        client: replaces the client, in tests.

    Raises:
        ConfigError: an argument of the wrong type, a wrong URL or dialect, or a variable that is not set.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        dialect: str = "search_r1",
        path: str = "/retrieve",
        timeout: float = 30.0,
        max_attempts: int = 4,
        backoff: float = 0.2,
        remember: int = 100_000,
        key_variable: str = "",
        client: JsonClient | None = None,
    ) -> None:
        if dialect not in SERVER_DIALECTS:
            raise unknown_name_error("server dialect", dialect, SERVER_DIALECTS)
        numbers = {"timeout": timeout, "max_attempts": max_attempts, "backoff": backoff, "remember": remember}
        for name, value in numbers.items():
            if type(value) not in (int, float):
                raise ConfigError(f"{name} must be a number, got {short_repr(value)}")
        urls = (url,) if isinstance(url, str) else url
        if not isinstance(urls, Sequence) or not isinstance(path, str) or not isinstance(key_variable, str):
            raise ConfigError(
                f"url must be a text or a list of texts, path and key_variable texts, got {short_repr(url)}, {short_repr(path)} "
                f"and a {type(key_variable).__name__}"
            )
        key = ApiKey.named(key_variable)
        self._client = client or JsonClient(urls, timeout=timeout, max_attempts=max_attempts, backoff=backoff, key=key)
        self._dialect, self._path, self._remember = dialect, path, remember
        self._known: OrderedDict[str, Passage] = OrderedDict()
        self._lock = threading.Lock()
        self.digest = ""  # the content of a server is unknown

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The best ``k`` passages for each query, as the server ranks them."""
        if not queries:
            return []
        more = {"topk": k, "return_scores": True}
        if self._dialect == "rewardflow":
            lists = []
            for query in queries:
                lists += self._lists(self._client.post(self._path, {"query": query, **more}), 1)
        else:
            lists = self._lists(self._client.post(self._path, {"queries": list(queries), **more}), len(queries))
        return [[self._hit(row) for row in rows[:k]] for rows in lists]

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:  # noqa: ARG002 - pages come whole
        """The page of each URL, as one passage; None for an unknown one, and where the server has no access endpoint."""
        if self._dialect == "asearcher":
            pages = self._list(self._client.post("/access", {"urls": list(ids)}), len(ids))
            return [None if page is None else (self._document(page),) for page in pages]
        return [None] * len(ids)

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        """Passages by id, among those that this process has seen.

        Raises:
            DataError: this process has not seen one of them, or has dropped it (see ``remember``).
        """
        with self._lock:
            missing = [name for name in ids if name not in self._known]
            if missing:
                raise DataError(
                    f"this process has not seen the passage {missing[0][:60]!r}, and a server cannot return it by id"
                )
            return [self._known[name] for name in ids]

    def _list(self, answer: Any, n: int) -> list[Any]:
        rows = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or len(rows) != n:
            got = f"{len(rows)} entries" if isinstance(rows, list) else str(answer)[:80]
            raise ServiceError(
                f"expected a 'result' of {n} entries, one per query or URL, in their order; got {short_repr(got)}"
            )
        return rows

    def _lists(self, answer: Any, n: int) -> list[list[Any]]:
        rows = self._list(answer, n)
        for row in rows:
            if not isinstance(row, list):
                raise ServiceError(f"each query's result must be a list of documents, got {short_repr(row, 80)}")
        return rows

    def _hit(self, row: Any) -> Hit:
        """A hit with its score, or a bare document (from servers that ignore ``return_scores``)."""
        document, score = (row["document"], row.get("score", 0.0)) if _scored(row) else (row, 0.0)
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise ServiceError(f"a score must be a finite number, got {short_repr(score, 40)}")
        return Hit(self._document(document), float(score))

    def _document(self, row: Any) -> Passage:
        try:
            passage = read_document(row)
        except DataError as error:
            raise ServiceError(f"the server sent a malformed document: {error}") from error
        if len(passage.text) > MAX_CONTENTS:
            raise ServiceError(f"the server sent a document of {len(passage.text)} characters; at most {MAX_CONTENTS}")
        if not passage.id:
            digest = blake2b(passage.contents.encode("utf-8", "replace"), digest_size=8).hexdigest()
            passage = Passage(digest, passage.title, passage.text, passage.page)
        return self._remembered(passage)

    def _remembered(self, passage: Passage) -> Passage:
        """The passage, kept for ``fetch``."""
        with self._lock:
            self._known[passage.id] = passage
            self._known.move_to_end(passage.id)
            while len(self._known) > self._remember:
                self._known.popitem(last=False)
        return passage


def _scored(row: Any) -> bool:
    return isinstance(row, dict) and "document" in row

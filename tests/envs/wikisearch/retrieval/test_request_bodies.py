"""Request bodies of the search server: parsed, or rejected with a reason."""

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import BadRequestError
from creditflow.envs.wikisearch.retrieval.server import SearchRequest, ServerLimits, search_request


@pytest.mark.parametrize("topk", [3, "3", 3.0])
def test_both_dialects_are_parsed(topk: object) -> None:
    assert search_request({"queries": ["a"], "topk": topk}) == SearchRequest(("a",), 3, False)
    assert search_request({"query": "a", "topk": topk, "return_scores": True}) == SearchRequest(("a",), 3, True)


def test_query_and_queries_together_are_rejected() -> None:
    with pytest.raises(BadRequestError, match="not both"):
        search_request({"query": "a", "queries": ["b"]})


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="positive"):
        ServerLimits(pending=0)

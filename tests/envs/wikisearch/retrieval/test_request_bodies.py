"""Request bodies of the search server: parsed, or rejected with a reason."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import BadRequestError
from creditflow.envs.wikisearch.retrieval.server import SearchRequest, ServerLimits, search_request

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


KEYS = st.sampled_from(["queries", "query", "topk", "return_scores", "urls"])


@given(JSON | st.dictionaries(KEYS, JSON))
def test_any_body_is_parsed_or_rejected(body: Any) -> None:
    try:
        request = search_request(body)
    except BadRequestError as error:
        assert error.loc[0] == "body"
        return
    assert all(isinstance(query, str) for query in request.queries)
    assert request.topk >= 0


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

"""A row of the cache is continued only by the conversation that it holds: by its tokens, and by the pictures in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from creditflow.agents.backends.base import GenerationRequest
from creditflow.agents.backends.transformers_backend import Cohort
from creditflow.wrappers.records.pictures import EncodedPicture, picture_of

TOKEN = 7


def picture(value: int) -> EncodedPicture:
    pixels = picture_of(np.full((2, 2, 3), value, np.uint8))
    return EncodedPicture(pixels, np.zeros((4, 3), np.float32), (1, 2, 2), 2, TOKEN)


def request(key: str, ids: list[int], *values: int) -> GenerationRequest:
    return GenerationRequest(key, np.array(ids, np.int32), np.zeros(1), tuple(map(picture, values)))


@pytest.fixture
def cohort() -> Cohort:
    """Row 0: one picture and an answer; row 1: text."""
    held: list[Any] = [np.array([1, TOKEN, 2, 3], np.int32), np.array([1, 2], np.int32)]
    names = (picture(5).name,)
    return Cohort(["a", "b"], np.array([4, 2]), held, [names, ()], mask=None, used=4, cache=None)


def test_a_longer_conversation_continues_its_row(cohort: Cohort) -> None:
    longer = request("a", [1, TOKEN, 2, 3, TOKEN, 4], 5, 6)
    assert cohort.continued_by([request("b", [1, 2, 3]), longer]) == [1, 0]


@pytest.mark.parametrize(
    "other",
    [
        request("a", [1, TOKEN, 2, 3, TOKEN, 4], 6, 6),  # the same ids after another picture
        request("a", [1, TOKEN, 2, 3, 4]),  # none
        request("a", [1, TOKEN, 2, 9, 4], 5),
        request("a", [1, TOKEN, 2, 3], 5),  # nothing new
        request("c", [1, TOKEN, 2, 3, 4], 5),
    ],
)
def test_any_other_conversation_does_not(cohort: Cohort, other: GenerationRequest) -> None:
    assert cohort.continued_by([other]) is None


def test_two_requests_do_not_continue_one_row(cohort: Cohort) -> None:
    assert cohort.continued_by([request("b", [1, 2, 3]), request("b", [1, 2, 4])]) is None

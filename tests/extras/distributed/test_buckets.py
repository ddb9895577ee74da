"""Gradients are summed in buckets: each gradient once, in order, one type and device each, and no larger than the limit."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.train.distributed import gradients


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=12), st.integers(1, 9))
def test_every_gradient_is_in_one_bucket_of_its_type_within_the_limit(
    sizes: list[tuple[int, bool]], limit: int
) -> None:
    made = [torch.zeros(n, dtype=torch.float64 if double else torch.float32) for n, double in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "BUCKET_ELEMENTS", limit)
        found = list(gradients._buckets(made))
    assert [id(one) for bucket in found for one in bucket] == [id(one) for one in made]
    for bucket in found:
        assert len({one.dtype for one in bucket}) == 1
        assert len(bucket) == 1 or sum(one.numel() for one in bucket) <= limit
    for one, following in pairwise(found):  # none could have been longer
        assert one[0].dtype != following[0].dtype or sum(x.numel() for x in one) + following[0].numel() > limit

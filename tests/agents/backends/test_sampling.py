"""``Sampling`` rejects settings under which a token has no probability."""

from __future__ import annotations

import math
from typing import Any

import pytest

from creditflow.agents.backends.base import TEMPERATURES, Sampling
from creditflow.envs.errors import ConfigError


@pytest.mark.parametrize("temperature", [0.0, TEMPERATURES[0], 0.3, 1.0, 100.0, TEMPERATURES[1]])
def test_temperatures_with_finite_logits_are_accepted(temperature):
    assert Sampling(temperature=temperature).temperature == temperature


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-1.0, math.nan, math.inf, 5e-324, 1e-38, 1e38)),
        *(("top_p", value) for value in (0.0, -0.1, 1.1, math.nan)),
        ("top_k", -1),
        ("max_new_tokens", 0),
        ("entropies", -1),
    ],
)
def test_other_numbers_are_rejected_by_name(name, value):
    settings: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=name):
        Sampling(**settings)

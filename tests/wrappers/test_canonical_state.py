"""CanonicalState: rules rewrite the text key and nothing else."""

from __future__ import annotations

import pytest

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.canonical_state import RULES, CanonicalState, canonical_text

LEVEL = "######\n#@$ .#\n######"


def test_the_text_key_becomes_the_canonical_observation():
    env = CanonicalState(creditflow.make("sokoban", level=LEVEL), ["whitespace", "casefold"])
    obs, info = env.reset(seed=0)
    assert info["text_key"] == " ".join(obs.split()).casefold()
    plain = env.env.reset(seed=0)[1]
    assert {k: v for k, v in info.items() if k != "text_key"} == {k: v for k, v in plain.items() if k != "text_key"}


@pytest.mark.parametrize("rule", RULES)
def test_rules_are_idempotent(rule):
    text = "B: Mug 12,\n  a: Shelf  7\n"
    once = canonical_text(text, [rule])
    assert canonical_text(once, [rule]) == once


def test_unknown_rules_fail_at_construction():
    with pytest.raises(ConfigError, match="did you mean 'casefold'"):
        CanonicalState(creditflow.make("sokoban", level=LEVEL), ["casefld"])


def test_observations_must_be_text():
    env = CanonicalState(creditflow.make("sokoban", level=LEVEL, obs_mode="grid"))
    with pytest.raises(ConfigError, match="observations that are strings"):
        env.reset(seed=0)

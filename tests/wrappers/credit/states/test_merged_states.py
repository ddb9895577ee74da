"""Schemes with merged states: one partition for the graph and the comparison of turns, independent of order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.strategies import groups
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.wrappers.canonical.embedding import HashingEmbedder
from creditflow.wrappers.canonical.merge import merged_group, similar_states
from creditflow.wrappers.potentials import PotentialStore
from creditflow.wrappers.trajectory import Group

SCHEMES = ("gigpo", "graphgpo", "grouptd", "rewardflow")
SEMANTICS = [(name, "paper") for name in SCHEMES] + [(name, "release") for name in ("gigpo", "graphgpo", "rewardflow")]
PAGES = {
    "s": "The shop's front: type what you look for, or ask the clerk behind the counter for advice.",
    "a": "Granola bars in a cardboard box, twelve of them, with honey and nuts; rated four stars.",
    "b": "A woollen blanket, blue and white, wide enough for two; washing it by hand is advised.",
    "c": "Results one to ten of fifty: lamps, candles, lanterns and torches, sorted by their price.",
    "g": "Thank you for the purchase; the parcel leaves our warehouse on the following morning.",
    "x": "The basket was emptied because nobody came back to it within a quarter of an hour.",
}
REMARKS = ("", " Only today!", " Join the club.", " Free delivery.")


def shop(noise=True):
    """Trajectories through pages; with noise, hardly two visits have the same text."""
    walks = [
        walk("s a b g"), walk("s b g"), walk("s a x", "failed"), walk("s c s b a", "env_limit"), walk("s c b g"),
        walk("s a c c", "env_limit"), walk("s b x", "failed"),
    ]  # fmt: skip
    members = []
    for i, m in enumerate(walks):
        keys = [*(turn.state_key for turn in m.turns), m.final_state_key]
        texts = [PAGES[key] + REMARKS[(i + t) % 4] * noise for t, key in enumerate(keys)]
        turns = tuple(replace(turn, text_key=text) for turn, text in zip(m.turns, texts, strict=False))
        members.append(replace(m, turns=turns, final_text_key=texts[-1]))
    return group(*members)


@pytest.mark.parametrize(("name", "semantics"), SEMANTICS)
def test_merging_noisy_texts_gives_the_credit_of_the_true_states(name, semantics):
    options: dict[str, Any] = {"key": "text", "merge": "hash", "merge_threshold": 0.8}
    merged = credit.make(name, semantics=semantics, **options).assign(shop())
    true = credit.make(name, semantics=semantics, key="state").assign(shop())
    blind = credit.make(name, semantics=semantics, key="text").assign(shop())
    np.testing.assert_allclose(merged.flat_advantages, true.flat_advantages, atol=1e-12)
    np.testing.assert_allclose(merged.flat_step_rewards, true.flat_step_rewards, atol=1e-12)
    assert not np.allclose(blind.flat_advantages, true.flat_advantages)


@settings(max_examples=40)
@given(g=groups(), threshold=st.sampled_from([0.3, 0.5, 0.7, 0.85]))
@pytest.mark.parametrize("name", SCHEMES)
def test_merging_in_the_scheme_equals_merging_the_log(name, g, threshold):
    inside = credit.make(name, key="text", merge="hash", merge_threshold=threshold).assign(g)
    log = merged_group(g, similar_states(g, HashingEmbedder(), threshold).leader)
    before = credit.make(name, key="text").assign(log)
    np.testing.assert_allclose(inside.flat_advantages, before.flat_advantages, atol=1e-12)


@pytest.mark.parametrize("name", SCHEMES)
def test_the_order_of_rollouts_does_not_matter(name):
    report = credit.check_credit(credit.make(name, key="text", merge="hash", merge_threshold=0.85), draws=15)
    assert report.holds("permutation")


@pytest.mark.parametrize("name", SCHEMES)
def test_merging_is_off_by_default(name):
    for semantics in ("paper", "release"):
        if semantics in type(credit.make(name)).presets:
            assert credit.make(name, semantics=semantics).merge == "none"  # type: ignore[attr-defined]  # a StateScheme


def test_a_goal_is_never_merged_with_the_page_it_resembles():
    # the page before the purchase reads like the page after it; were they one, the step to success would be a loop
    def page(m, texts):
        turns = tuple(replace(turn, text_key=text) for turn, text in zip(m.turns, texts, strict=False))
        return replace(m, turns=turns, final_text_key=texts[-1])

    bought, review = PAGES["g"], PAGES["g"] + " Soon."
    g = group(page(walk("s r g"), [PAGES["s"], review, bought]), page(walk("s x", "failed"), [PAGES["s"], PAGES["x"]]))
    c = credit.make("rewardflow", key="text", merge="hash", merge_threshold=0.7).assign(g)
    assert c.flat_step_rewards == pytest.approx([0.1 * 0.9, 0.1, -0.81])


def test_states_compared_by_observation_when_keys_are_digests():
    plain = shop()
    hidden = Group(
        tuple(
            replace(
                m,
                turns=tuple(
                    replace(turn, observation=turn.text_key, text_key=f"{i + 1:016x}{t:016x}")
                    for t, turn in enumerate(m.turns)
                ),
                final_text_key=f"{i:032x}",
            )
            for i, m in enumerate(plain.trajectories)
        )
    )
    merged: dict[str, Any] = {"key": "text", "merge": "hash", "merge_threshold": 0.8}
    seen = credit.make("gigpo", **merged, merge_text="observation").assign(hidden)
    np.testing.assert_allclose(seen.flat_advantages, credit.make("gigpo", **merged).assign(plain).flat_advantages)
    with pytest.raises(TrajectoryError, match="digests"):
        credit.make("gigpo", **merged).assign(hidden)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gigpo", {"merge": "hash"}, "key='text'"),
        ("gigpo", {"merge": "hash", "key": "text", "similarity": 0.9}, "mutually exclusive"),
        ("graphgpo", {"merge": "hash", "key": "text", "similarity": 0.9}, "mutually exclusive"),
        ("graphgpo", {"merge": "hsh", "key": "text"}, "did you mean 'hash'"),
        ("grouptd", {"merge": "hash", "key": "text", "merge_threshold": 0.0}, r"\(0, 1\]"),
        ("rewardflow", {"merge": "hash", "key": "text", "merge_threshold": 1.5}, r"\(0, 1\]"),
        (
            "rewardflow",
            {"merge": "hash", "key": "text", "pruning": "alfworld", "propagation": "first_seen_rewards"},
            "text of every state",
        ),
    ],
)
def test_invalid_combinations_are_errors_that_suggest_a_remedy(name, options, message):
    with pytest.raises(ConfigError, match=message):
        credit.make(name, **options)


@pytest.mark.parametrize("name", ["graphgpo", "grouptd", "rewardflow"])
def test_potentials_cannot_merge_states(name):
    with pytest.raises(ConfigError, match="CanonicalState"):
        PotentialStore(name, key="text", merge="hash")

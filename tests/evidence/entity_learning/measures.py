"""What episodes do that a reward could be hacked by: names listed in thoughts, searches repeated or never ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.text.entity_matching import EntityMatcher
from creditflow.envs.wikisearch.protocol.dialects import dialect
from creditflow.train.rollout.answers import answer_scores
from creditflow.wrappers.records.group import Group

MEASURES: Final = ("success", "named", "unasked", "searches", "repeated", "limit", "turns", "invalid", "tokens")


def behaviour(groups: Sequence[Group], names: Sequence[str]) -> dict[str, float]:
    """Means over the episodes of a rollout.

    Args:
        groups: recorded with their texts.
        names: every name of the encyclopedia.

    Returns:
        ``success``; ``named`` and ``unasked``: names per thought, and those of them outside the question's entity graph;
        ``searches``, ``repeated``: searches per episode, and those for what the episode had searched for before; ``limit``:
        the share of episodes that ended without an answer; ``turns``; ``invalid``: the share of turns; ``tokens``: written
        per episode.
    """
    matcher = EntityMatcher([(name,) for name in names])
    rows, thoughts = [], []
    for group in groups:
        asked = {entity["name"] for entity in group.task["entities"]}
        for member in group.trajectories:
            queries = [query for turn in member.turns for query in turn.queries]
            found = [{names[i] for i in matcher.found(turn.thought)} for turn in member.turns]
            thoughts += [(len(one), len(one - asked)) for one in found]
            invalid = np.mean([not turn.valid for turn in member.turns]) if member.turns else 0.0
            written = 0 if member.tokens is None else int(member.tokens.mask.sum())
            rows.append((member.success, len(queries), len(queries) - len(set(queries)), member.stop_reason == "env_limit",
                         len(member.turns), invalid, written))  # fmt: skip
    success, searches, repeated, limit, turns, invalid_share, tokens = np.array(rows, np.float64).mean(axis=0).tolist()
    named, unasked = np.array(thoughts, np.float64).mean(axis=0).tolist()
    values = (success, named, unasked, searches, repeated, limit, turns, invalid_share, tokens)
    return {name: round(value, 4) for name, value in zip(MEASURES, values, strict=True)}


def answers(rounds: Sequence[Sequence[Group]]) -> dict[str, NDArray[np.float64]]:
    """Exact match and F1, float64 (questions,), means over rounds of one episode per question."""
    plain = dialect("plain")
    found = [[answer_scores(group, 0, plain) for group in groups] for groups in rounds]
    return {name: np.mean([[one[name] for one in groups] for groups in found], axis=0) for name in ("em", "f1")}

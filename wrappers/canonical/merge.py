"""Merging a group's similar states: which texts stand for the states, one partition of them, and a log rewritten by it.

A scheme takes the partition as labels (``merge="hash"``), for its graph and its comparison groups alike. What needs a
model happens before the scheme: ``merged_group`` writes the name of each cluster over the text keys, and every scheme
with ``key="text"`` then sees merged states.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError, unknown_name_error
from creditflow.wrappers.canonical.clusters import Clusters, leader_clusters
from creditflow.wrappers.canonical.embedding import Embedder
from creditflow.wrappers.records.arrays import StateIndex
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = [
    "TextSource",
    "compared_keys",
    "merged_group",
    "merged_states",
    "renamed_texts",
    "similar_states",
    "state_texts",
]

TextSource = Literal["key", "observation"]
_DIGEST = re.compile(r"(?:[\w-]+:)?[0-9a-f]{32,128}")


def state_texts(group: Group, source: TextSource) -> list[str | None]:
    """The text of each of the group's K text keys; None where the log has none.

    Args:
        group: with text keys.
        source: "key" takes the key itself; "observation" what was seen in the state (of several observations of one
            key the shortest, then the first in the alphabet), for environments whose text keys are digests. A state in
            which nobody acted has no observation.

    Raises:
        TrajectoryError: there are no such texts.
        ConfigError: ``source`` is something else.
    """
    keys, state = group.states("text").keys, group.states("text").state
    if source == "key":
        if keys and all(_DIGEST.fullmatch(key) for key in keys):
            raise TrajectoryError(
                f"group {group.group_id!r}: text keys such as {keys[0]!r} are digests, which are never similar; compare "
                "what was seen: merge_text='observation'"
            )
        return list(keys)
    if source != "observation":
        raise unknown_name_error("value of merge_text", str(source), ["key", "observation"])
    texts: list[str | None] = [None] * len(keys)
    for k, turn in zip(state.tolist(), group.turns, strict=True):
        known = texts[k]
        if turn.observation and (known is None or (len(turn.observation), turn.observation) < (len(known), known)):
            texts[k] = turn.observation
    if group.turns and not any(texts):
        raise TrajectoryError(
            f"group {group.group_id!r} has no observations: record them (Recorder, texts=True), or merge_text='key'"
        )
    return texts


def compared_keys(states: StateIndex, ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool (K,): keys of states that somebody acted in or passed; ends are typed nodes and merge with nothing.

    Args:
        states: of a group of N turns.
        ended: bool (N,), turns after which there is a typed end instead of a state.
    """
    met = np.zeros(len(states.keys), np.bool_)
    met[states.state] = True
    met[states.next_state[~ended]] = True
    return met


def similar_states(
    group: Group,
    embedder: Embedder,
    threshold: float,
    *,
    source: TextSource = "key",
    ended: NDArray[np.bool_] | None = None,
) -> Clusters:
    """Partition the group's K text keys; see ``canonical_clusters`` for the rule.

    Shorter texts lead: of pages that differ by inserted noise, the one with least noise is nearest to all others. The
    partition depends on the set of texts alone, not on the order of rollouts or how often a state was visited.

    Args:
        group: the rollouts of one task.
        embedder: of texts.
        threshold: least similarity of a state to its cluster's leader, in (0, 1].
        source: which text of a state is compared.
        ended: bool (N,), turns after which there is a typed end; default the last turns of successes and failures.
    """
    arrays, states = group.arrays, group.states("text")
    if ended is None:
        ended = arrays.last & (arrays.end != TRUNCATED)[arrays.trajectory]
    texts = state_texts(group, source)
    met = compared_keys(states, ended)
    chosen = sorted((len(text), text, states.keys[k], k) for k, text in enumerate(texts) if text is not None and met[k])
    number = np.array([k for *_, k in chosen], np.int32)
    found = leader_clusters(embedder.embed([text for _, text, *_ in chosen]), range(len(chosen)), threshold)
    leader = np.arange(len(states.keys), dtype=np.int32)
    similarity = np.ones(len(states.keys))
    leader[number], similarity[number] = number[found.leader], found.similarity
    return Clusters(leader, similarity, found.comparisons, found.visited)


def merged_states(states: StateIndex, leader: NDArray[np.int32]) -> StateIndex:
    """The states with every key's number replaced by its leader's."""
    return StateIndex(states.keys, leader[states.state], leader[states.next_state])


def merged_group(group: Group, leader: NDArray[np.int32]) -> Group:
    """The group with every text key replaced by its leader's.

    Args:
        group: with text keys.
        leader: int (K,), for each text key the number of the key that represents it.
    """
    keys = group.states("text").keys
    return renamed_texts(group, [keys[k] for k in leader.tolist()])


def renamed_texts(group: Group, names: Sequence[str]) -> Group:
    """The group with the K text keys replaced by ``names``; the keys of rollouts without turns stay."""
    named = dict(zip(group.states("text").keys, names, strict=True))
    return Group(
        tuple(
            replace(
                member,
                turns=tuple(replace(turn, text_key=named[turn.text_key]) for turn in member.turns),
                final_text_key=named.get(member.final_text_key, member.final_text_key),
            )
            for member in group.trajectories
        ),
        group.task,
    )

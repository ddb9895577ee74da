"""Merging similar states of a group: the texts of the states, a partition of them, and a log rewritten by it.

A scheme takes the partition as labels (``merge="hash"``), both for its graph and where it compares turns. Merging by a
model happens before the scheme: ``merged_group`` replaces text keys by those of their clusters, and every scheme with
``key="text"`` then sees merged states.
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
    "compared_texts",
    "merged_group",
    "merged_states",
    "renamed_texts",
    "similar_states",
    "state_texts",
]

TextSource = Literal["key", "observation"]
_DIGEST = re.compile(r"(?:[\w-]+:)?[0-9a-f]{32,128}")


def state_texts(group: Group, source: TextSource) -> list[str | None]:
    """Return the text of each of the group's K text keys; None where the log has none.

    Args:
        group: a group with text keys.
        source: "key" takes the key itself; "observation" the observation in the state (the shortest of several, then the
            first in alphabetical order), for environments whose text keys are digests. A state in which no action was
            taken has no observation.

    Raises:
        TrajectoryError: there are no such texts.
        ConfigError: ``source`` has another value.
    """
    keys, state = group.states("text").keys, group.states("text").state
    if source == "key":
        if keys and all(_DIGEST.fullmatch(key) for key in keys):
            raise TrajectoryError(
                f"group {group.group_id!r}: text keys such as {keys[0]!r} are digests, which are never similar; compare "
                "observations: merge_text='observation'"
            )
        return list(keys)
    if source != "observation":
        raise unknown_name_error("value of merge_text", str(source), ["key", "observation"])
    texts: list[str | None] = [None] * len(keys)
    for k, turn in zip(state.tolist(), group.turns, strict=True):
        shortest = texts[k]
        if turn.observation and (
            shortest is None or (len(turn.observation), turn.observation) < (len(shortest), shortest)
        ):
            texts[k] = turn.observation
    if group.turns and not any(texts):
        raise TrajectoryError(
            f"group {group.group_id!r} has no observations: record them (Recorder, texts=True), or merge_text='key'"
        )
    return texts


def compared_keys(states: StateIndex, ended: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool (K,): keys of open states; terminal nodes are typed and never merge.

    Args:
        states: states of a group of N turns.
        ended: bool (N,), turns that lead to a typed terminal node.
    """
    compared = np.zeros(len(states.keys), np.bool_)
    compared[states.state] = True
    compared[states.next_state[~ended]] = True
    return compared


def similar_states(
    group: Group,
    embedder: Embedder,
    threshold: float,
    *,
    source: TextSource = "key",
    end_states: NDArray[np.bool_] | None = None,
) -> Clusters:
    """Partition the group's K text keys; see ``clusters.py`` for the rule.

    Shorter texts lead: of pages that differ by inserted noise, the one with least noise is nearest to all others. The
    partition depends on the set of texts alone, not on the order of trajectories or the number of visits.

    Args:
        group: trajectories of one task.
        embedder: embedder of the texts.
        threshold: minimum similarity of a state to its cluster's leader, in (0, 1].
        source: text of a state that is compared.
        end_states: bool (N,), turns that lead to a typed terminal node; default the last turns of successes and failures.

    Raises:
        TrajectoryError: the group has no texts to compare (see ``state_texts``).
        ConfigError: the threshold or ``source`` is invalid.
    """
    arrays, states = group.arrays, group.states("text")
    if end_states is None:
        end_states = arrays.last & (arrays.end != TRUNCATED)[arrays.trajectory]
    texts = state_texts(group, source)
    compared = compared_keys(states, end_states)
    chosen = sorted(
        (len(text), text, states.keys[k], k) for k, text in enumerate(texts) if text is not None and compared[k]
    )
    number = np.array([k for *_, k in chosen], np.int32)
    clusters = leader_clusters(embedder.embed([text for _, text, *_ in chosen]), range(len(chosen)), threshold)
    leader = np.arange(len(states.keys), dtype=np.int32)
    similarity = np.ones(len(states.keys))
    leader[number], similarity[number] = number[clusters.leader], clusters.similarity
    return Clusters(leader, similarity, clusters.comparisons, clusters.visited)


def compared_texts(group: Group, source: TextSource) -> list[str]:
    """The distinct texts that ``similar_states`` may compare."""
    return sorted({text for text in state_texts(group, source) if text is not None})


def merged_states(states: StateIndex, leader: NDArray[np.int32]) -> StateIndex:
    """Replace the index of every key by its leader's."""
    return StateIndex(states.keys, leader[states.state], leader[states.next_state])


def merged_group(group: Group, leader: NDArray[np.int32]) -> Group:
    """Replace every text key of the group by its leader's.

    Args:
        group: a group with text keys.
        leader: int (K,), for each text key the index of the key that represents it.
    """
    keys = group.states("text").keys
    return renamed_texts(group, [keys[k] for k in leader.tolist()])


def renamed_texts(group: Group, names: Sequence[str]) -> Group:
    """Replace the K text keys of the group by ``names``; keys of trajectories without turns stay."""
    new_keys = dict(zip(group.states("text").keys, names, strict=True))
    members = []
    for member in group.trajectories:
        turns = tuple(replace(turn, text_key=new_keys[turn.text_key]) for turn in member.turns)
        final = new_keys.get(member.final_text_key, member.final_text_key)
        members.append(replace(member, turns=turns, final_text_key=final))
    return Group(
        tuple(members),
        group.task,
    )

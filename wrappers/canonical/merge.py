"""Merging similar states of a group: the texts of the states, a partition of them, and a log rewritten by it.

``merged_group`` replaces text keys by those of their clusters, and every scheme with ``key="text"`` then sees merged states.

The partition is by clusters of similar vectors, independent of input order: leader clustering in an order that depends on the items alone: each item joins the most similar leader before it, if one
is similar enough, else it becomes a leader. Every member therefore has at least similarity ``threshold`` to its leader.
Single-linkage clustering would need no order, but would merge whole episodes: every page differs a little from the one
before, so the states of an episode are a chain of similar pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr, unknown_name_error
from creditflow.wrappers.records.group import Group, StateIndex
from creditflow.wrappers.records.stop_reasons import TRUNCATED

__all__ = [
    "DenseVectors",
    "Embedder",
    "TextSource",
    "compared_keys",
    "compared_texts",
    "leader_clusters",
    "merged_group",
    "renamed_texts",
    "similar_states",
    "state_texts",
]

TextSource = Literal["key", "observation"]
_DIGEST = re.compile(r"(?:[\w-]+:)?[0-9a-f]{32,128}")
ROUNDING = 1e-9  # precision of comparisons, so that results do not depend on the machine's rounding
DenseVectors = NDArray[np.float32]  # (n, d), rows of length 1 (or 0: similar to nothing)


class Embedder(Protocol):
    """Map from texts to unit vectors whose inner product is their similarity. Equal texts have equal vectors."""

    def embed(self, texts: Sequence[str]) -> DenseVectors:
        """Return one row per text."""
        ...


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


def ended_turns(group: Group) -> NDArray[np.bool_]:
    """bool (N,): the last turns of successes and failures, not of truncated episodes."""
    arrays = group.arrays
    is_end: NDArray[np.bool_] = arrays.last & (arrays.end != TRUNCATED)[arrays.trajectory]
    return is_end


def similar_states(
    group: Group, embedder: Embedder, threshold: float, *, source: TextSource = "key"
) -> NDArray[np.int32]:
    """Partition the group's K text keys; returns int32 (K,), the key that represents each. See above for the rule.

    Shorter texts lead: of pages that differ by inserted noise, the one with least noise is nearest to all others. The
    partition depends on the set of texts alone, not on the order of trajectories or the number of visits.

    Args:
        group: trajectories of one task.
        embedder: embedder of the texts.
        threshold: minimum similarity of a state to its cluster's leader, in (0, 1].
        source: text of a state that is compared.

    Raises:
        TrajectoryError: the group has no texts to compare (see ``state_texts``).
        ConfigError: the threshold or ``source`` is invalid.
    """
    states = group.states("text")
    texts = state_texts(group, source)
    compared = compared_keys(states, ended_turns(group))
    chosen = sorted(
        (len(text), text, states.keys[k], k) for k, text in enumerate(texts) if text is not None and compared[k]
    )
    number = np.array([k for *_, k in chosen], np.int32)
    leader = np.arange(len(states.keys), dtype=np.int32)
    vectors = embedder.embed([text for _, text, *_ in chosen])
    leader[number] = number[leader_clusters(vectors, range(len(chosen)), threshold)]
    return leader


def compared_texts(group: Group, source: TextSource) -> list[str]:
    """The distinct texts that ``similar_states`` may compare."""
    return sorted({text for text in state_texts(group, source) if text is not None})


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
    return Group(tuple(members), group.task)


def leader_clusters(vectors: DenseVectors, order: Sequence[int], threshold: float) -> NDArray[np.int32]:
    """Cluster the rows of ``vectors``; returns int32 (n,), the leader of each row's cluster. Leaders lead themselves.

    Args:
        vectors: n rows of length 1.
        order: all n row indices, in an order that depends on the rows' content alone. Earlier rows become leaders.
        threshold: minimum inner product of a member with its leader, in (0, 1].

    Raises:
        ConfigError: the threshold is outside (0, 1].
    """
    if not 0.0 < threshold <= 1.0:
        raise ConfigError(f"a similarity threshold must lie in (0, 1], got {short_repr(threshold)}")
    rows = np.asarray(vectors, np.float64)
    leader = np.arange(len(rows), dtype=np.int32)
    leaders, of_leaders = list[int](), np.empty_like(rows)
    for i in order:
        if leaders:
            scores = np.round(of_leaders[: len(leaders)] @ rows[i], 9)
            best = int(scores.argmax())  # among equals the first leader
            if scores[best] >= threshold - ROUNDING:
                leader[i] = leaders[best]
                continue
        of_leaders[len(leaders)] = rows[i]
        leaders.append(i)
    return leader

"""The effect of merging similar text states on the states of a log, and on the credit that schemes assign there.

Merges are compared with the true state keys of the log: how many turns are in merged states that stand for several
true ones or in true ones that stay split, how much step credit there is, and how far it agrees with that under the true keys. GraphGPO's noisy shop
(appendix D.3) and RewardFlow's search setting (appendix B) are this table for their rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.sentence_embedder import make_embedder
from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.train.statistics import spearman
from creditflow.train.text_table import text_table
from creditflow.wrappers import credit
from creditflow.wrappers.canonical.embedding import Embedder
from creditflow.wrappers.canonical.merge import (
    TextSource,
    compared_keys,
    merged_group,
    renamed_texts,
    similar_states,
    state_texts,
)
from creditflow.wrappers.canonical.similarity import greedy_similarity
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import GOAL

__all__ = [
    "MERGES",
    "SCHEMES",
    "Agreement",
    "Merge",
    "MergeRow",
    "Partition",
    "merging",
    "merging_json",
    "merging_text",
]

MERGES = ("state", "none", "released@0.95", "difflib@0.95", "hash@0.9", "hash@0.95")
SCHEMES = ("gigpo", "graphgpo", "rewardflow", "grouptd")


class Partition(NamedTuple):
    """The merged states compared with the true ones, over all groups.

    Attributes:
        states: number of states acted in.
        aliased: fraction of turns whose state stands for several true states.
        fragmented: fraction of turns whose true state is split into several states.
        precision: of the pairs of turns in one state, the fraction in one true state; 1 without pairs.
        recall: of the pairs of turns in one true state, the fraction in one state; 1 without pairs.
        comparisons: number of comparisons of two texts that the merge made.
    """

    states: int
    aliased: float
    fragmented: float
    precision: float
    recall: float
    comparisons: int


class Agreement(NamedTuple):
    """A scheme's step credit under a merge compared with that under the true keys.

    Attributes:
        coverage: fraction of turns with step credit.
        same, opposite: of the turns with step credit under the true keys, the fractions with the same and with the opposite
            sign; the rest has none.
        rank: Spearman's correlation over all turns; nan if one side is constant.
    """

    coverage: float
    same: float
    opposite: float
    rank: float


@dataclass(frozen=True)
class MergeRow:
    """One merge: its partition, and its effect on every scheme for which it is defined."""

    merge: str
    partition: Partition
    schemes: dict[str, Agreement]


@dataclass(frozen=True)
class Merge:
    """A way of merging text states.

    Attributes:
        name: as given.
        kind: "none" (equal texts), "state" (the true keys), "released" (greedy, by difflib's ratio; GraphGPO merges
            the graph only), "difflib" (the same clusters, in graph and groups), or "embedder".
        threshold: minimum similarity, in (0, 1].
        embedder: embedder of the kind "embedder".
    """

    name: str
    kind: str
    threshold: float = 1.0
    embedder: Embedder | None = None

    @classmethod
    def parse(cls, text: str) -> Merge:
        """``none``, ``state``, ``released@T``, ``difflib@T``, ``hash@T`` or ``hf:MODEL@T``.

        Raises:
            ConfigError: the text has another form, or names an unknown embedder.
        """
        if text in ("none", "state"):
            return cls(text, text)
        by, at, number = text.rpartition("@")
        if not at:
            forms = ["none", "state", "released@0.95", "difflib@0.95", "hash@0.9", "hf:MODEL@0.9"]
            raise unknown_name_error("merge", text, forms)
        try:
            threshold = float(number)
        except ValueError:
            threshold = float("nan")
        if not 0.0 < threshold <= 1.0:
            raise ConfigError(f"a merge is written NAME@THRESHOLD with a threshold in (0, 1], got {short_repr(text)}")
        if by in ("released", "difflib"):
            return cls(text, by, threshold)
        return cls(text, "embedder", threshold, make_embedder(by))

    def apply(self, group: Group, source: TextSource) -> tuple[Group, int]:
        """The group with merged text keys, and the number of comparisons of two texts."""
        if self.kind in ("none", "state"):
            return group, 0
        if self.embedder is not None:
            merged = similar_states(group, self.embedder, self.threshold, source=source)
            return merged_group(group, merged.leader), merged.comparisons
        leader, comparisons = _greedy(group, self.threshold, source)
        return merged_group(group, leader), comparisons


def _greedy(group: Group, threshold: float, source: TextSource) -> tuple[NDArray[np.int32], int]:
    """Clusters as in the released code: int32 (K,), the leader of each text key; and the number of comparisons.

    States are compared in the order in which the rollouts visit them.
    """
    arrays, states = group.arrays, group.states("text")
    texts = state_texts(group, source)
    arrived = arrays.last & (arrays.end == GOAL)[arrays.trajectory]
    met = compared_keys(states, arrived)
    passed = np.stack([states.state, np.where(arrived, states.state, states.next_state)], axis=1).ravel()
    order = [k for k in dict.fromkeys(passed.tolist()) if met[k] and texts[k] is not None]
    leader = greedy_similarity([text or "" for text in texts], order, threshold)
    founders: dict[int, int] = {}
    comparisons = 0
    for k in order:
        founder = int(leader[k])
        comparisons += founders[founder] + 1 if founder in founders else len(founders)
        founders.setdefault(founder, len(founders))
    return leader, comparisons


def merging(
    groups: Sequence[Group],
    merges: Sequence[str] = MERGES,
    schemes: Sequence[str] = SCHEMES,
    *,
    source: TextSource = "key",
) -> list[MergeRow]:
    """Compare merges with the log's true states.

    Args:
        groups: groups with text keys (and observations, if they are the source), with at least one turn.
        merges: names of merges, see ``Merge.parse``.
        schemes: names of schemes that compare states, in paper semantics.
        source: which text of a state is compared.

    Raises:
        ConfigError: a merge is unknown, or a scheme does not compare states.
        DataError: the log has no turns or no text keys.
    """
    if not any(group.turns for group in groups):
        raise DataError("the log has no turns: there is nothing to merge")
    ways = [Merge.parse(text) for text in merges]
    for name in schemes:
        if not isinstance(credit.make(name), StateScheme):
            eligible = [n for n in credit.names() if isinstance(credit.make(n), StateScheme)]
            raise unknown_name_error("scheme with states", name, eligible)
    truth = {name: _step_credit(credit.make(name), groups) for name in schemes}
    rows = []
    for way in ways:
        changed, comparisons = zip(*(way.apply(group, source) for group in groups), strict=True)
        partition = _partition(groups, changed, way.kind == "state", sum(comparisons))
        effects = {}
        for name in schemes:
            if way.kind == "released":
                if name != "graphgpo":
                    continue  # for other schemes it equals "difflib", or does not exist
                # graph nodes are merged, comparison groups are not
                scheme = credit.make(name, key="text", similarity=min(way.threshold, 1.0 - 1e-9))
                got = _step_credit(scheme, [_shown(group, source) for group in groups])
            else:
                scheme = credit.make(name, key="state" if way.kind == "state" else "text")
                got = _step_credit(scheme, changed)
            effects[name] = _agreement(got, truth[name])
        rows.append(MergeRow(way.name, partition, effects))
    return rows


def _shown(group: Group, source: TextSource) -> Group:
    """The group with the texts that are compared as text keys."""
    keys = group.states("text").keys
    return renamed_texts(group, [text or key for key, text in zip(keys, state_texts(group, source), strict=True)])


def _step_credit(scheme: credit.Scheme, groups: Sequence[Group]) -> NDArray[np.float64]:
    return np.concatenate([c.flat_step_advantages for c in scheme.assign_batch(groups)])


def _agreement(got: NDArray[np.float64], truth: NDArray[np.float64]) -> Agreement:
    counted = truth != 0.0
    signs = np.sign(got[counted]) * np.sign(truth[counted])
    same, opposite = (float((signs == s).mean()) if len(signs) else float("nan") for s in (1.0, -1.0))
    return Agreement(float((got != 0.0).mean()), same, opposite, spearman(got, truth))


def _partition(groups: Sequence[Group], changed: Sequence[Group], true: bool, comparisons: int) -> Partition:
    """The merged states of each group compared with its true states."""
    states = 0
    aliased, fragmented = list[NDArray[np.bool_]](), list[NDArray[np.bool_]]()
    shared_pairs = merged_pairs = true_pairs = 0
    for group, merged in zip(groups, changed, strict=True):
        true_label = group.states("state").state.astype(np.int64)
        label = true_label if true else merged.states("text").state.astype(np.int64)
        pair = label * (int(true_label.max(initial=0)) + 1) + true_label
        _, first, count = np.unique(pair, return_index=True, return_counts=True)
        for value, out in ((label, aliased), (true_label, fragmented)):
            n_counterparts = np.bincount(value[first], minlength=int(value.max(initial=0)) + 1)
            out.append(n_counterparts[value] > 1)
        states += len(np.unique(label))
        shared_pairs += _pairs(count)
        merged_pairs += _pairs(np.bincount(label))
        true_pairs += _pairs(np.bincount(true_label))
    return Partition(
        states,
        float(np.concatenate(aliased).mean()),
        float(np.concatenate(fragmented).mean()),
        shared_pairs / merged_pairs if merged_pairs else 1.0,
        shared_pairs / true_pairs if true_pairs else 1.0,
        comparisons,
    )


def _pairs(count: NDArray[np.int64]) -> int:
    """Number of unordered pairs within classes of these sizes."""
    return int((count * (count - 1) // 2).sum())


def merging_text(rows: Sequence[MergeRow]) -> str:
    """The rows as two text tables: states, and credit by scheme."""
    states = [["merge", *Partition._fields]]
    for row in rows:
        p = row.partition
        fractions = [f"{x:.1%}" for x in (p.aliased, p.fragmented, p.precision, p.recall)]
        states.append([row.merge, str(p.states), *fractions, str(p.comparisons)])
    effects = [["scheme", "merge", "step credit", "same sign", "opposite sign", "rank correlation"]]
    for name in dict.fromkeys(name for row in rows for name in row.schemes):
        for row in rows:
            if name in row.schemes:
                a = row.schemes[name]
                effects.append([name, row.merge, *(f"{x:.1%}" for x in a[:3]), f"{a.rank:.3f}"])
    return f"{text_table(states)}\n\n{text_table(effects)}"


def merging_json(rows: Sequence[MergeRow]) -> list[dict[str, Any]]:
    """The rows as plain JSON values."""
    documents = []
    for row in rows:
        schemes = {name: _finite(agreement._asdict()) for name, agreement in row.schemes.items()}
        documents.append({"merge": row.merge, **row.partition._asdict(), "schemes": schemes})
    return documents


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(number) else number for name, number in numbers.items()}

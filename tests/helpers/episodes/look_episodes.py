"""Episodes in which one look finds what is wanted, and their labels."""

from __future__ import annotations

import numpy as np

from creditflow.train.annotate.success.labels import Labels
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

WORDS = ("ash", "birch", "cedar", "elm")


def episodes(count: int = 24) -> list[Group]:
    """Find the word that the question names: the right one is a pivot, and without it nothing succeeds."""
    rng = np.random.default_rng(0)
    groups = []
    for g in range(count // 2):
        members = []
        asked = WORDS[g % len(WORDS)]
        for i in range(2):
            tried = [WORDS[int(k)] for k in rng.permutation(len(WORDS))[:2]]
            won = asked in tried
            shown = [f"find {asked}", *(f"seen {word}" for word in tried)]
            turns = tuple(
                Turn(
                    f"s{t}", f"look {word}" if word else "answer", f"s{t + 1}", observation=shown[t],
                    queries=(word,) if word else (),
                )
                for t, word in enumerate([*tried, ""])
            )  # fmt: skip
            members.append(
                Trajectory(
                    f"{i}", f"g{g}", f"task{g}", turns, won, float(won), "success" if won else "failed", "s3"
                )
            )  # fmt: skip
        groups.append(Group(tuple(members)))
    return groups


def labels_of(groups: list[Group]) -> list[Labels]:
    out = []
    for group in groups:
        for member in group.trajectories:
            asked = member.turns[0].observation.split()[1]
            tools = ["+" if turn.queries == (asked,) else "-" for turn in member.turns[:-1]]
            last = "+" if member.success else "-"
            out.append(Labels(group.group_id, member.trajectory_id, (*tools, last), member.success, "rule"))
    return out

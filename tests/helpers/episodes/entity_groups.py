"""Search rollouts by hand: one small graph, and turns as (thought, what the search showed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

# Inception → Nolan → London (the answer); science fiction hangs on Inception, 3 edges away
FILM: Mapping[str, Any] = {
    "entities": ["Inception", {"name": "Christopher Nolan", "aliases": ["Nolan"]}, "London", "Science Fiction"],
    "edges": [
        ["Inception", "director", "Christopher Nolan"],
        ["Christopher Nolan", "place of birth", "London"],
        ["Inception", "genre", "Science Fiction"],
    ],
    "answer_node": "London",
    "answers": ["London"],
    "text": "Where was the director of Inception born?",
}
ALL = "Inception, Christopher Nolan, London, Science Fiction"


def search(
    *steps: tuple[str, str], end: StopReason = "failed", name: str = "t", queries: Sequence[str] = (), **fields: Any
) -> Trajectory:
    """A rollout: each step thinks, then is shown a text (the last one's is not in the log)."""
    observations = ["the question", *(shown for _, shown in steps)]
    turns = tuple(
        Turn(f"{t}", "search", f"{t + 1}", thought=thought, observation=observations[t], queries=tuple(queries))
        for t, (thought, _) in enumerate(steps)
    )
    success = end == "success"
    return Trajectory(name, "g", "task", turns, success, float(success), end, f"{len(steps)}", **fields)


def searches(*members: Trajectory, task: Mapping[str, Any] = FILM) -> Group:
    """The group of these rollouts."""
    return Group(members, task)


NAMES = ("Inception", "Christopher Nolan", "London", "Science Fiction", "nobody", "annual Londoners")
texts = st.lists(st.sampled_from(NAMES), max_size=4).map(" and ".join)
steps = st.lists(st.tuples(texts, texts), min_size=1, max_size=5)
entity_groups = st.lists(
    st.tuples(steps, st.sampled_from(["success", "failed", "format", "env_limit"])), min_size=1, max_size=5
)


def built(drawn: list[tuple[list[tuple[str, str]], StopReason]], task: Any = FILM) -> Group:
    return searches(*(search(*rows, end=end, name=f"{i}") for i, (rows, end) in enumerate(drawn)), task=task)


def score(name: str, group: Group, **options: Any) -> credit.Credit:
    if all(not turn.observation for member in group.trajectories for turn in member.turns[1:]):
        options["observations"] = "entities"
    return credit.make(name, **options).assign(group)

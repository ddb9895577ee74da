"""Hand-made search rollouts over one small entity graph: Inception – Nolan – London, and Paris apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

TASK: dict[str, Any] = {
    "text": "Where was the director of the film born?",
    "answers": ["London"],
    "entities": [{"name": name, "aliases": []} for name in ("Inception", "Nolan", "London", "Paris")],
    "edges": [["Inception", "director", "Nolan"], ["Nolan", "born in", "London"]],
    "answer_node": "London",
}


def rollout(name: str, steps: Sequence[tuple[str, str]], won: bool, *, answer: str = "so") -> Trajectory:
    """Steps of (thought, what the search then shows), and an answer with a thought before it."""
    shown = ["the question", *(result for _, result in steps)]
    thoughts = [*(thought for thought, _ in steps), answer]
    turns = tuple(
        Turn(
            f"{name}{t}",
            "search: it" if t < len(steps) else "answer: it",
            f"{name}{t + 1}",
            observation=before,
            thought=thought,
        )
        for t, (thought, before) in enumerate(zip(thoughts, shown, strict=True))
    )
    end: StopReason = "success" if won else "failed"
    return Trajectory(name, "g", "task", turns, won, float(won), end, turns[-1].next_state_key)


def question(*members: Trajectory, task: Any = TASK) -> Group:
    return Group(members, task)

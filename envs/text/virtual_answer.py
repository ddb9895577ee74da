"""A virtual node for an answer that is not an entity of its evidence graph, as of yes-no and comparison questions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = ["virtual_answer"]


def virtual_answer(
    names: Collection[str], edges: Iterable[tuple[str, str]], answers: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Return the name of the new node, and the nodes that are linked to it.

    These are the *leaves*, objects that are not subjects: the values that the question compares. Without edges the node
    is isolated.

    Args:
        names: names of the graph's nodes.
        edges: (subject, object) pairs.
        answers: golden answers; the first one names the node.

    >>> virtual_answer(["A", "B", "1901", "1888"], [("A", "1901"), ("B", "1888")], ["B is older"])
    ('B is older', ('1901', '1888'))
    """
    name = (answers[0] if answers else "") or "answer"
    while name in names:
        name = f"{name} (answer)"
    pairs = list(edges)
    subjects = {subject for subject, _ in pairs}
    return name, tuple(dict.fromkeys(obj for _, obj in pairs if obj not in subjects))

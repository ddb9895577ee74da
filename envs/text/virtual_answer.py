"""A node for an answer that is no entity of its evidence graph: yes, no, and what comparisons come to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

__all__ = ["virtual_answer"]


def virtual_answer(
    names: Collection[str], edges: Iterable[tuple[str, str]], answers: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """Name of the new node, and the nodes that it is linked from.

    These are the *leaves*, the objects that are no subject: the values that are compared. Without edges the node stands
    alone.

    Args:
        names: of the graph's nodes.
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

"""What is wrong about the types in a group that schemes are about to read: logs come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from creditflow.wrappers.groups import Group

__all__ = ["malformed_search", "malformed_turns"]


# fields of a turn that hold several texts
_MANY: Final = ("queries", "entities", "doc_ids")


def malformed_turns(group: Group, fields: Sequence[str]) -> str:
    """Which text, or tuple of texts, of a turn is none; "" if all are.

    Args:
        group: of any source.
        fields: names of the turns' fields.
    """
    for member in group.trajectories:
        for t, turn in enumerate(member.turns):
            for name in fields:
                value = getattr(turn, name)
                many = name in _MANY
                if _texts(value) if many and isinstance(value, tuple | list) else isinstance(value, str) and not many:
                    continue
                kind = "texts" if many else "a text"
                return f"trajectory {member.trajectory_id!r}, turn {t}: {name} must be {kind}, got {value!r:.60}"
    return ""


def malformed_search(task: Mapping[str, Any]) -> str:
    """What has the wrong type in the payload of a search task; "" if nothing.

    Args:
        task: with "documents" and "supporting"; "search_keys" and "steps" are optional.
    """
    documents, supporting = task["documents"], task["supporting"]
    if not isinstance(documents, Mapping):
        return (
            f"'documents' must name each passage's title and text, {{id: {{'title', 'text'}}}}, got {documents!r:.60}"
        )
    for name, document in documents.items():
        if not isinstance(document, Mapping) or not _texts([document.get("title"), document.get("text")]):
            return f"'documents' must hold a title and a text for {name!r:.60}, got {document!r:.60}"
    if not isinstance(supporting, list | tuple) or not _texts(supporting):
        return f"'supporting' must list ids or titles of passages, got {supporting!r:.60}"
    keys, steps = task.get("search_keys") or [], task.get("steps") or []
    if not isinstance(keys, list | tuple) or not all(isinstance(ways, list | tuple) and _texts(ways) for ways in keys):
        return f"'search_keys' must hold one list of texts a sub-question, got {keys!r:.60}"
    if not isinstance(steps, list | tuple) or not all(
        isinstance(step, Mapping) and _texts([step.get("question"), step.get("answer")]) for step in steps
    ):
        return f"'steps' must hold objects with a question and an answer, got {steps!r:.60}"
    return ""


def _texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)

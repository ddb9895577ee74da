"""Type checks of a search task's payload: logs may come from other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.envs.errors import short_repr

__all__ = ["documents_problem", "search_payload_problem", "strings_problem"]


def search_payload_problem(task: Mapping[str, Any]) -> str:
    """Describe what is malformed in a search task's "documents", "supporting", "search_keys" or "steps"; "" if nothing."""
    keys = task.get("search_keys") or ()
    steps = () if keys else task.get("steps") or ()  # search keys replace them
    if not isinstance(keys, list | tuple) or not all(_strings(alternatives) for alternatives in keys):
        return f"'search_keys' must be a list of lists of strings, got {short_repr(keys)}"
    if not isinstance(steps, list | tuple) or not all(
        isinstance(step, Mapping) and _strings([step.get("question"), step.get("answer")]) for step in steps
    ):
        return f"'steps' must be a list of {{'question': …, 'answer': …}}, got {short_repr(steps)}"
    return documents_problem(task) or strings_problem(task, "supporting")


def _strings(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def documents_problem(task: Mapping[str, Any]) -> str:
    """Describe what is malformed in the payload's "documents"; "" if nothing.

    >>> documents_problem({"documents": [{"title": "Nile", "text": "Long."}]})
    "'documents' must map ids to {'title': …, 'text': …}, got [{'title': 'Nile', 'text': 'Long.'}]"
    """
    documents = task.get("documents")
    if not isinstance(documents, Mapping):
        return f"'documents' must map ids to {{'title': …, 'text': …}}, got {short_repr(documents)}"
    for name, document in documents.items():
        texts = (document.get("title"), document.get("text")) if isinstance(document, Mapping) else (None,)
        if not isinstance(name, str) or not all(isinstance(text, str) for text in texts):
            return f"'documents' must map ids to {{'title': …, 'text': …}}, got {short_repr(document)} for {short_repr(name)}"
    return ""


def strings_problem(task: Mapping[str, Any], key: str) -> str:
    """Describe what is malformed in a list of strings of the payload; "" if nothing."""
    texts = task.get(key)
    if not _strings(texts):
        return f"{key!r} must be a list of strings, got {short_repr(texts)}"
    return ""

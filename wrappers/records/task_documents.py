"""What a search task's payload holds, checked: logs come from anywhere, and schemes read what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.envs.errors import short_repr

__all__ = ["documents_problem", "search_payload_problem", "texts_problem"]


def search_payload_problem(task: Mapping[str, Any]) -> str:
    """What is wrong with the golden parts of a search task: documents, names of golden ones, search keys, steps."""
    keys = task.get("search_keys") or ()
    steps = () if keys else task.get("steps") or ()  # search keys stand instead of them
    if not isinstance(keys, list | tuple) or not all(_texts(ways) for ways in keys):
        return f"'search_keys' must be a list of lists of texts, got {short_repr(keys)}"
    if not isinstance(steps, list | tuple) or not all(
        isinstance(step, Mapping) and _texts([step.get("question"), step.get("answer")]) for step in steps
    ):
        return f"'steps' must be a list of {{'question': …, 'answer': …}}, got {short_repr(steps)}"
    return documents_problem(task) or texts_problem(task, "supporting")


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def documents_problem(task: Mapping[str, Any]) -> str:
    """What is wrong with the payload's "documents"; "" if nothing.

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


def texts_problem(task: Mapping[str, Any], key: str) -> str:
    """What is wrong with a list of texts in the payload; "" if nothing."""
    texts = task.get(key)
    if not _texts(texts):
        return f"{key!r} must be a list of texts, got {short_repr(texts)}"
    return ""

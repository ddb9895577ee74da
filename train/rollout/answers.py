"""Exact match and F1 of the answers of recorded search episodes, in whatever format they were written."""

from __future__ import annotations

from typing import Any, Final

from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.grading.scoring import exact_match, token_f1
from creditflow.envs.wikisearch.protocol.dialects import Dialect
from creditflow.wrappers.records.group import Group

__all__ = ["ANSWER_METRICS", "answer_scores", "dialect_of"]

ANSWER_METRICS: Final = {"em": exact_match, "f1": token_f1}


def dialect_of(env: Any) -> Dialect | None:
    """Return the format of calls of a search environment; None of any other environment."""
    return env.dialect if isinstance(env, WikiSearchEnv) else None


def answer_scores(group: Group, index: int, dialect: Dialect) -> dict[str, float]:
    """Return the metrics of an episode's answer against the golden answers of its question; 0 without an answer.

    Args:
        group: rollouts of a question, whose payload has "answers".
        index: index of the episode.
        dialect: format of its calls.
    """
    turns = group.episodes[index]
    last = turns[-1] if turns else None
    call = dialect.parse(last.action).call if last is not None and last.valid else None
    if call is None or call.tool != "answer":
        return dict.fromkeys(ANSWER_METRICS, 0.0)
    golden = [str(answer) for answer in group.task["answers"]]
    return {name: float(metric(call.items[0], golden)) for name, metric in ANSWER_METRICS.items()}

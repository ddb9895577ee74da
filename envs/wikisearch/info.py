"""The keys of ``info`` beside those that all environments have.

=================== ====================================================================================
``queries``         texts of the search
``doc_ids``         ids of the passages that the step returned
``entities``        nodes of the question's evidence graph that these passages mention
``message``         what a transcript appends: the tool result or the rejection, in the dialect's format
``thought``         the action's text outside its call; with tags, the text before it
``answer``          the answer given, "" before
``answer_em``       its exact match; also ``answer_f1``, ``answer_sub_em``
``evidence``        pieces of golden evidence seen, of ``evidence_total``
``tool_calls``      tool calls used; also ``tool_tokens``
``stop_reason``     "success", "failed", "tool_limit", "token_limit", "env_limit"; "" during the episode
=================== ====================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from creditflow.envs.wikisearch.evidence import num_evidence
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.rules import Budget, Episode

__all__ = ["StepRecord", "extra_info", "stop_reason"]


@dataclass
class StepRecord:
    """What one step read and returned.

    Attributes:
        thought: the action's text outside its call; with tags, the text before it.
        message: the tool result or the rejection, in the dialect's format.
        queries: the queries of a search.
        passages: what the step returned, each once.
        opened: the pages of a visit, None for an unknown one.
    """

    thought: str = ""
    message: str = ""
    queries: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    opened: list[tuple[Passage, ...] | None] = field(default_factory=list)


def stop_reason(episode: Episode, budget: Budget) -> str:
    """Why a finished episode ended."""
    if episode.answer is not None:
        return "success" if episode.grade.correct else "failed"
    if budget.max_calls is not None and episode.calls >= budget.max_calls:
        return "tool_limit"
    return "token_limit" if budget.used_up(episode.calls, episode.tokens) else "env_limit"


def extra_info(episode: Episode, step: StepRecord, entities: tuple[str, ...], reason: str) -> dict[str, Any]:
    """The environment's own keys.

    Args:
        episode: what the episode has read and used.
        step: the last step.
        entities: graph nodes in the step's passages.
        reason: the stop reason, "" during the episode.
    """
    return {
        "queries": step.queries,
        "doc_ids": tuple(passage.id for passage in step.passages),
        "entities": entities,
        "message": step.message,
        "thought": step.thought,
        "answer": episode.answer or "",
        "answer_em": episode.grade.em,
        "answer_f1": episode.grade.f1,
        "answer_sub_em": episode.grade.sub_em,
        "evidence": episode.bits.bit_count(),
        "evidence_total": num_evidence(episode.question),
        "tool_calls": episode.calls,
        "tool_tokens": episode.tokens,
        "stop_reason": reason,
    }

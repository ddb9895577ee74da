"""The baselines of search papers that answer once: ``direct``, ``cot`` and ``rag``.

``direct`` answers without tools, ``cot`` with reasoning first, ``rag`` after one search for the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from creditflow.agents.backends.base import Sampling
from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.envs.wikisearch.actions import Call, parse_tags
from creditflow.envs.wikisearch.env import WikiSearchEnv

__all__ = ["SearchBaseline", "search_env"]

_PROMPTS: Final = {"direct": "direct-v1", "cot": "reason-v1", "rag": "rag-v1"}


class SearchBaseline:
    """Answers a question in one turn without tools, or after one retrieval.

    Args:
        model: the language model; its own prompt and dialect are replaced.
        kind: "direct", "cot" (chain of thought: reasoning, then ``<answer>``) or "rag" (searches for the question first).

    Raises:
        ConfigError: an unknown kind.
    """

    def __init__(self, model: LanguageModelAgent, kind: str) -> None:
        if kind not in _PROMPTS:
            raise unknown_name_error("search baseline", kind, _PROMPTS)
        self.model, self.name = model, kind
        self._prompted = model.with_prompting(_PROMPTS[kind], "bare", name=self.name, history="window")

    @property
    def sampling(self) -> Sampling:
        """The model's sampling settings."""
        return self.model.sampling

    def with_sampling(self, sampling: Sampling) -> SearchBaseline:
        """The same agent with other sampling settings."""
        return SearchBaseline(self.model.with_sampling(sampling), self.name)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        envs = [search_env(view, self.name) for view in views]
        answering = [bool(view.turns) or self.name != "rag" for view in views]
        answers = iter(self._prompted.act([view for view, now in zip(views, answering, strict=True) if now]))
        return [
            _answered(env, next(answers), reasons=self.name == "cot") if now else _searched(env)
            for env, now in zip(envs, answering, strict=True)
        ]


def search_env(view: View, agent: str) -> WikiSearchEnv:
    """The environment of a view.

    Raises:
        ConfigError: it has no questions.
    """
    if not isinstance(view.env, WikiSearchEnv):
        raise ConfigError(f"the agent {agent} answers questions: use --env wikisearch, not {view.env.env_name}")
    return view.env


def _answered(env: WikiSearchEnv, decision: Decision, *, reasons: bool) -> Decision:
    """The model's text, or with ``reasons`` its answer block, as an answer call."""
    if decision.stop is not None:
        return decision
    text, thought = " ".join(decision.action.split()), decision.thought
    if reasons:
        call, reason, thought = parse_tags(decision.response)
        if call is None or call.tool != "answer":
            reason = reason or f"a call of {call.tool if call else ''}, where only an answer is asked for"
            return replace(decision, action="", thought=decision.response.strip(), invalid_reason=reason)
        text = " ".join(call.items[0].split())
        if not text:
            return replace(decision, action="", thought=thought, invalid_reason="the answer is empty")
    return replace(decision, action=env.dialect.write(Call("answer", (text,))), thought=thought) if text else decision


def _searched(env: WikiSearchEnv) -> Decision:
    """A search for the question."""
    return Decision(env.dialect.write(Call("search", (str(env.task.content["text"]),))))

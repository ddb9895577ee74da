"""The two baselines of search papers: answer without tools (``direct``), or after one search for the question (``rag``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from creditflow.agents.backends.base import Sampling
from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.wikisearch.actions import Call
from creditflow.envs.wikisearch.env import WikiSearchEnv

__all__ = ["SearchBaseline"]


class SearchBaseline:
    """Answers a question without tools, or after one retrieval.

    Args:
        model: the language model; its own prompt and dialect are replaced.
        retrieve: search for the question first.
    """

    def __init__(self, model: LanguageModelAgent, *, retrieve: bool) -> None:
        self.model, self.retrieve = model, retrieve
        self.name = "rag" if retrieve else "direct"
        self._prompted = model.with_prompting(f"{self.name}-v1", "bare", name=self.name, history="window")

    @property
    def sampling(self) -> Sampling:
        """The model's sampling settings."""
        return self.model.sampling

    def with_sampling(self, sampling: Sampling) -> SearchBaseline:
        """The same agent with other sampling settings."""
        return SearchBaseline(self.model.with_sampling(sampling), retrieve=self.retrieve)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        answering = [bool(view.turns) or not self.retrieve for view in views]
        answers = iter(self._prompted.act([view for view, now in zip(views, answering, strict=True) if now]))
        return [
            _answer(view, next(answers)) if now else _search(view) for view, now in zip(views, answering, strict=True)
        ]


def _answer(view: View, decision: Decision) -> Decision:
    """The model's text as an answer call."""
    text = " ".join(decision.action.split())
    if decision.stop is not None or not text:
        return decision
    return replace(decision, action=_env(view).dialect.write(Call("answer", (text,))))


def _search(view: View) -> Decision:
    """A search for the question."""
    env = _env(view)
    return Decision(env.dialect.write(Call("search", (str(env.task.content["text"]),))))


def _env(view: View) -> WikiSearchEnv:
    if not isinstance(view.env, WikiSearchEnv):
        raise ConfigError(f"the agents direct and rag answer questions: use --env wikisearch, not {view.env.env_name}")
    return view.env

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
    """Answers a question from what the model knows, or from one retrieval.

    Args:
        model: answers; its own prompt and dialect are put aside.
        retrieve: search for the question itself first.
    """

    def __init__(self, model: LanguageModelAgent, *, retrieve: bool) -> None:
        self.model, self.retrieve = model, retrieve
        self.name = "rag" if retrieve else "direct"
        self._talk = model.with_prompting(f"{self.name}-v1", "bare", name=self.name, history="window")

    @property
    def sampling(self) -> Sampling:
        """How the model is sampled."""
        return self.model.sampling

    def with_sampling(self, sampling: Sampling) -> SearchBaseline:
        """The same agent, sampled in another way."""
        return SearchBaseline(self.model.with_sampling(sampling), retrieve=self.retrieve)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        asked = [view for view in views if view.turns or not self.retrieve]
        answers = iter(self._talk.act(asked))
        return [
            self._answered(view, next(answers)) if view.turns or not self.retrieve else _searched(view)
            for view in views
        ]

    def _answered(self, view: View, decision: Decision) -> Decision:
        text = " ".join(decision.action.split())
        if decision.stop is not None or not text:
            return decision
        return replace(decision, action=_env(view).dialect.write(Call("answer", (text,))))


def _searched(view: View) -> Decision:
    env = _env(view)
    return Decision(env.dialect.write(Call("search", (str(env.task.content["text"]),))))


def _env(view: View) -> WikiSearchEnv:
    if not isinstance(view.env, WikiSearchEnv):
        raise ConfigError(f"the agents direct and rag answer questions: use --env wikisearch, not {view.env.env_name}")
    return view.env

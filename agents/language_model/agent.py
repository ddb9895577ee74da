"""A language model as an agent: prompt, answer, action, token by token.

With ``history="append"`` a conversation grows: each turn adds its message and its answer to the ids of all turns
before, and one row holds the whole episode. With ``history="window"`` every turn is a prompt of its own that shows the
last k turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Backend, Job, Sampled, Sampling
from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.agents.language_model.chat import Chat
from creditflow.agents.language_model.parsing import Dialect, make_dialect
from creditflow.agents.prompts import Prompt, make_prompt, slots_of
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["Conversations", "LanguageModelAgent", "Pending", "decide"]


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The ids so far, and for every turn how many there were after it and whether its answer closed itself."""

    ids: NDArray[np.int32]
    ends: tuple[tuple[int, bool], ...] = ()

    @property
    def turns(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, slots=True)
class Pending:
    """One view whose answer is still to come: the new ids, and all ids before the answer."""

    view: View
    new: NDArray[np.int32]
    ids: NDArray[np.int32]


@dataclass
class Conversations:
    """The token history of every running episode, kept by its environment.

    Attributes:
        prompt, chat: how messages are worded and encoded.
        history: "append" or "window".
        window: past turns that a windowed prompt shows.
        lessons: what earlier trials of a view's task taught; "" for none.
    """

    prompt: Prompt
    chat: Chat
    history: Literal["append", "window"] = "append"
    window: int = 2
    lessons: Callable[[View], str] = lambda _view: ""
    _running: WeakKeyDictionary[AgentEnv[Any, Any, Any], _Conversation] = field(default_factory=WeakKeyDictionary)

    def __post_init__(self) -> None:
        if self.history not in ("append", "window") or self.window < 0:
            raise ConfigError(
                f"history must be 'append' or 'window' and window ≥ 0, got {short_repr(self.history)}, {short_repr(self.window)}"
            )

    def ask(self, view: View) -> Pending:
        """The ids that go in front of the next answer.

        Raises:
            ConfigError: an append-only conversation that was not followed from its first turn.
        """
        slots = slots_of(self.prompt, view, self.window, self.lessons(view))
        if not view.turns:
            new = self.chat.begin(self.prompt.fill("system", slots), self.prompt.fill("first", slots))
            return Pending(view, new, new)
        if self.history == "window":
            new = self.chat.begin(self.prompt.fill("system", slots), self.prompt.fill("windowed", slots))
            return Pending(view, new, new)
        before = self._running.get(view.env)
        if before is None or before.turns != len(view.turns):
            raise ConfigError(
                "an append-only history must be followed from the first turn of the episode; use history='window' to "
                "enter an episode in the middle"
            )
        new = self.chat.go_on(self.prompt.fill("later", slots), ended=before.ends[-1][1])
        return Pending(view, new, np.concatenate([before.ids, new]))

    def answer(self, pending: Pending, sampled: Sampled, *, learn: bool = True) -> TurnTokens:
        """Take note of an answer; returns the turn's tokens."""
        ids = np.concatenate([pending.ids, sampled.ids])
        before = self._running.get(pending.view.env) if pending.view.turns else None
        ended = bool(len(sampled.ids)) and int(sampled.ids[-1]) in self.chat.end_ids
        self._running[pending.view.env] = _Conversation(ids, (*(before.ends if before else ()), (len(ids), ended)))
        windowed = self.history == "window"
        return TurnTokens(pending.new, sampled.ids, sampled.logprobs, windowed, learn, sampled.entropies)

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """``child`` has the history of ``parent`` up to its first ``turns`` turns.

        Raises:
            ConfigError: the parent's conversation has fewer turns.
        """
        before = self._running.get(parent)
        if self.history == "window" or not turns:
            self._running.pop(child, None)
            return
        if before is None or before.turns < turns:
            raise ConfigError(f"a conversation of {before.turns if before else 0} turns has no state after {turns}")
        ends = before.ends[:turns]
        self._running[child] = _Conversation(before.ids[: ends[-1][0]], ends)


class LanguageModelAgent:
    """Asks a backend for every view's answer, in one batch.

    Args:
        backend: samples tokens.
        conversations: words, encodes and remembers.
        dialect: reads answers.
        sampling: how tokens are drawn.
        name: for logs.
        max_context: no prompt and answer together may be longer (0: the backend's own limit); the episode then stops
            with "token_limit".
    """

    def __init__(
        self,
        backend: Backend,
        conversations: Conversations,
        dialect: Dialect,
        sampling: Sampling,
        *,
        name: str = "lm",
        max_context: int = 0,
    ) -> None:
        self.backend, self.conversations, self.dialect, self.sampling = backend, conversations, dialect, sampling
        self.name = name
        limit = backend.context
        if max_context > limit > 0:
            raise ConfigError(f"max_context is {max_context}, but the model's own limit is {limit} tokens")
        self.max_context = max_context or limit

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        pending = [self.conversations.ask(view) for view in views]
        room = self.max_context - self.sampling.max_new_tokens
        fits = [not self.max_context or len(one.ids) <= room for one in pending]
        jobs = [
            Job(one.view.env, one.ids, one.view.rng.random(self.sampling.max_new_tokens))
            for one, fit in zip(pending, fits, strict=True)
            if fit
        ]
        answers = iter(self.backend.generate(jobs, self.sampling, self.conversations.chat.end_ids) if jobs else ())
        return [
            self._decide(one, next(answers)) if fit else Decision("", stop="token_limit")
            for one, fit in zip(pending, fits, strict=True)
        ]

    def with_sampling(self, sampling: Sampling) -> LanguageModelAgent:
        """The same model, sampled in another way, with conversations of its own."""
        talk = self.conversations
        return LanguageModelAgent(
            self.backend, Conversations(talk.prompt, talk.chat, talk.history, talk.window, talk.lessons), self.dialect,
            sampling, name=self.name, max_context=self.max_context,
        )  # fmt: skip

    def with_prompting(
        self,
        prompt: str,
        dialect: str,
        *,
        name: str,
        history: Literal["append", "window"] = "append",
        window: int = 0,
        lessons: Callable[[View], str] | None = None,
    ) -> LanguageModelAgent:
        """The same model with another prompt and dialect, by their names."""
        other = self.with_sampling(self.sampling)
        talk = Conversations(make_prompt(prompt), self.conversations.chat, history, window)
        other.conversations = talk if lessons is None else replace(talk, lessons=lessons)
        other.dialect, other.name = make_dialect(dialect), name
        return other

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """``child`` has the history of ``parent`` up to its first ``turns`` turns."""
        self.conversations.fork(parent, child, turns)

    def _decide(self, pending: Pending, sampled: Sampled) -> Decision:
        return decide(self.conversations, self.dialect, pending, sampled)


def decide(conversations: Conversations, dialect: Dialect, pending: Pending, sampled: Sampled) -> Decision:
    """Take note of an answer, and read from it what the agent does."""
    tokens = conversations.answer(pending, sampled)
    response = conversations.chat.read(sampled.ids.tolist())
    parsed = dialect.parse(response)
    cut = "" if int(sampled.ids[-1]) in conversations.chat.end_ids else "; it was cut at max_new_tokens"
    return Decision(
        action=parsed.action,
        thought=parsed.thought,
        response=response,
        invalid_reason="" if parsed.valid else parsed.reason + cut,
        tokens=tokens if sampled.exact else None,
    )

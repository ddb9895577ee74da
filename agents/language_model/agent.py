"""A language model as an agent: from prompt to completion to action, with the token ids of each turn.

With ``history="append"`` a conversation grows: each turn appends its message and its completion to the ids of all earlier
turns, and one row holds the whole episode. With ``history="window"`` every turn is a prompt of its own that shows the
last k turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Backend, Completion, GenerationRequest, Sampling
from creditflow.agents.base import Decision, RecordedHistory, TurnTokens, View
from creditflow.agents.language_model.chat import Chat
from creditflow.agents.language_model.parsing import Dialect, decision_of, make_dialect
from creditflow.agents.models.pictures import PictureEncoder
from creditflow.agents.prompts import Prompt, make_prompt, slots_of
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.wrappers.records.pictures import EncodedPicture, picture_in

__all__ = ["Conversations", "LanguageModelAgent", "PendingCompletion", "decide"]


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The token history of one episode.

    Attributes:
        ids: all ids so far.
        ends: for every turn the number of ids up to its end, and whether its completion ended with an end token.
        pictures: for every turn the pictures in its message.
    """

    ids: NDArray[np.int32]
    ends: tuple[tuple[int, bool], ...] = ()
    pictures: tuple[tuple[EncodedPicture, ...], ...] = ()

    @property
    def turns(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, slots=True)
class PendingCompletion:
    """A prompt that waits for its completion.

    Attributes:
        view: the running episode.
        new: int32, the ids that this turn adds.
        ids: int32, all ids before the completion.
        new_pictures, pictures: the pictures in ``new`` and in ``ids``, in order.
    """

    view: View
    new: NDArray[np.int32]
    ids: NDArray[np.int32]
    new_pictures: tuple[EncodedPicture, ...] = ()
    pictures: tuple[EncodedPicture, ...] = ()


@dataclass
class Conversations:
    """The token history of every running episode, by its environment.

    Attributes:
        prompt, chat: the prompt template and the encoding of messages.
        history: "append" or "window".
        window: number of past turns that a windowed prompt shows.
        reflections: text on earlier trials of a view's task; "" for none.
        encoder: encodes pictures, for a model with vision.
    """

    prompt: Prompt
    chat: Chat
    history: Literal["append", "window"] = "append"
    window: int = 2
    reflections: Callable[[View], str] = lambda _view: ""
    encoder: PictureEncoder | None = None
    _running: WeakKeyDictionary[AgentEnv[Any, Any, Any], _Conversation] = field(default_factory=WeakKeyDictionary)

    def __post_init__(self) -> None:
        if self.history not in ("append", "window") or self.window < 0:
            raise ConfigError(
                f"history must be 'append' or 'window' and window ≥ 0, got {short_repr(self.history)}, {short_repr(self.window)}"
            )
        if self.prompt.shows_pictures and self.encoder is None:
            raise ConfigError(
                f"the prompt {self.prompt.name!r} shows pictures, which this model cannot read; use a vision-language model "
                "(the families Qwen2.5-VL and Qwen3-VL), or a prompt without {image}"
            )

    def build_prompt(self, view: View) -> PendingCompletion:
        """Build the prompt of the next completion.

        Raises:
            ConfigError: an append-only history that was not recorded from its first turn; a prompt that shows pictures of an
                environment without any.
            DataError: a picture that is too large, or a text that contains the token for pictures.
        """
        slots = slots_of(self.prompt, view, self.window, self.reflections(view))
        if not view.turns or self.history == "window":
            template = "windowed" if view.turns else "first"
            new = self.chat.first_prompt_ids(self.prompt.fill("system", slots), self.prompt.message(template, slots))
            new, pictures = self._with_pictures(template, new, view)
            return PendingCompletion(view, new, new, pictures, pictures)
        earlier = self._running.get(view.env)
        if earlier is None or earlier.turns != len(view.turns):
            raise ConfigError(
                "an append-only history must be recorded from the first turn of the episode; to start in the middle, call resume with "
                "the record, or use history='window'"
            )
        new = self.chat.next_prompt_ids(self.prompt.message("later", slots), ended=earlier.ends[-1][1])
        new, pictures = self._with_pictures("later", new, view)
        before = (picture for turn in earlier.pictures for picture in turn)
        return PendingCompletion(view, new, np.concatenate([earlier.ids, new]), pictures, (*before, *pictures))

    def _with_pictures(
        self, part: str, ids: NDArray[np.int32], view: View
    ) -> tuple[NDArray[np.int32], tuple[EncodedPicture, ...]]:
        """Ids of a message with the image tokens of its pictures, and the pictures."""
        if self.encoder is None:
            return ids, ()
        pixels = picture_in(view.observation) if self.prompt.pictures(part) else None
        pictures = () if pixels is None else (self.encoder.encode(pixels),) * self.prompt.pictures(part)
        return self.encoder.expand(ids, pictures), pictures

    def record_completion(
        self, pending: PendingCompletion, completion: Completion, *, in_loss: bool = True
    ) -> TurnTokens:
        """Append a completion to its conversation; returns the turn's tokens."""
        ids = np.concatenate([pending.ids, completion.ids])
        earlier = self._running.get(pending.view.env) if pending.view.turns else None
        complete = bool(len(completion.ids)) and int(completion.ids[-1]) in self.chat.end_ids
        self._running[pending.view.env] = _Conversation(
            ids,
            (*(earlier.ends if earlier else ()), (len(ids), complete)),
            (*(earlier.pictures if earlier else ()), pending.new_pictures),
        )
        windowed = self.history == "window"
        return TurnTokens(
            pending.new,
            completion.ids,
            completion.logprobs,
            windowed,
            in_loss,
            completion.entropies,
            pending.new_pictures,
        )

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """Give ``child`` the history of ``parent`` up to its first ``turns`` turns.

        Raises:
            ConfigError: the parent's conversation has fewer turns.
        """
        conversation = self._running.get(parent)
        if self.history == "window" or not turns:
            self._running.pop(child, None)
            return
        if conversation is None or conversation.turns < turns:
            available = conversation.turns if conversation else 0
            raise ConfigError(f"cannot fork after turn {turns} of a conversation with {available} turns")
        ends = conversation.ends[:turns]
        self._running[child] = _Conversation(conversation.ids[: ends[-1][0]], ends, conversation.pictures[:turns])

    def resume(self, dialect: Dialect, history: RecordedHistory, envs: Sequence[AgentEnv[Any, Any, Any]]) -> None:
        """Rebuild the history of recorded turns, and give it to the environments in which the episode continues.

        The ids of a completion are those of the record where this tokenizer decodes them to the recorded response. Otherwise the
        response is encoded, or, where it was not recorded, what the dialect writes for the action.
        """
        for env in envs:
            self._running.pop(env, None)
        if self.history == "window" or not history.views:
            return
        for view, turn, ids in zip(history.views, history.turns, history.completions, strict=True):
            if ids is None or self.chat.decode_completion(ids.tolist()) != turn.response:
                response = turn.response or dialect.write(turn.action, turn.thought)
                ids = self.chat.encode_completion(response)
            self.record_completion(self.build_prompt(view), Completion(ids, np.zeros(len(ids), np.float32)))
        rebuilt = self._running.pop(history.views[0].env)
        for env in envs:
            self._running[env] = rebuilt


FULL: Final = Decision("", stop="token_limit")  # the context has no room for another completion


class LanguageModelAgent:
    """Generates one completion per view, in one batch.

    Args:
        backend: samples completions.
        conversations: builds and caches prompts.
        dialect: parses completions.
        sampling: sampling settings.
        name: agent name in logs.
        max_context: maximum length of prompt and completion together (0: the backend's own limit); an episode that
            would exceed it stops with "token_limit".

    Raises:
        ConfigError: ``max_context`` exceeds the backend's limit, or leaves no token for a prompt.
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
            raise ConfigError(f"max_context must be at most the model's limit of {limit} tokens, got {max_context}")
        self.max_context = max_context or limit
        sampling.check_context(self.max_context)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        pending = [self.conversations.build_prompt(view) for view in views]
        requests = [self._request(prompt) for prompt in pending if self._fits(prompt)]
        completions = iter(
            self.backend.generate(requests, self.sampling, self.conversations.chat.end_ids) if requests else ()
        )
        return [self._decide(prompt, next(completions)) if self._fits(prompt) else FULL for prompt in pending]

    def _fits(self, pending: PendingCompletion) -> bool:
        return not self.max_context or len(pending.ids) <= self.max_context - self.sampling.max_new_tokens

    def _request(self, pending: PendingCompletion) -> GenerationRequest:
        uniforms = pending.view.rng.random(self.sampling.max_new_tokens)
        return GenerationRequest(pending.view.env, pending.ids, uniforms, pending.pictures)

    def _decide(self, pending: PendingCompletion, completion: Completion) -> Decision:
        return decide(self.conversations, self.dialect, pending, completion)

    def with_sampling(self, sampling: Sampling) -> LanguageModelAgent:
        """The same model with other sampling settings and its own conversations."""
        mine = self.conversations
        conversations = Conversations(mine.prompt, mine.chat, mine.history, mine.window, mine.reflections, mine.encoder)
        return LanguageModelAgent(
            self.backend, conversations, self.dialect, sampling, name=self.name, max_context=self.max_context
        )

    def with_prompting(
        self, prompt: str, dialect: str, *, name: str, reflections: Callable[[View], str]
    ) -> LanguageModelAgent:
        """The same model with another prompt and dialect, by their names, and conversations that grow."""
        agent = self.with_sampling(self.sampling)
        mine = self.conversations
        agent.conversations = Conversations(
            make_prompt(prompt), mine.chat, "append", reflections=reflections, encoder=mine.encoder
        )
        agent.dialect, agent.name = make_dialect(dialect), name
        return agent

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """Give ``child`` the history of ``parent`` up to its first ``turns`` turns."""
        self.conversations.fork(parent, child, turns)

    def resume(self, history: RecordedHistory, envs: Sequence[AgentEnv[Any, Any, Any]]) -> None:
        """Give the environments in which an episode continues the history of its recorded turns."""
        self.conversations.resume(self.dialect, history, envs)


def decide(
    conversations: Conversations, dialect: Dialect, pending: PendingCompletion, completion: Completion
) -> Decision:
    """Record a completion, and parse the action from it."""
    tokens = conversations.record_completion(pending, completion)
    decision = decision_of(dialect, conversations.chat.decode_completion(completion.ids.tolist()))
    if decision.invalid_reason and int(completion.ids[-1]) not in conversations.chat.end_ids:
        decision = replace(decision, invalid_reason=f"{decision.invalid_reason}; it was cut at max_new_tokens")
    return replace(decision, tokens=tokens if completion.exact else None)

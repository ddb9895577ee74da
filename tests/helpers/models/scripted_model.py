"""A language model whose completions are a function of the prompt, one token per character; without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.language_model.agent import Conversations, LanguageModelAgent
from creditflow.agents.language_model.chat import Message
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.prompts import make_prompt

END = 0


class CharChat:
    """Messages between marks; a character is a token."""

    end_ids = frozenset({END})
    completion_prefix = ""

    def first_prompt_ids(self, system: str, user: Message) -> NDArray[np.int32]:
        return _ids(f"{system}{''.join(user)}\n>")

    def next_prompt_ids(self, user: Message, *, ended: bool) -> NDArray[np.int32]:
        return _ids(f"\n{''.join(user)}\n>")

    def encode_completion(self, text: str) -> NDArray[np.int32]:
        return np.append(_ids(text), np.int32(END))

    def decode_completion(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids if i != END)

    def pieces(self, messages: Sequence[Mapping[str, Any]]) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        raise NotImplementedError(f"{len(messages)} messages: recorded conversations are not played")


class ScriptedBackend:
    """Completes every prompt by a function of its text, and keeps the prompts in ``asked``, their random numbers in ``uniforms``."""

    version, context = "scripted", 0

    def __init__(self, answer: Callable[[str], str]) -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.uniforms: list[NDArray[np.float64]] = []

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        out = []
        for request in requests:
            self.asked.append("".join(map(chr, request.ids)))
            self.uniforms.append(request.uniforms)
            ids = np.append(_ids(self._answer(self.asked[-1])), np.int32(END))
            out.append(Completion(ids, np.zeros(len(ids), np.float32)))
        return out


def scripted_model(answer: Callable[[str], str]) -> LanguageModelAgent:
    """A language-model agent whose model is a function of the whole prompt."""
    conversations = Conversations(make_prompt("think-v1"), CharChat())
    return LanguageModelAgent(
        ScriptedBackend(answer), conversations, make_dialect("think"), Sampling(max_new_tokens=64)
    )


def _ids(text: str) -> NDArray[np.int32]:
    return np.array([ord(character) for character in text], np.int32)

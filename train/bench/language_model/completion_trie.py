"""The completions of every action: a trie of token sequences that the dialect and the environment read as an action.

Every tokenization counts, and so does white space where the dialect strips it. Whatever is not in the trie is the invalid action.
Nodes are created on first access: most of the trie has negligible probability.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.chat import Chat
from creditflow.agents.language_model.parsing import BareDialect, Dialect
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.bench.language_model.tokenizations import Tokenizations

__all__ = ["MAX_NODES", "CompletionTrie", "Node"]

MAX_NODES: Final = 200_000
NONE: Final = -1


class Node(NamedTuple):
    """A prefix of completions.

    Attributes:
        path: its token ids.
        action: index of the action that a completion ending here is read as; −1 if it is invalid.
        grows: whether there is room for another token (the next action token or an end token); False at ``max_new_tokens``,
            where the completion is truncated.
    """

    path: tuple[int, ...]
    action: int
    grows: bool


@dataclass(frozen=True)
class _Children:
    """The continuations of a node: int64 (C,) tokens and the nodes that they lead to."""

    tokens: NDArray[np.int64]
    nodes: NDArray[np.int64]


class CompletionTrie:
    """The trie of the completions that are read as one of the given actions.

    Args:
        actions: A action texts.
        env: parses the action text of a completion with ``parse_text``.
        dialect: parses a completion; only ``bare`` has finitely many completions per action.
        chat: decodes completions and knows the end tokens.
        tokenizer: the model's tokenizer.
        vocabulary: V, number of tokens of the model's output distribution.
        max_new_tokens: length of the longest completion; one without an end token is truncated there.

    Attributes:
        actions, max_new_tokens: as given.
        end_ids: int64, sorted ids that end a completion.

    Raises:
        ConfigError: the dialect is not ``bare``, the chat template begins completions itself, or the environment rejects an
            action or reads one as another.
    """

    def __init__(
        self,
        actions: Sequence[str],
        env: AgentEnv[Any, Any, Any],
        dialect: Dialect,
        chat: Chat,
        tokenizer: Any,
        vocabulary: int,
        max_new_tokens: int,
    ) -> None:
        if not isinstance(dialect, BareDialect):
            raise ConfigError(
                f"the dialect {dialect.name!r} has no finite set of completions per action, because a completion may contain "
                "any thought: exact evaluation needs prompting.dialect: bare"
            )
        if chat.completion_prefix:
            raise ConfigError(
                f"the chat template begins every completion with {chat.completion_prefix!r}, so no completion is an action "
                "alone; turn that off with prompting.chat_options or use prompting.chat: plain"
            )
        self.actions, self.max_new_tokens = tuple(actions), max_new_tokens
        self._env, self._dialect, self._chat = env, dialect, chat
        self._read: dict[Hashable, int] = {}
        for index, action in enumerate(actions):
            parsed = env.parse_text(action)
            if parsed is None:
                raise ConfigError(
                    f"{env.env_name} rejects the text of its own action {short_repr(action)}; construct it with text actions"
                )
            if self._read.setdefault(parsed, index) != index:
                raise ConfigError(
                    f"{env.env_name} reads {short_repr(action)} as the same action as another of its texts"
                )
        self.end_ids = np.array(sorted(end for end in chat.end_ids if 0 <= end < vocabulary), np.int64)
        self._tokenizations = Tokenizations(tokenizer, self.actions)
        ends = set(self.end_ids.tolist())
        self._candidates = [token for token in self._tokenizations.candidates(vocabulary) if token not in ends]
        self.nodes: list[Node] = []
        self._children: dict[int, _Children] = {}
        self._add(())

    def children(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens that can follow a node, and the nodes that they lead to: int64 (C,) each.

        Raises:
            ConfigError: more than ``MAX_NODES`` nodes.
        """
        children = self._children.get(node)
        if children is None:
            path = self.nodes[node].path
            tokens = [token for token in self._candidates if self._can_become_action((*path, token))]
            if len(self.nodes) + len(tokens) > MAX_NODES:
                raise ConfigError(
                    f"completions of up to {self.max_new_tokens} tokens have more than {MAX_NODES} prefixes that can become an "
                    "action; lower --max-new-tokens, or evaluate by sampled episodes (without --exact)"
                )
            nodes = [self._add((*path, token)) for token in tokens]
            children = self._children[node] = _Children(np.array(tokens, np.int64), np.array(nodes, np.int64))
        return children.tokens, children.nodes

    def action_of(self, ids: Sequence[int]) -> int:
        """Index of the action that a completion, without its end token, is read as; −1 if it is invalid."""
        read = self._dialect.parse(self._chat.decode_completion(ids))
        if not read.valid:
            return NONE
        parsed = self._env.parse_text(read.action)
        return NONE if parsed is None else self._read.get(parsed, NONE)

    def _can_become_action(self, path: tuple[int, ...]) -> bool:
        if len(path) == self.max_new_tokens:
            return self._tokenizations.is_complete(path) and self.action_of(path) != NONE
        return self._tokenizations.is_prefix(path)

    def _add(self, path: tuple[int, ...]) -> int:
        action = self.action_of(path) if path and self._tokenizations.is_complete(path) else NONE
        self.nodes.append(Node(path, action, len(path) < self.max_new_tokens))
        return len(self.nodes) - 1

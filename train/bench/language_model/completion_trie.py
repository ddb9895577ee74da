"""The completions of every action as a trie of token sequences, and its search with a model.

Every tokenization counts, and so does white space where the dialect strips it. Whatever is not in the trie is the invalid action.
Nodes are created on first access: most of the trie has negligible probability.

A completion is parsed from its decoded text, so one action has many completions: with other token boundaries, other case and
white space around it, as far as the dialect and the environment accept them. ``Tokenizations`` lists the sequences of token
ids that decode to an action's text, or can be continued to one.

``TrieSearch`` prefills prompts once, in batches of equal length (so there is no padding and no mask), and searches the trie from
their key-value cache, one token per level, wherever a prefix has probability. Logits are computed for the last token alone.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.chat import Chat
from creditflow.agents.language_model.parsing import BareDialect, Dialect
from creditflow.agents.models.vision import completion_logits, text_config
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["MAX_NODES", "CompletionTrie", "Completions", "Node", "TrieSearch", "rows_at_once"]

MAX_NODES: Final = 200_000
NONE: Final = -1
_SPACES = re.compile(r"\s+")
_CLEANED = set(".?!,'")  # clean_up_tokenization_spaces changes texts around these only
_BROKEN = "\ufffd"


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


class Tokenizations:
    """Decides whether the decoded text of a prefix of a completion is, or can become, one of the given texts.

    Texts are compared up to case and runs of white space, inside and around them: no environment accepts more.

    Args:
        tokenizer: a Hugging Face tokenizer.
        texts: texts of the actions.

    Raises:
        ConfigError: the tokenizer rewrites some of these texts after decoding.
    """

    def __init__(self, tokenizer: Any, texts: Sequence[str]) -> None:
        changed = sorted(_CLEANED & set("".join(texts)))
        if getattr(tokenizer, "clean_up_tokenization_spaces", False) and changed:
            raise ConfigError(
                f"this tokenizer removes spaces before {' '.join(changed)} when it decodes, and some actions contain these "
                "characters; save the tokenizer with clean_up_tokenization_spaces=False"
            )
        self._tokenizer = tokenizer
        self._complete = {_plain(text) for text in texts}
        self._prefixes = {text[:i] for text in self._complete for i in range(len(text) + 1)}
        self._parts = {
            text[i:j] for text in self._complete for i in range(len(text)) for j in range(i + 1, len(text) + 1)
        }
        letters = set("".join(self._complete))
        self._starts = {  # proper prefixes of characters of several bytes
            code[:i]
            for character in (*_wide_characters(), *sorted(letters))
            if character.isspace() or set(character.casefold()) <= letters
            for code in [character.encode()]
            for i in range(1, len(code))
        }
        self._bytes = _byte_level(tokenizer)

    def candidates(self, vocabulary: int) -> list[int]:
        """Ids below ``vocabulary`` that can occur in a completion that decodes to one of the texts."""
        return [token for token in range(vocabulary) if self._can_occur(token)]

    def is_prefix(self, ids: Sequence[int]) -> bool:
        """Whether some continuation of these ids may decode to one of the texts."""
        text = self._decoded(ids)
        if text is None:
            return False
        plain = _SPACES.sub(" ", text.lstrip().casefold())
        return plain in self._prefixes or plain.rstrip() in self._complete

    def is_complete(self, ids: Sequence[int]) -> bool:
        """Whether these ids decode to one of the texts, up to case and white space."""
        text = self._decoded(ids)
        return text is not None and _plain(text) in self._complete

    def _can_occur(self, token: int) -> bool:
        if self._bytes is not None:
            text = self._token_bytes(self._bytes, [token]).decode("utf-8", "replace")
        else:
            text = str(self._tokenizer.decode([token], skip_special_tokens=False))
        plain = _plain(text.strip(_BROKEN))
        return not plain or plain in self._parts

    def _decoded(self, ids: Sequence[int]) -> str | None:
        """The text so far, without an incomplete character at its end; None if it contains bytes that are not UTF-8."""
        if self._bytes is None:
            text = str(self._tokenizer.decode(list(ids), skip_special_tokens=False)).rstrip(_BROKEN)
            return None if _BROKEN in text else text
        code = self._token_bytes(self._bytes, ids)
        for unfinished in range(min(4, len(code) + 1)):
            head, tail = code[: len(code) - unfinished], code[len(code) - unfinished :]
            if tail and tail not in self._starts:
                continue
            try:
                return head.decode()
            except UnicodeDecodeError:
                continue
        return None

    def _token_bytes(self, byte_of: Mapping[str, int], ids: Sequence[int]) -> bytes:
        """The bytes of byte-level tokens; ids that the tokenizer lacks give none."""
        tokens = [token for token in self._tokenizer.convert_ids_to_tokens(list(ids)) if token is not None]
        return b"".join(
            bytes(byte_of[c] for c in token) if all(c in byte_of for c in token) else token.encode() for token in tokens
        )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _byte_level(tokenizer: Any) -> dict[str, int] | None:
    """The byte of each character of byte-level BPE; None for other tokenizers."""
    from tokenizers import decoders

    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if not isinstance(decoder, decoders.ByteLevel):
        return None
    # printable bytes are their own characters; the others are the characters from 256 on, in order
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(unprintable)}


@lru_cache(maxsize=1)
def _wide_characters() -> tuple[str, ...]:
    """All characters of several bytes that are white space or change under casefolding."""
    characters = map(chr, range(0x80, sys.maxunicode + 1))
    return tuple(c for c in characters if c.isspace() or c.casefold() != c)


PROMPT_ROWS: Final = 256
STEP_ROWS: Final = 1024
TOKENS_AT_ONCE: Final = 1 << 13  # of prompts in one forward pass
TOKENS_CACHED: Final = 1 << 16
NUMBERS_AT_ONCE: Final = 1 << 23  # entries of a table of token probabilities

Floats = NDArray[np.float64]


def rows_at_once(model: Any, length: int, *, cached: bool = False) -> int:
    """Number of rows per forward pass: rows of ``length`` tokens, or, if cached, of one token after a cache of that length."""
    rows, tokens = (STEP_ROWS, TOKENS_CACHED) if cached else (PROMPT_ROWS, TOKENS_AT_ONCE)
    return max(1, min(rows, tokens // length, NUMBERS_AT_ONCE // int(text_config(model).vocab_size)))


class Completions(NamedTuple):
    """Valid completions with their probabilities, one entry each.

    Attributes:
        prompt: int64 (n,), index of the prompt.
        node: int64 (n,), node of the trie at which the completion ends.
        probability: float64 (n,).
        unresolved: float64 (prompts,), probability of the prefixes that were pruned.
    """

    prompt: NDArray[np.int64]
    node: NDArray[np.int64]
    probability: Floats
    unresolved: Floats


class TrieSearch:
    """The search of the trie for one batch of prompts of equal length.

    Args:
        model: a causal language model, in evaluation mode.
        trie: the trie.
        sampling: how tokens are sampled.
        count: number of prompts.
        tolerance: largest probability per prompt that may be pruned.
    """

    def __init__(self, model: Any, trie: CompletionTrie, sampling: Sampling, count: int, tolerance: float) -> None:
        self.model, self.trie, self.sampling = model, trie, sampling
        self.device = next(model.parameters()).device
        self.budget = np.full(count, tolerance)
        self.unresolved = np.zeros(count)
        self.length = 0
        self.entries: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats]] = []

    def run(self, ids: NDArray[np.int64]) -> Completions:
        """The valid completions of the prompts, int64 (count, L)."""
        import torch
        from transformers import DynamicCache

        self.length = ids.shape[1]
        cache = DynamicCache(config=self.model.config)
        table = self.read(torch.from_numpy(ids).to(self.device), cache)
        count = len(ids)
        self._follow(cache, table, np.arange(count), np.zeros(count, np.int64), np.ones(count))
        none = np.zeros(0, np.int64)
        prompts, nodes, probabilities = zip(*self.entries, (none, none, np.zeros(0)), strict=True)
        return Completions(
            np.concatenate(prompts), np.concatenate(nodes), np.concatenate(probabilities), self.unresolved
        )

    def read(self, ids: Any, cache: Any) -> Any:
        """Run the model on further tokens (R, L); returns the probabilities of the next one, float64 (R, V).

        Args:
            ids: the tokens.
            cache: key-value cache of the tokens before them.
        """
        from creditflow.agents.backends.token_sampling import token_probabilities
        from creditflow.agents.backends.transformers_backend import CACHE_ARGUMENT

        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{CACHE_ARGUMENT: cache})
        return token_probabilities(completion_logits(self.model, out.logits[:, -1].float()), self.sampling)

    def _follow(self, cache: Any, table: Any, prompt: NDArray[np.int64], node: NDArray[np.int64], mass: Floats) -> None:
        """Add the completions that end after these prefixes, and extend the others.

        Args:
            cache: key-value cache of the prefixes; it is changed in place.
            table: (R, V), probabilities of the next token.
            prompt, node, mass: (R,), index of the prompt, prefix in the trie, and its probability.
        """
        parents, prompts, nodes, masses = [], [], [], []
        for prefix in np.unique(node).tolist():
            rows = np.flatnonzero(node == prefix)
            tokens, children = self.trie.children(prefix)
            ends = self.trie.end_ids if self.trie.nodes[prefix].action >= 0 else self.trie.end_ids[:0]
            following = np.concatenate([ends, tokens])
            if not len(following):
                continue
            probability = self._columns(table, rows, following) * mass[rows, None]
            self._add(prompt[rows], np.full(len(ends), prefix), probability[:, : len(ends)])
            longer = probability[:, len(ends) :]
            if len(children) and not self.trie.nodes[children[0]].grows:
                self._add(prompt[rows], children, longer)
                continue
            parents.append(np.repeat(rows, len(children)))
            prompts.append(np.repeat(prompt[rows], len(children)))
            nodes.append(np.tile(children, len(rows)))
            masses.append(longer.ravel())
        if not parents:
            return
        parent, prompt, node = np.concatenate(parents), np.concatenate(prompts), np.concatenate(nodes)
        mass = np.concatenate(masses)
        last = len(self.trie.nodes[node[0]].path) + 1 == self.trie.max_new_tokens  # of the levels that are pruned
        unpruned = np.flatnonzero(self._unpruned(prompt, mass, 1.0 if last else 0.5))
        size = rows_at_once(self.model, self.length, cached=True)
        for first in range(0, len(unpruned), size):
            some = unpruned[first : first + size]
            cache_of_rows = cache if first + size >= len(unpruned) else copy.deepcopy(cache)
            self._step(cache_of_rows, parent[some], prompt[some], node[some], mass[some])

    def _step(
        self, cache: Any, parent: NDArray[np.int64], prompt: NDArray[np.int64], node: NDArray[np.int64], mass: Floats
    ) -> None:
        """Run the model on the last token of these prefixes, with the cache of their parents, and continue the search."""
        import torch

        cache.batch_select_indices(torch.from_numpy(parent).to(self.device))
        last = np.array([self.trie.nodes[prefix].path[-1] for prefix in node.tolist()], np.int64)
        table = self.read(torch.from_numpy(last)[:, None].to(self.device), cache)
        self._follow(cache, table, prompt, node, mass)

    def _columns(self, table: Any, rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> Floats:
        import torch

        row, column = (torch.from_numpy(array).to(self.device) for array in (rows, tokens))
        columns: Floats = table[row[:, None], column[None, :]].cpu().numpy()
        return columns

    def _add(self, prompt: NDArray[np.int64], node: NDArray[np.int64], probability: Floats) -> None:
        """Add completions: (R,) prompts times (C,) nodes, with probabilities (R, C)."""
        if probability.size:
            self.entries.append((np.repeat(prompt, len(node)), np.tile(node, len(prompt)), probability.ravel()))

    def _unpruned(self, prompt: NDArray[np.int64], mass: Floats, share: float) -> NDArray[np.bool_]:
        """bool (R,): all but the least likely prefixes; this share of what is left of the tolerance may be pruned."""
        order = np.lexsort((mass, prompt))
        ordered, owner = mass[order], prompt[order]
        total = np.cumsum(ordered)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        before = np.repeat(total[starts] - ordered[starts], np.diff(starts, append=len(owner)))
        allowed = share * self.budget[owner]
        drop = (ordered == 0.0) | ((allowed > 0.0) & (total - before <= allowed))
        dropped = np.bincount(owner[drop], ordered[drop], len(self.budget))
        self.budget -= dropped
        self.unresolved += dropped
        unpruned = np.ones(len(mass), np.bool_)
        unpruned[order[drop]] = False
        return unpruned

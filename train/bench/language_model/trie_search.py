"""Search of the completion trie with a model: the valid completions of a batch of prompts, with their probabilities.

Prompts are prefilled once, in batches of equal length (so there is no padding and no mask); the trie is then searched from
their key-value cache, one token per level, wherever a prefix has probability. Logits are computed for the last token alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.models.vision import completion_logits, picture_tensors, rope_positions, text_config
from creditflow.train.bench.language_model.completion_trie import CompletionTrie
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = ["Completions", "TrieSearch", "rows_at_once"]

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
        end: int64 (n,), its end token; −1 if it is truncated.
        probability: float64 (n,).
        unresolved: float64 (prompts,), probability of the prefixes that were pruned.
    """

    prompt: NDArray[np.int64]
    node: NDArray[np.int64]
    end: NDArray[np.int64]
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
        self.following: NDArray[np.int64] | None = None
        self.entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]] = []

    def run(self, ids: NDArray[np.int64], pictures: Sequence[Sequence[EncodedPicture]] = ()) -> Completions:
        """The valid completions of the prompts, int64 (count, L), with the pictures in each; () if none has any."""
        import torch
        from transformers import DynamicCache

        self.length = ids.shape[1]
        cache = DynamicCache(config=self.model.config)
        options: dict[str, Any] = {}
        if pictures:
            rows = [rope_positions(row.astype(np.int32), of_row) for row, of_row in zip(ids, pictures, strict=True)]
            positions = np.stack(rows, 1)
            self.following = positions.max((0, 2)) + 1  # of the first token of each prompt's completion
            options = picture_tensors([picture for of_row in pictures for picture in of_row], self.device)
            options["position_ids"] = torch.from_numpy(positions).to(self.device)
        table = self.read(torch.from_numpy(ids).to(self.device), cache, **options)
        count = len(ids)
        self._follow(cache, table, np.arange(count), np.zeros(count, np.int64), np.ones(count))
        none = np.zeros(0, np.int64)
        entries = [*self.entries, (none, none, none, np.zeros(0))]
        return Completions(
            np.concatenate([entry[0] for entry in entries]),
            np.concatenate([entry[1] for entry in entries]),
            np.concatenate([entry[2] for entry in entries]),
            np.concatenate([entry[3] for entry in entries]),
            self.unresolved,
        )

    def read(self, ids: Any, cache: Any, **options: Any) -> Any:
        """Run the model on further tokens (R, L); returns the probabilities of the next one, float64 (R, V).

        Args:
            ids: the tokens.
            cache: key-value cache of the tokens before them.
            **options: pictures in the ids, and positions, if a prompt has pictures.
        """
        from creditflow.agents.backends.token_sampling import token_probabilities
        from creditflow.agents.backends.transformers_backend import CACHE_ARGUMENT

        out = self.model(input_ids=ids, use_cache=True, logits_to_keep=1, **{CACHE_ARGUMENT: cache}, **options)
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
            self._add(prompt[rows], np.full(len(ends), prefix), ends, probability[:, : len(ends)])
            longer = probability[:, len(ends) :]
            if len(children) and not self.trie.nodes[children[0]].grows:
                self._add(prompt[rows], children, np.full(len(children), -1), longer)
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
        options: dict[str, Any] = {}
        if self.following is not None:
            depths = np.array([len(self.trie.nodes[prefix].path) for prefix in node.tolist()], np.int64)
            positions = torch.from_numpy(self.following[prompt] + depths - 1).to(self.device)
            options["position_ids"] = positions[None, :, None].expand(3, -1, -1)
        table = self.read(torch.from_numpy(last)[:, None].to(self.device), cache, **options)
        self._follow(cache, table, prompt, node, mass)

    def _columns(self, table: Any, rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> Floats:
        import torch

        index = (torch.from_numpy(array).to(self.device) for array in (rows, tokens))
        row, column = index
        columns: Floats = table[row[:, None], column[None, :]].cpu().numpy()
        return columns

    def _add(
        self, prompt: NDArray[np.int64], node: NDArray[np.int64], end: NDArray[np.int64], probability: Floats
    ) -> None:
        """Add completions: (R,) prompts times (C,) nodes and end tokens, with probabilities (R, C)."""
        if probability.size:
            rows = len(prompt)
            self.entries.append(
                (np.repeat(prompt, len(node)), np.tile(node, rows), np.tile(end, rows), probability.ravel())
            )

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

"""Sampling completions from the model conditional on the action that they are read as, including the invalid action.

A training row needs the tokens of a turn, not only its action. Completions of a valid action are sampled from its listed
completions. Those of the invalid action are too many to list: their tokens are sampled one after the other from the model's
distribution without the probability of completions that are valid.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.language_model.trie_search import Completions, TrieSearch

__all__ = ["sample_completions"]

Path = tuple[int, ...]


def sample_completions(
    search: TrieSearch,
    ids: NDArray[np.int64],
    found: Completions,
    actions: NDArray[np.int64],
    uniforms: NDArray[np.float64],
) -> list[NDArray[np.int32]]:
    """Sample one completion per prompt, given its action.

    Args:
        search: the trie search of these prompts, which holds the model.
        ids: int64 (R, L), prompts of equal length.
        found: their valid completions.
        actions: int64 (R,), indices of actions; A for the invalid one.
        uniforms: float64 (R, max_new_tokens), uniform random numbers in [0, 1).

    Returns:
        R completions, int32 ids each, with their end token.

    Raises:
        ConfigError: an action has probability 0.
    """
    trie = search.trie
    drawn: dict[int, Path] = {}
    entries: dict[int, list[int]] = defaultdict(list)
    for entry, entry_index in enumerate(found.prompt.tolist()):
        entries[entry_index].append(entry)
    invalid = np.flatnonzero(actions == len(trie.actions))
    for entry_index in np.flatnonzero(actions < len(trie.actions)).tolist():
        fits = [i for i in entries[entry_index] if trie.nodes[found.node[i]].action == actions[entry_index]]
        weights = found.probability[fits]
        if not weights.sum() > 0.0:
            raise ConfigError(
                f"the model gives no completion that is read as {trie.actions[actions[entry_index]]!r} a positive probability "
                f"after prompt {entry_index}, so none can be sampled"
            )
        drawn[entry_index] = _completion(search, found, fits[_pick(weights, uniforms[entry_index, 0])])
    if len(invalid):
        valid = [_prefixes(search, found, entries[entry_index]) for entry_index in invalid.tolist()]
        drawn |= zip(invalid.tolist(), _sample_invalid(search, ids[invalid], valid, uniforms[invalid]), strict=True)
    return [np.array(drawn[entry_index], np.int32) for entry_index in range(len(ids))]


def _completion(search: TrieSearch, found: Completions, entry: int) -> Path:
    end = int(found.end[entry])
    return (*search.trie.nodes[found.node[entry]].path, *((end,) if end >= 0 else ()))


def _prefixes(search: TrieSearch, found: Completions, entries: list[int]) -> dict[Path, float]:
    """Probability of all valid completions that begin with each prefix, or are equal to it."""
    total: dict[Path, float] = defaultdict(float)
    for entry in entries:
        path = _completion(search, found, entry)
        for length in range(1, len(path) + 1):
            total[path[:length]] += float(found.probability[entry])
    return total


def _sample_invalid(
    search: TrieSearch, ids: NDArray[np.int64], valid: list[dict[Path, float]], uniforms: NDArray[np.float64]
) -> list[Path]:
    """Sample completions that are not valid, one per prompt."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache(config=search.model.config)
    ends = set(search.trie.end_ids.tolist())
    paths: list[Path] = [()] * len(ids)
    masses, running = np.ones(len(ids)), np.ones(len(ids), np.bool_)
    tokens = ids
    for step in range(search.trie.max_new_tokens):
        table: Any = search.read(torch.from_numpy(tokens).to(search.device), cache).cpu().numpy()
        tokens = np.zeros((len(ids), 1), np.int64)
        for row in np.flatnonzero(running).tolist():
            weights = table[row] * masses[row]
            before = weights.copy()
            for path, mass in valid[row].items():
                if len(path) == step + 1 and path[:step] == paths[row]:
                    weights[path[-1]] = max(weights[path[-1]] - mass, 0.0)
            token = _pick(weights if weights.sum() > 0.0 else before, uniforms[row, step])
            paths[row], masses[row] = (*paths[row], token), before[token]
            tokens[row], running[row] = token, token not in ends
        if not running.any():
            break
    return paths


def _pick(weights: NDArray[np.float64], uniform: float) -> int:
    """An index in proportion to its weight."""
    total = np.cumsum(weights)
    return min(int(np.searchsorted(total, uniform * total[-1], "right")), int(np.flatnonzero(weights)[-1]))

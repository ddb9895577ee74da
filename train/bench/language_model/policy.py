"""The probability of every action in every state of a table, from the model itself.

A training row needs the tokens of a turn, not only its action. Completions of a valid action are sampled from its listed
completions. Those of the invalid action are too many to list: their tokens are sampled one after the other from the model's
distribution without the probability of completions that are valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.models.vision import text_config
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.language_model.completion_trie import CompletionTrie
from creditflow.train.bench.language_model.enumeration import BuiltPrompt
from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.bench.language_model.trie_search import Completions, TrieSearch, rows_at_once
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = ["TOLERANCE", "ExactPolicy", "sample_completions"]

TOLERANCE: Final = 1e-5  # probability per turn

Floats = NDArray[np.float64]


class ExactPolicy:
    """A language model as a tabular policy.

    Args:
        model: a causal language model of ``transformers``, on its device.
        trie: completions of the actions.
        sampling: how the agent samples; truncation (``top_k``, ``top_p``) is applied as the sampler applies it.
        tolerance: largest total probability, per state, of prefixes that are pruned and count as invalid; 0 prunes nothing.

    Attributes:
        unresolved: largest pruned probability over all states so far.
    """

    def __init__(
        self, model: Any, trie: CompletionTrie, sampling: Sampling | None = None, *, tolerance: float = TOLERANCE
    ) -> None:
        self.model, self.trie, self.tolerance = model, trie, tolerance
        self.sampling = sampling or Sampling(max_new_tokens=trie.max_new_tokens)
        self.unresolved = 0.0

    @classmethod
    def of_agent(
        cls,
        agent: LanguageModelAgent,
        tokenizer: Any,
        env: AgentEnv[Any, Any, Any],
        actions: Sequence[str],
        *,
        tolerance: float = TOLERANCE,
    ) -> ExactPolicy:
        """The policy of an agent over these actions.

        Raises:
            ConfigError: the agent's model is not in this process, or its dialect has no finite set of completions.
        """
        model = getattr(agent.backend, "model", None)
        if model is None or not hasattr(model, "config"):
            raise ConfigError(
                f"exact probabilities need the model in this process (--agent hf:PATH); {type(agent.backend).__name__} only samples"
            )
        trie = CompletionTrie(
            actions,
            env,
            agent.dialect,
            agent.conversations.chat,
            tokenizer,
            int(text_config(model).vocab_size),
            agent.sampling.max_new_tokens,
        )
        return cls(model, trie, agent.sampling, tolerance=tolerance)

    def probabilities(self, tables: Sequence[PromptTable], temperature: float = 1.0) -> list[Floats]:
        """π(a|s) of every table: float64 (S, A), rows sum to 1; the last action is the invalid one.

        Args:
            tables: tables whose actions are those of the trie.
            temperature: the sampler's; 0 for greedy decoding.

        Raises:
            ConfigError: a table has other actions.
        """
        for table in tables:
            if table.actions != self.trie.actions:
                raise ConfigError(
                    f"the table {table.mdp.name} has other actions than this policy; make an ExactPolicy for its actions"
                )
        distinct: dict[bytes, int] = {}
        prompts: list[BuiltPrompt] = []
        rows: list[list[int]] = []
        for table in tables:
            rows.append([])
            for built in map(BuiltPrompt, table.prompts, table.pictures or repeat(())):
                if (content := built.content) not in distinct:
                    distinct[content] = len(prompts)
                    prompts.append(built)
                rows[-1].append(distinct[content])
        pictures = [built.pictures for built in prompts]
        table_rows = self.rows([built.ids for built in prompts], temperature, pictures if any(pictures) else ())
        return [table_rows[row] for row in rows]

    def greedy(self, tables: Sequence[PromptTable]) -> list[Floats]:
        """The greedy policy of every table: float64 (S, A), one action per state."""
        return self.probabilities(tables, 0.0)

    def rows(
        self,
        prompts: Sequence[NDArray[np.int32]],
        temperature: float = 1.0,
        pictures: Sequence[Sequence[EncodedPicture]] = (),
    ) -> Floats:
        """Action probabilities after each prompt: float64 (prompts, A), the last action the invalid one.

        Args:
            prompts: token ids, int32 each.
            temperature: the sampler's.
            pictures: the pictures in each prompt; () if no prompt has any.
        """
        count = len(self.trie.actions)
        table = np.zeros((len(prompts), count + 1))
        actions = np.zeros(0, np.int64)
        for chosen, ids, search in self._batches(prompts, temperature):
            completions = search.run(ids, [pictures[i] for i in chosen.tolist()] if pictures else ())
            if len(actions) < len(self.trie.nodes):
                actions = np.array([node.action for node in self.trie.nodes])
            flat = completions.prompt * count + actions[completions.node]
            table[chosen, :count] = np.bincount(flat, completions.probability, len(chosen) * count).reshape(-1, count)
            self.unresolved = max(self.unresolved, float(completions.unresolved.max()))
        table[:, count] = np.maximum(1.0 - table.sum(axis=1), 0.0)
        table /= table.sum(axis=1, keepdims=True)  # rounding alone
        return table

    def sample_completions(
        self,
        prompts: Sequence[NDArray[np.int32]],
        actions: NDArray[np.int64],
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> list[NDArray[np.int32]]:
        """Sample one completion per prompt among the model's completions that are read as a given action.

        Args:
            prompts: N prompts.
            actions: int (N,), indices of a table's actions, the invalid one included.
            rng: source of randomness.
            temperature: the sampler's.

        Returns:
            N completions, int32 ids each, with their end token.

        Raises:
            ConfigError: an action has probability 0.
        """
        uniforms = rng.random((len(prompts), self.trie.max_new_tokens))
        drawn: dict[int, NDArray[np.int32]] = {}
        for chosen, ids, search in self._batches(prompts, temperature):
            rows = sample_completions(search, ids, search.run(ids), np.asarray(actions)[chosen], uniforms[chosen])
            drawn |= zip(chosen.tolist(), rows, strict=True)
        return [drawn[i] for i in range(len(prompts))]

    def _batches(
        self, prompts: Sequence[NDArray[np.int32]], temperature: float
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], TrieSearch]]:
        """Yield batches of prompts of equal length: their indices, their ids (R, L), and a new search for them."""
        import torch

        sampling = replace(self.sampling, temperature=temperature, max_new_tokens=self.trie.max_new_tokens)
        lengths = np.array([len(ids) for ids in prompts])
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                for length in np.unique(lengths).tolist():
                    same, size = np.flatnonzero(lengths == length), rows_at_once(self.model, length)
                    for first in range(0, len(same), size):
                        chosen = same[first : first + size]
                        ids = np.stack([prompts[i] for i in chosen.tolist()]).astype(np.int64)
                        yield chosen, ids, TrieSearch(self.model, self.trie, sampling, len(chosen), self.tolerance)
        finally:
            self.model.train(training)


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

"""The probability of every action in every state of a table, from the model itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.models.vision import text_config
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.language_model.completion_trie import CompletionTrie, TrieSearch, rows_at_once
from creditflow.train.bench.language_model.tables import PromptTable

__all__ = ["TOLERANCE", "ExactPolicy"]

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
        prompts: list[NDArray[np.int32]] = []
        rows: list[list[int]] = []
        for table in tables:
            rows.append([])
            for ids in table.prompts:
                if (content := ids.tobytes()) not in distinct:
                    distinct[content] = len(prompts)
                    prompts.append(ids)
                rows[-1].append(distinct[content])
        table_rows = self.rows(prompts, temperature)
        return [table_rows[row] for row in rows]

    def greedy(self, tables: Sequence[PromptTable]) -> list[Floats]:
        """The greedy policy of every table: float64 (S, A), one action per state."""
        return self.probabilities(tables, 0.0)

    def rows(self, prompts: Sequence[NDArray[np.int32]], temperature: float = 1.0) -> Floats:
        """Action probabilities after each prompt: float64 (prompts, A), the last action the invalid one.

        Args:
            prompts: token ids, int32 each.
            temperature: the sampler's.
        """
        count = len(self.trie.actions)
        table = np.zeros((len(prompts), count + 1))
        actions = np.zeros(0, np.int64)
        for chosen, ids, search in self._batches(prompts, temperature):
            completions = search.run(ids)
            if len(actions) < len(self.trie.nodes):
                actions = np.array([node.action for node in self.trie.nodes])
            flat = completions.prompt * count + actions[completions.node]
            table[chosen, :count] = np.bincount(flat, completions.probability, len(chosen) * count).reshape(-1, count)
            self.unresolved = max(self.unresolved, float(completions.unresolved.max()))
        table[:, count] = np.maximum(1.0 - table.sum(axis=1), 0.0)
        table /= table.sum(axis=1, keepdims=True)  # rounding alone
        return table

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

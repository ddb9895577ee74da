"""The probability of every action in every state of a table, from the model itself.

Prompts are read once, in batches of equal length (so there is no padding and no mask); the trie of answers is then followed
from their key-value cache, one token a level, wherever a prefix has probability. Logits are computed after the last token alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.train.bench.language_model.answers import Answers
from creditflow.train.bench.language_model.tables import PromptTable

__all__ = ["TOLERANCE", "ExactPolicy"]

TOLERANCE: Final = 1e-5  # per turn
PROMPT_ROWS: Final = 256
STEP_ROWS: Final = 1024
BATCH_NUMBERS: Final = 1 << 23  # of a table of token probabilities

Floats = NDArray[np.float64]


class _Completions(NamedTuple):
    """Valid completions with their probabilities, one entry each.

    Attributes:
        prompt: int64 (n,), index of the prompt.
        node: int64 (n,), where in the trie the completion ends.
        end: int64 (n,), its end token; −1 if it is cut.
        probability: float64 (n,).
        unresolved: float64 (prompts,), probability of prefixes that were not followed.
    """

    prompt: NDArray[np.int64]
    node: NDArray[np.int64]
    end: NDArray[np.int64]
    probability: Floats
    unresolved: Floats


class ExactPolicy:
    """A language model as a table policy.

    Args:
        model: a causal language model of ``transformers``, on its device.
        answers: completions of the actions.
        sampling: how the agent samples; truncation (``top_k``, ``top_p``) is applied as the sampler applies it.
        tolerance: prefixes are not followed whose probabilities sum up to at most this, per state; their probability
            counts as invalid. 0 follows everything.

    Attributes:
        unresolved: largest probability, over all states so far, that was not followed.
    """

    def __init__(
        self, model: Any, answers: Answers, sampling: Sampling | None = None, *, tolerance: float = TOLERANCE
    ) -> None:
        self.model, self.answers, self.tolerance = model, answers, tolerance
        self.sampling = sampling or Sampling(max_new_tokens=answers.max_new_tokens)
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
                f"exact probabilities need the model itself, --agent hf:PATH; {type(agent.backend).__name__} only samples"
            )
        answers = Answers(
            actions,
            env,
            agent.dialect,
            agent.conversations.chat,
            tokenizer,
            int(model.config.vocab_size),
            agent.sampling.max_new_tokens,
        )
        return cls(model, answers, agent.sampling, tolerance=tolerance)

    def probabilities(self, tables: Sequence[PromptTable], temperature: float = 1.0) -> list[Floats]:
        """π(a|s) of every table: float64 (S, A), rows sum to 1; the last action is the invalid one.

        Args:
            tables: tables whose actions are those of the answers.
            temperature: the sampler's; 0 for greedy decoding.

        Raises:
            ConfigError: a table has other actions.
        """
        for table in tables:
            if table.actions != self.answers.actions:
                raise ConfigError(f"the table {table.mdp.name} has other actions than the answers")
        distinct: dict[bytes, int] = {}
        rows = [[distinct.setdefault(ids.tobytes(), len(distinct)) for ids in table.prompts] for table in tables]
        prompts = [np.frombuffer(ids, np.int32) for ids in distinct]
        table_rows = self.rows(prompts, temperature)
        return [table_rows[row] for row in rows]

    def greedy(self, tables: Sequence[PromptTable]) -> list[Floats]:
        """The greedy policy of every table: float64 (S, A), one action per state."""
        return self.probabilities(tables, 0.0)

    def rows(self, prompts: Sequence[NDArray[np.int32]], temperature: float = 1.0) -> Floats:
        """Action probabilities after each prompt: float64 (prompts, A)."""
        count = len(self.answers.actions)
        table = np.zeros((len(prompts), count + 1))
        actions = np.zeros(0, np.int64)
        for chosen, found in self._completions(prompts, temperature):
            if len(actions) < len(self.answers.nodes):
                actions = np.array([node.action for node in self.answers.nodes])
            flat = found.prompt * count + actions[found.node]
            table[chosen, :count] = np.bincount(flat, found.probability, len(chosen) * count).reshape(-1, count)
            self.unresolved = max(self.unresolved, float(found.unresolved.max()))
        table[:, count] = np.maximum(1.0 - table.sum(axis=1), 0.0)
        table /= table.sum(axis=1, keepdims=True)  # rounding alone
        return table

    def sample_answers(
        self,
        prompts: Sequence[NDArray[np.int32]],
        actions: NDArray[np.int64],
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> list[NDArray[np.int32]]:
        """One completion per prompt, drawn from the model's completions that are read as a given action.

        Args:
            prompts: N prompts.
            actions: int (N,), indices of actions; not the invalid one.
            rng: generator.
            temperature: the sampler's.

        Returns:
            N times int32 ids, the end token included.

        Raises:
            ConfigError: an action without probability, or the invalid action.
        """
        nodes = self.answers.nodes
        uniform = rng.random(len(prompts))
        answers: dict[int, NDArray[np.int32]] = {}
        for chosen, found in self._completions(prompts, temperature):
            reads = np.array([nodes[node].action for node in found.node.tolist()], np.int64)
            for place, prompt in enumerate(chosen.tolist()):
                fits = np.flatnonzero((found.prompt == place) & (reads == actions[prompt]))
                total = np.cumsum(found.probability[fits])
                if not len(fits) or total[-1] <= 0.0:
                    raise ConfigError(f"prompt {prompt}: action {actions[prompt]} has no completion to draw")
                entry = fits[min(int(np.searchsorted(total, uniform[prompt] * total[-1], "right")), len(fits) - 1)]
                end = int(found.end[entry])
                answers[prompt] = np.array([*nodes[found.node[entry]].path, *([end] if end >= 0 else [])], np.int32)
        return [answers[i] for i in range(len(prompts))]

    # -- the model --------------------------------------------------------------------------------------------------------
    def _completions(
        self, prompts: Sequence[NDArray[np.int32]], temperature: float
    ) -> Iterator[tuple[NDArray[np.int64], _Completions]]:
        """Yield batches: the indices of their prompts, and the valid completions of each."""
        import torch

        sampling = replace(self.sampling, temperature=temperature, max_new_tokens=self.answers.max_new_tokens)
        lengths = np.array([len(ids) for ids in prompts])
        size = self.batch_rows(PROMPT_ROWS)
        training = self.model.training
        self.model.eval()
        try:
            with torch.inference_mode():
                for length in np.unique(lengths).tolist():
                    same = np.flatnonzero(lengths == length)
                    for first in range(0, len(same), size):
                        chosen = same[first : first + size]
                        ids = np.stack([prompts[i] for i in chosen.tolist()]).astype(np.int64)
                        yield chosen, _Follower(self, sampling, len(chosen)).run(torch.from_numpy(ids))
        finally:
            self.model.train(training)

    def batch_rows(self, most: int) -> int:
        """Number of rows that are read at once: ``most``, or fewer for a large vocabulary."""
        return max(1, min(most, BATCH_NUMBERS // int(self.model.config.vocab_size)))


class _Follower:
    """Follows the trie for one batch of prompts."""

    def __init__(self, policy: ExactPolicy, sampling: Sampling, count: int) -> None:
        self.policy, self.answers, self.sampling = policy, policy.answers, sampling
        self.device = next(policy.model.parameters()).device
        self.budget = np.full(count, policy.tolerance)
        self.unresolved = np.zeros(count)
        self.entries: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]] = []

    def run(self, ids: Any) -> _Completions:
        from transformers import DynamicCache

        cache = DynamicCache(config=self.policy.model.config)
        probabilities = self._read(ids.to(self.device), cache)
        count = len(ids)
        self._follow(cache, probabilities, np.arange(count), np.zeros(count, np.int64), np.ones(count))
        none = np.zeros(0, np.int64)
        entries = [*self.entries, (none, none, none, np.zeros(0))]
        return _Completions(
            np.concatenate([entry[0] for entry in entries]),
            np.concatenate([entry[1] for entry in entries]),
            np.concatenate([entry[2] for entry in entries]),
            np.concatenate([entry[3] for entry in entries]),
            self.unresolved,
        )

    def _read(self, ids: Any, cache: Any) -> Any:
        """Read more tokens; returns the probabilities of the next one, float64 (R, V)."""
        from creditflow.agents.backends.token_sampling import token_probabilities

        out = self.policy.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return token_probabilities(out.logits[:, -1].float(), self.sampling)

    def _follow(self, cache: Any, table: Any, prompt: NDArray[np.int64], node: NDArray[np.int64], mass: Floats) -> None:
        """Add the completions that end after these prefixes, and follow the longer ones.

        Args:
            cache: key-value cache of the prefixes; it is used up.
            table: (R, V), probabilities of the next token.
            prompt, node, mass: (R,), index of the prompt, prefix in the trie, and its probability.
        """
        parents, prompts, nodes, masses = [], [], [], []
        for one in np.unique(node).tolist():
            rows = np.flatnonzero(node == one)
            tokens, children = self.answers.children(one)
            ends = self.answers.end_ids if self.answers.nodes[one].action >= 0 else self.answers.end_ids[:0]
            wanted = np.concatenate([ends, tokens])
            if not len(wanted):
                continue
            probability = self._columns(table, rows, wanted) * mass[rows, None]
            self._add(prompt[rows], np.full(len(ends), one), ends, probability[:, : len(ends)])
            longer = probability[:, len(ends) :]
            if len(children) and not self.answers.nodes[children[0]].grows:
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
        kept = np.flatnonzero(self._worth_following(prompt, mass))
        size = self.policy.batch_rows(STEP_ROWS)
        for first in range(0, len(kept), size):
            some = kept[first : first + size]
            part = cache if first + size >= len(kept) else copy.deepcopy(cache)
            self._step(part, parent[some], prompt[some], node[some], mass[some])

    def _step(
        self, cache: Any, parent: NDArray[np.int64], prompt: NDArray[np.int64], node: NDArray[np.int64], mass: Floats
    ) -> None:
        """Read the last token of these prefixes, from the cache of their parents, and go on."""
        import torch

        cache.batch_select_indices(torch.from_numpy(parent).to(self.device))
        last = np.array([self.answers.nodes[one].path[-1] for one in node.tolist()], np.int64)
        table = self._read(torch.from_numpy(last)[:, None].to(self.device), cache)
        self._follow(cache, table, prompt, node, mass)

    def _columns(self, table: Any, rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> Floats:
        import torch

        index = (torch.from_numpy(array).to(self.device) for array in (rows, tokens))
        row, column = index
        found: Floats = table[row[:, None], column[None, :]].cpu().numpy()
        return found

    def _add(
        self, prompt: NDArray[np.int64], node: NDArray[np.int64], end: NDArray[np.int64], probability: Floats
    ) -> None:
        """Add completions: (R,) prompts times (C,) nodes and end tokens, with probabilities (R, C)."""
        if probability.size:
            rows = len(prompt)
            self.entries.append(
                (np.repeat(prompt, len(node)), np.tile(node, rows), np.tile(end, rows), probability.ravel())
            )

    def _worth_following(self, prompt: NDArray[np.int64], mass: Floats) -> NDArray[np.bool_]:
        """All but the least likely prefixes; each level of the trie may spend half of what is left of the tolerance."""
        order = np.lexsort((mass, prompt))
        ordered, owner = mass[order], prompt[order]
        total = np.cumsum(ordered)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        before = np.repeat(total[starts] - ordered[starts], np.diff(starts, append=len(owner)))
        allowed = 0.5 * self.budget[owner]
        drop = (ordered == 0.0) | ((allowed > 0.0) & (total - before <= allowed))
        dropped = np.bincount(owner[drop], ordered[drop], len(self.budget))
        self.budget -= dropped
        self.unresolved += dropped
        worth = np.ones(len(mass), np.bool_)
        worth[order[drop]] = False
        return worth

"""A language model as a policy on many tasks at once: probabilities, gradients and steps in its own parameter space.

Every state is one row of a batch: its prompt, and after it the prefixes of all completions that are read as an action. Each of
them attends to the prompt and to its own beginning, so that one forward pass gives the probability of every completion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.bench.learning.policy import policy_divergence

__all__ = ["ModelPolicy", "flat_parameters", "load_parameters", "parameter_vector"]

Floats = NDArray[np.float64]
BATCH_TOKENS: Final = 8192  # of a forward pass


class ModelPolicy:
    """π(a | s) of a model on tasks with a prompt for every state.

    Args:
        model: a causal language model of ``transformers``.
        tasks: the tasks, each with its prompts.
        completions: for each action the ids of the completions that are read as it; any other is the invalid action.
        temperature: sampling temperature.

    Attributes:
        model, tasks, completions, temperature: as given.
        tokens: tokens processed so far; a forward pass counts once, a backward pass twice.
    """

    def __init__(
        self,
        model: Any,
        tasks: Sequence[PromptTable],
        completions: Sequence[Sequence[tuple[int, ...]]],
        temperature: float = 1.0,
    ) -> None:
        self.model, self.tasks, self.completions, self.temperature = model, tasks, completions, temperature
        self.tokens = 0
        self._tree = CompletionTree(completions, int(model.config.vocab_size))

    @property
    def device(self) -> Any:
        """The device of the model."""
        return self._weight.device

    def probabilities(self, tasks: Sequence[int]) -> list[Floats]:
        """π of the tasks at these indices: float64 (S_i, A), the last action the invalid one."""
        prompts = [prompt for i in tasks for prompt in self.tasks[i].prompts]
        with torch.no_grad():
            logs = [
                (rows, self.log_probabilities([prompts[r] for r in rows]))
                for rows in batches(prompts, len(self._tree.tokens))
            ]
        self.tokens += self.processed(prompts)
        table = np.empty((len(prompts), len(self.completions) + 1))
        for rows, log in logs:
            table[rows] = log.exp().double().cpu().numpy()
        table /= table.sum(axis=1, keepdims=True)  # rounding of float32
        return np.split(table, np.cumsum([self.tasks[i].mdp.size for i in tasks])[:-1])

    def processed(self, prompts: Sequence[NDArray[np.int32]]) -> int:
        """Number of tokens of one forward pass after each prompt."""
        return sum(map(len, prompts)) + len(prompts) * len(self._tree.tokens)

    def log_probabilities(self, prompts: Sequence[NDArray[np.int32]]) -> Any:
        """log π after each prompt: float32 tensor (N, A), the last action the invalid one; with gradient if grad mode is on."""
        tree, logs = self._tree, self._token_logs(prompts)  # (N, 1+K, V)
        of_completion = _summed(logs, tree.steps)
        nothing = of_completion.new_full((len(prompts), 1), -torch.inf)
        by_action = torch.cat([of_completion, nothing], 1)[:, _tensor(tree.of_action, logs)].logsumexp(2)
        # a token that no completion has there
        left = logs.masked_fill(_tensor(tree.follows, logs), -torch.inf).logsumexp(2)
        invalid = (_summed(logs, tree.prefix_steps) + left).logsumexp(1, keepdim=True)
        return torch.cat([by_action, invalid], 1)

    def _token_logs(self, prompts: Sequence[NDArray[np.int32]]) -> Any:
        """Log-probabilities of the token after each prompt and each prefix of a completion: float32 tensor (N, 1+K, V)."""
        tree, device = self._tree, self.device
        lengths = np.array([len(prompt) for prompt in prompts])
        longest, added = int(lengths.max()), len(tree.tokens)
        ids = np.zeros((len(prompts), longest + added), np.int64)
        for r, prompt in enumerate(prompts):
            ids[r, : len(prompt)] = prompt
        ids[:, longest:] = tree.tokens
        positions = np.tile(np.arange(longest + added), (len(prompts), 1))
        positions[:, longest:] = lengths[:, None] + tree.depths - 1
        inputs: dict[str, NDArray[Any]] = {"input_ids": ids, "position_ids": positions}
        if added:
            inputs["attention_mask"] = self._visible(lengths, longest)
        tensors = {name: _tensor(array, self._weight) for name, array in inputs.items()}
        hidden = self.model.get_decoder()(use_cache=False, **tensors).last_hidden_state
        at = np.concatenate([lengths[:, None] - 1, np.tile(longest + np.arange(added), (len(prompts), 1))], 1)
        chosen = hidden[torch.arange(len(prompts), device=device)[:, None], _tensor(at, hidden)]
        return torch.log_softmax(self.model.get_output_embeddings()(chosen).float() / self.temperature, -1)

    def _visible(self, lengths: NDArray[np.int64], longest: int) -> NDArray[np.bool_]:
        """bool (N, 1, L+K, L+K): a prompt is read from left to right, a prefix sees the prompt and its own beginning."""
        width = longest + len(self._tree.tokens)
        visible = np.tile(np.tri(width, dtype=np.bool_), (len(lengths), 1, 1))
        visible[:, longest:, :longest] = np.arange(longest) < lengths[:, None, None]
        visible[:, longest:, longest:] = self._tree.visible
        return visible[:, None]

    @property
    def _weight(self) -> Any:
        return next(self.model.parameters())

    def accumulate(self, tasks: Sequence[int], weights: Sequence[Floats]) -> None:
        """Add −Σ_i Σ_sa w_i[s, a] ∇ log π_i(a | s), the gradient of a loss, to the ``grad`` of the parameters.

        Args:
            tasks: indices of the tasks.
            weights: w_i, float64 (S_i, A), of each.
        """
        prompts, rows_of = list[NDArray[np.int32]](), list[Floats]()
        for i, weight in zip(tasks, weights, strict=True):
            for state in np.flatnonzero(weight.any(axis=1)).tolist():
                prompts.append(self.tasks[i].prompts[state])
                rows_of.append(weight[state])
        for rows in batches(prompts, len(self._tree.tokens)):
            log = self.log_probabilities([prompts[r] for r in rows])
            weight = torch.from_numpy(np.stack([rows_of[r] for r in rows])).to(log.device, log.dtype)
            (-(weight * log).sum()).backward()
        self.tokens += 3 * self.processed(prompts)

    def gradient(self, tasks: Sequence[int], weights: Sequence[Floats]) -> Floats:
        """Σ_i Σ_sa w_i[s, a] ∇ log π_i(a | s): float64 (P,); arguments as in ``accumulate``."""
        total: Floats = self.ascent(tasks, weights).cpu().numpy()
        return total

    def ascent(self, tasks: Sequence[int], weights: Sequence[Floats]) -> Any:
        """As ``gradient``: float64 tensor (P,) on the model's device."""
        self.model.zero_grad(set_to_none=True)
        self.accumulate(tasks, weights)
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in flat_parameters(self.model)]
        self.model.zero_grad(set_to_none=True)
        return -torch.cat([gradient.flatten() for gradient in gradients]).double()

    def moved(self, direction: Any, size: float) -> ModelPolicy:
        """A copy with ``size`` · ``direction`` (P,), an array or a tensor, added to its parameters; it goes on counting tokens."""
        copy = ModelPolicy(deepcopy(self.model), self.tasks, self.completions, self.temperature)
        step, start = size * torch.as_tensor(direction, device=self.device), 0
        with torch.no_grad():
            for parameter in flat_parameters(copy.model):
                values = step[start : start + parameter.numel()].reshape(parameter.shape)
                parameter.copy_(parameter + values)
                start += parameter.numel()
        copy.tokens = self.tokens
        return copy

    def divergence_along(self, tasks: Sequence[int], direction: Floats, visits: Floats) -> Callable[[float], float]:
        """Σ_s visits(s) KL(π(s) ‖ π_η(s)) in nats, by the size η of a step along ``direction`` (P,); visits (S,) are stacked."""
        old = np.concatenate(self.probabilities(tasks))

        def divergence(size: float) -> float:
            return policy_divergence(old, np.concatenate(self.moved(direction, size).probabilities(tasks)), visits)

        return divergence


class CompletionTree:
    """All prefixes of some completions. Prefix 0 is the empty one, and K others have tokens.

    Args:
        completions: by action, the ids of every completion that is read as it; none is the beginning of another one.
        vocabulary: V, number of tokens of the model.

    Attributes:
        tokens, depths: int64 (K,), last token and length of prefixes 1 … K, none before its own beginning.
        visible: bool (K, K), which of these prefixes begin each of them, itself included: the tokens that its token attends to.
        prefix_steps: int64 (1+K, D, 2), the prefix before and the token of every step to a prefix, padded with −1.
        steps: int64 (C, D, 2), the same for every completion.
        of_action: int64 (A, M), numbers of the completions of each action, padded with C.
        follows: bool (1+K, V), whether prefix and token are the beginning of a completion.
    """

    def __init__(self, completions: Sequence[Sequence[tuple[int, ...]]], vocabulary: int) -> None:
        flat = list(chain.from_iterable(completions))
        beginnings = set(chain.from_iterable(map(_beginnings, flat)))
        prefixes = sorted(beginnings, key=lambda prefix: (len(prefix), prefix))
        number = {prefix: i for i, prefix in enumerate(prefixes)}
        longest = max(map(len, flat))

        def steps_to(paths: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
            steps = np.full((len(paths), longest, 2), -1, np.int64)
            for row, path in enumerate(paths):
                for depth, token in enumerate(path):
                    steps[row, depth] = number[path[:depth]], token
            return steps

        self.tokens = np.array([prefix[-1] for prefix in prefixes[1:]], np.int64)
        self.depths = np.array([len(prefix) for prefix in prefixes[1:]], np.int64)
        self.visible = np.zeros((len(prefixes) - 1,) * 2, np.bool_)
        for row, prefix in enumerate(prefixes[1:]):
            self.visible[row, [number[shorter] - 1 for shorter in (*_beginnings(prefix)[1:], prefix)]] = True
        self.prefix_steps, self.steps = steps_to(prefixes), steps_to(flat)
        counts = list(map(len, completions))
        self.of_action = np.full((len(counts), max(counts)), len(flat), np.int64)
        self.of_action[np.arange(max(counts)) < np.array(counts)[:, None]] = np.arange(len(flat))
        self.follows = np.zeros((len(prefixes), vocabulary), np.bool_)
        made = self.steps[self.steps[:, :, 0] >= 0]
        self.follows[made[:, 0], made[:, 1]] = True


def _beginnings(ids: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The empty prefix and all longer ones but the ids themselves."""
    return [ids[:length] for length in range(len(ids))]


def _tensor(array: NDArray[Any], like: Any) -> Any:
    """The array as a tensor on the device of another tensor."""
    return torch.from_numpy(array).to(like.device)


def _summed(logs: Any, steps: NDArray[np.int64]) -> Any:
    """Log-probabilities of paths: float32 tensor (N, C) of logs (N, 1+K, V) and steps (C, D, 2)."""
    of_steps = logs[:, _tensor(steps[:, :, 0], logs), _tensor(steps[:, :, 1], logs)]
    return of_steps.masked_fill(_tensor(steps[:, :, 0] < 0, logs), 0.0).sum(2)


def flat_parameters(model: Any) -> list[Any]:
    """The trained parameters in the model's order; tied ones occur once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def parameter_vector(model: Any) -> NDArray[np.float32]:
    """All trained parameters as one vector, float32 (P,)."""
    vector: NDArray[np.float32] = (
        torch.cat([p.detach().flatten() for p in flat_parameters(model)]).float().cpu().numpy()
    )
    return vector


def load_parameters(model: Any, vector: NDArray[np.floating[Any]]) -> None:
    """Set all trained parameters from a vector (P,) of ``parameter_vector``."""
    start = 0
    with torch.no_grad():
        for parameter in flat_parameters(model):
            values = torch.from_numpy(vector[start : start + parameter.numel()].copy())
            parameter.copy_(values.reshape(parameter.shape))
            start += parameter.numel()


def batches(prompts: Sequence[NDArray[np.int32]], added: int = 0) -> list[list[int]]:
    """Indices of the prompts of each forward pass, sorted by length to save padding; ``added`` tokens follow each of them."""
    order = sorted(range(len(prompts)), key=lambda r: (len(prompts[r]), r))
    batches_: list[list[int]] = []
    for r in order:
        if not batches_ or (len(batches_[-1]) + 1) * (len(prompts[r]) + added) > BATCH_TOKENS:
            batches_.append([])
        batches_[-1].append(r)
    return batches_

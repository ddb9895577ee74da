"""A language model as a policy on many tasks at once: probabilities, gradients and steps in its own parameter space.

Completions have one token, so the distribution over actions is a sum over one softmax, at the end of the prompt. Every state
is one row of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.train.bench.language_model.tables import PromptTable
from creditflow.train.bench.learning.steps import policy_divergence

__all__ = ["ModelPolicy", "flat_parameters", "load_parameters", "parameter_vector"]

Floats = NDArray[np.float64]
BATCH_TOKENS: Final = 8192  # of a forward pass


class ModelPolicy:
    """π(a | s) of a model on tasks with a prompt for every state.

    Args:
        model: a causal language model of ``transformers``.
        tasks: the tasks, each with its prompts.
        action_tokens: for each action the tokens that are read as it; any other token is the invalid action.
        temperature: sampling temperature.

    Attributes:
        model, tasks, action_tokens, temperature: as given.
        tokens: tokens processed so far; a forward pass counts once, a backward pass twice.
    """

    def __init__(
        self,
        model: Any,
        tasks: Sequence[PromptTable],
        action_tokens: Sequence[NDArray[np.int64]],
        temperature: float = 1.0,
    ) -> None:
        self.model, self.tasks, self.action_tokens, self.temperature = model, tasks, action_tokens, temperature
        self.tokens = 0

    @property
    def device(self) -> Any:
        """The device of the model."""
        return next(self.model.parameters()).device

    def probabilities(self, tasks: Sequence[int]) -> list[Floats]:
        """π of the tasks at these indices: float64 (S_i, A), the last action the invalid one."""
        prompts = [prompt for i in tasks for prompt in self.tasks[i].prompts]
        with torch.no_grad():
            logs = [(rows, self.log_probabilities([prompts[r] for r in rows])) for rows in batches(prompts)]
        self.tokens += sum(map(len, prompts))
        table = np.empty((len(prompts), len(self.action_tokens) + 1))
        for rows, log in logs:
            table[rows] = log.exp().double().cpu().numpy()
        table /= table.sum(axis=1, keepdims=True)  # rounding of float32
        return np.split(table, np.cumsum([self.tasks[i].mdp.size for i in tasks])[:-1])

    def log_probabilities(self, prompts: Sequence[NDArray[np.int32]]) -> Any:
        """log π after each prompt: float32 tensor (N, A), the last action the invalid one; with gradient if grad mode is on."""
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        ids = np.zeros((len(prompts), int(lengths.max())), np.int64)
        for r, prompt in enumerate(prompts):
            ids[r, : len(prompt)] = prompt
        device = self.device
        positions = torch.arange(ids.shape[1], device=device)[None, :]
        hidden = self.model.get_decoder()(
            input_ids=torch.from_numpy(ids).to(device), position_ids=positions, use_cache=False
        ).last_hidden_state
        last = hidden[torch.arange(len(prompts), device=device), (lengths - 1).to(device)]
        logs = torch.log_softmax(self.model.get_output_embeddings()(last).float() / self.temperature, -1)
        by_action = [torch.logsumexp(logs[:, torch.from_numpy(ids).to(device)], 1) for ids in self.action_tokens]
        actions = np.concatenate(list(self.action_tokens))
        invalid = np.setdiff1d(np.arange(logs.shape[1]), actions)
        by_action.append(torch.logsumexp(logs[:, torch.from_numpy(invalid).to(device)], 1))
        return torch.stack(by_action, 1)

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
        for rows in batches(prompts):
            log = self.log_probabilities([prompts[r] for r in rows])
            weight = torch.from_numpy(np.stack([rows_of[r] for r in rows])).to(log.device, log.dtype)
            (-(weight * log).sum()).backward()
        self.tokens += 3 * sum(map(len, prompts))

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
        copy = ModelPolicy(deepcopy(self.model), self.tasks, self.action_tokens, self.temperature)
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


def batches(prompts: Sequence[NDArray[np.int32]]) -> list[list[int]]:
    """Indices of the prompts of each forward pass, sorted by length to save padding."""
    order = sorted(range(len(prompts)), key=lambda r: (len(prompts[r]), r))
    batches_: list[list[int]] = []
    for r in order:
        if not batches_ or (len(batches_[-1]) + 1) * len(prompts[r]) > BATCH_TOKENS:
            batches_.append([])
        batches_[-1].append(r)
    return batches_

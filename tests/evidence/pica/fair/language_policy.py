"""A small language model as the acting policy, trained from random weights on an expert's decisions.

It reads each listed action with the question, what was acted on before and the sentence that mentions the action's name, and the odds of " yes" against
" no" as the next token are the action's score; the policy is the softmax of these log odds over the listed actions. Of so little training a model
does not learn to copy names, so it chooses among listed actions instead of writing them. Its mistakes are its own: it
confuses relations that are worded alike, where a scripted agent errs uniformly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from evidence.pica.fair.mentions import acted_name, mention
from numpy.typing import NDArray

from creditflow.agents.base import Agent, Decision, View
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["NETWORK", "LanguagePolicy", "Watched", "choice_text", "imitate", "open_policy"]

NETWORK: Final = ScratchConfig(
    hidden=64,
    layers=2,
    heads=4,
    kv_heads=4,
    intermediate=128,
    vocabulary=1200,
    pattern=" ?[A-Za-z]+|[^A-Za-z]",
    positions=512,
    init=0.08,
)
BATCH: Final = 24  # decisions per step, each with one demonstrated action and one other
KNOWN: Final = 200_000  # cached decisions
ANSWERS: Final = (" no", " yes")


@dataclass(frozen=True, slots=True)
class Choice:
    """One decision of the demonstrator: the texts of the optimal listed actions, and of the others."""

    good: tuple[str, ...]
    other: tuple[str, ...]


class Watched:
    """An agent whose views are recorded as demonstrations, whatever it plays.

    Args:
        agent: plays.

    Attributes:
        choices: a decision for every view with both optimal and other actions.
    """

    name = "watched"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.choices: list[Choice] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        """The agent's decisions."""
        for view in views:
            listed, optimal = view.info["admissible_actions"], set(view.oracle.optimal_actions(view.snapshot))
            texts = dict(zip(listed, texts_of(view), strict=True))
            good = tuple(texts[one] for one in listed if one in optimal)
            other = tuple(texts[one] for one in listed if one not in optimal)
            if good and other:
                self.choices.append(Choice(good, other))
        return self._agent.act(views)


def texts_of(view: View) -> list[str]:
    """What the model reads of each listed action."""
    observations = [*(turn.observation for turn in view.turns), str(view.observation)]
    acted = [turn.action for turn in view.turns]
    return [choice_text(observations, acted, action) for action in view.info["admissible_actions"]]


def choice_text(observations: Sequence[str], acted: Sequence[str], action: str) -> str:
    """The question, the names acted on, the sentence that mentions the action's name, and the action."""
    past = "; ".join(acted_name(text) for text in acted if not acted_name(text).endswith("?"))
    said = mention(acted_name(action), observations) or "unread"
    return f"{observations[0]}\nacted: {past}\n{said}\n{action} ?"


def imitate(data: Sequence[Choice], steps: int, seed: int, network: ScratchConfig = NETWORK) -> LanguagePolicy:
    """A policy trained on demonstrations; the loss is that of the token after each action, half of which were demonstrated.

    Args:
        data: the demonstrations.
        steps: optimiser steps.
        seed: of weights and order.
        network: size of the model.
    """
    texts = [text for one in data for text in (one.good[0], one.other[0])]
    tokenizer = build_tokenizer((text + answer for text in texts for answer in ANSWERS), network)
    policy = LanguagePolicy(build_model(network, tokenizer, seed=seed), tokenizer)
    config = OptimizerConfig(lr=3e-3, schedule="cosine", warmup_fraction=0.05, weight_decay=0.05)
    optimizer, rng = make_optimizer(policy.model, config), np.random.default_rng([seed, 21])
    target = torch.tensor([1.0, 0.0] * BATCH)
    policy.model.train()
    for step in range(steps):
        set_learning_rate(optimizer, learning_rate(config, step, steps))
        chosen = [data[i] for i in rng.integers(len(data), size=BATCH).tolist()]
        pairs = [(side[int(rng.integers(len(side)))]) for one in chosen for side in (one.good, one.other)]
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.binary_cross_entropy_with_logits(policy.log_odds(pairs), target).backward()
        clip_gradient(policy.model, 1.0)
        optimizer.step()
    policy.model.eval()
    return policy


class LanguagePolicy:
    """Samples a listed action by the model's odds of " yes".

    Args:
        model: a causal language model.
        tokenizer: of the model.
    """

    name = "language-model"

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._answers = [tokenizer.encode(answer, add_special_tokens=False)[0] for answer in ANSWERS]
        self._known: dict[str, NDArray[np.float64]] = {}

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one listed action per view."""
        chosen = []
        for view in views:
            listed = view.info["admissible_actions"]
            odds = self.probabilities(texts_of(view))
            chosen.append(Decision(view.env.action_from_text(listed[int(view.rng.choice(len(listed), p=odds))])))
        return chosen

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """float64 (A,): the probabilities of the listed actions with these texts; cached."""
        key = "\0".join(texts)
        if key not in self._known:
            if len(self._known) >= KNOWN:
                self._known.clear()
            with torch.no_grad():
                odds = torch.softmax(self.log_odds(texts).double(), 0).numpy()
            self._known[key] = odds / odds.sum()
        return self._known[key]

    def log_odds(self, texts: Sequence[str]) -> Any:
        """float32 (B,): the log odds of " yes" against " no" after each text."""
        rows = [self._encoded(text) for text in texts]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        hidden = self.model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        last = hidden[torch.arange(len(rows)), torch.tensor([len(row) - 1 for row in rows])]
        logits = self.model.get_output_embeddings()(last).float()
        return logits[:, self._answers[1]] - logits[:, self._answers[0]]

    def _encoded(self, text: str) -> list[int]:
        ids = [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False)]
        return ids[-NETWORK.positions :]

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as a folder of ``transformers``."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def open_policy(folder: Path) -> LanguagePolicy:
    """The policy that ``save`` wrote."""
    model, tokenizer = open_pretrained(str(folder), device="cpu")
    model.eval()
    return LanguagePolicy(model, tokenizer)

"""What is WebShop's leaking split worth to a small language model?  The measurement of ``run.py``.

  python tests/evidence/webshop_split/language_models.py --out tests/evidence/webshop_split/results.jsonl [--data FOLDER] [--minutes M]

``--data`` is the folder of WebShop's thousand products; without it the embedded shop alone is measured. In every shop a model
from random weights imitates the linear policy of ``run.py`` on goals that are not measured. From there it is trained on
either split, under ten seeds. A completion is one token, the number of a listed action, so that a model is a policy on states as
in the study ``language_models``. The line of a job is appended to the file, and a later call does the jobs that are missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from evidence.language_models.model_policy import ModelPolicy, batches
from evidence.webshop_split.run import (
    BATCH,
    FEATURES,
    GROUP,
    SAMPLE_STEPS,
    SEEDS,
    SHOPS,
    TEMPERATURE,
    TURNS,
    Node,
    Player,
    Policy,
    Seen,
    compare,
    open_shop,
    rows_of,
    store_row,
    words_of,
)
from numpy.typing import NDArray

from creditflow.train.policy.network.scratch import build_model, build_tokenizer
from creditflow.train.policy.optimizer import clip_gradient, learning_rate, make_optimizer, set_learning_rate
from creditflow.train.settings.model import ScratchConfig
from creditflow.train.settings.update import OptimizerConfig

__all__ = ["POLICY", "RATE", "Imitation", "Learner", "jobs", "learner_of", "measure", "prompt_of"]

Floats = NDArray[np.float64]
POLICY: Final = "language model"
RATE: Final = 5e-4  # of Adam, that of the study ``language_models``, set after seed 1000
STEPS: Final = 10  # batches
MINIBATCHES: Final = 8  # steps of Adam for every batch of episodes
LABELS: Final = tuple(f" #{number}" for number in range(128))  # no state lists more actions
LABEL_TEXTS: Final = 200  # texts with every label, so that each becomes one token
PRODUCT: Final = frozenset(("title words", "title words squared", "first results", "too dear"))  # features of products
SAID: Final = {"wanted option": "wanted", "other option": "other", "option again": "again", "other page": "page"}
NETWORK: Final = ScratchConfig(
    hidden=64, layers=2, heads=4, kv_heads=2, intermediate=128, vocabulary=2048, pattern=" #[0-9]+| ?[a-z]+| ?[0-9]+| ?.",
    positions=512, init=0.1,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Imitation:
    """The warm-up.

    Attributes:
        episodes: of the linear policy, for each of the other goals.
        steps: steps of Adam.
        batch: prompts per step.
        rate: peak learning rate.
        temperature: of the linear policy that is imitated; its episodes have temperature 1.
    """

    episodes: int = 2
    steps: int = 800
    batch: int = 32
    rate: float = 4e-3
    temperature: float = 0.5


# by shop; the words of the thousand products are many more, and 800 steps left a model that succeeded in 7 % of its goals
IMITATIONS: Final[Mapping[str, Imitation]] = {
    "sample": Imitation(episodes=1, steps=60),
    "embedded": Imitation(),
    "thousand": Imitation(steps=2400),
}


def prompt_of(seen: Seen) -> str:
    """What a model reads: the wish's words, then for every action what it does, and its number.

    Of a product it reads how many of the wish's words its title has, whether the price is within the limit, and these words, as a
    search engine highlights them. These are the features of the linear policies, whose matching of words such a model does not learn.
    """
    asked = words_of(seen.wish)
    parts = [" ".join(asked), "."]
    for number, (text, row) in enumerate(zip(seen.texts, seen.shared.tolist(), strict=True)):
        has = {name: value for name, value in zip(FEATURES, row, strict=True) if value}
        if has.keys() <= PRODUCT:
            matched = [word for word in words_of(text) if word in asked]
            parts += [f" {len(matched)}", " dear" if "too dear" in has else " fits", *(f" {word}" for word in matched)]
        elif "buy" in has:
            parts.append(f" buy {int(has.get('buy with wanted options left', 0.0))}")
        else:
            name = next(iter(has))
            said = words_of(text.removeprefix("click")) if name in SAID else ()
            parts += [f" {SAID.get(name, name.split()[0])}", *(f" {word}" for word in said)]
        parts.append(LABELS[number])
    return "".join(parts) + " :"


class Learner:
    """Trains a model on batches of wishes, from a warm-up that all seeds share.

    Args:
        name, data: shop and folder; see ``open_shop``.

    Attributes:
        player: the shop.
        tokenizer: made from the prompts of the warm-up.
        start: the model after the warm-up.
    """

    def __init__(self, name: str, data: str = "") -> None:
        imitation = IMITATIONS[name]
        torch.set_num_threads(1)
        self.player = Player(open_shop(name, data))
        others = Player(replace(self.player.shop, goals=self.player.shop.others))
        expert, rng = Policy("shared"), np.random.default_rng(4)
        visited = dict[Seen, None]()
        for wish in range(len(others.shop.goals)):
            for _, turns in others.episodes(wish, imitation.episodes, expert, rng):
                visited |= dict.fromkeys(seen for seen, _ in turns)
        texts = [prompt_of(seen) for seen in visited]
        self.tokenizer = build_tokenizer([*texts, *["".join(LABELS)] * LABEL_TEXTS], NETWORK)
        tokens = [self.tokenizer.encode(label) for label in LABELS]
        if any(len(ids) != 1 for ids in tokens):
            raise ValueError("the tokenizer splits the number of an action; raise LABEL_TEXTS")
        self._prompts: dict[Seen, NDArray[np.int32]] = {}
        model = build_model(NETWORK, self.tokenizer, seed=0)
        self.start = ModelPolicy(model, (), [[(token,) for token in ids] for ids in tokens])
        self._imitate(list(visited), expert, imitation, rng)

    def logs(self, policy: ModelPolicy, states: Sequence[Seen], temperature: float = 1.0) -> Any:
        """log π of the listed actions, float32 tensor (N, labels); −inf for numbers that a state does not list."""
        logs = policy.log_probabilities([self._tokens(seen) for seen in states])[:, :-1]
        sizes = torch.tensor([len(seen.actions) for seen in states])[:, None]
        listed = torch.arange(len(LABELS))[None, :] < sizes
        return torch.log_softmax((logs / temperature).masked_fill(~listed, -torch.inf), 1)

    def _tokens(self, seen: Seen) -> NDArray[np.int32]:
        if seen not in self._prompts:
            self._prompts[seen] = np.array(self.tokenizer.encode(prompt_of(seen)), np.int32)
        return self._prompts[seen]

    def _step(self, policy: ModelPolicy, optimizer: Any, weights: Mapping[Seen, Floats]) -> None:
        """One step along Σ weight ∇ log π, with weights (A,) for every state."""
        if not weights:  # every group of the batch had one outcome
            return
        optimizer.zero_grad(set_to_none=True)
        states = list(weights)
        for rows in batches([self._tokens(seen) for seen in states]):
            chosen = [states[row] for row in rows]
            target = torch.zeros(len(chosen), len(LABELS))
            for row, seen in enumerate(chosen):
                target[row, : len(seen.actions)] = torch.from_numpy(weights[seen])
            (-(target * self.logs(policy, chosen).masked_fill(target == 0.0, 0.0)).sum()).backward()
        clip_gradient(policy.model, 1.0)
        optimizer.step()

    def _imitate(self, visited: Sequence[Seen], expert: Policy, size: Imitation, rng: np.random.Generator) -> None:
        config = OptimizerConfig(
            lr=size.rate,
            schedule="cosine",
            warmup_fraction=0.05,
            min_lr_fraction=0.05,
            betas=(0.9, 0.98),
            weight_decay=0.01,
        )
        optimizer = make_optimizer(self.start.model, config)
        for step in range(size.steps):
            set_learning_rate(optimizer, learning_rate(config, step, size.steps))
            chosen = [
                visited[i] for i in rng.choice(len(visited), min(size.batch, len(visited)), replace=False).tolist()
            ]
            self._step(
                self.start,
                optimizer,
                {seen: expert.probabilities(seen, size.temperature) / len(chosen) for seen in chosen},
            )

    def episodes(
        self, policy: ModelPolicy, wishes: Sequence[int], rng: np.random.Generator, temperature: float = 1.0
    ) -> list[tuple[bool, list[tuple[Seen, int]]]]:
        """For every wish whether its episode's purchase scored 1, and the turns; all are played together, turn by turn."""
        nodes: list[Node | bool] = [self.player.first(wish) for wish in wishes]
        turns: list[list[tuple[Seen, int]]] = [[] for _ in wishes]
        chances: dict[Seen, Floats] = {}
        for _ in range(TURNS):
            playing = [(number, node) for number, node in enumerate(nodes) if isinstance(node, Node)]
            new = list(dict.fromkeys(node.seen for _, node in playing if node.seen not in chances))
            for rows in batches([self._tokens(seen) for seen in new]):
                states = [new[row] for row in rows]
                with torch.no_grad():
                    powers = self.logs(policy, states, temperature).double().exp().numpy()
                chances |= zip(states, np.cumsum(powers, axis=1), strict=True)
            for number, node in playing:
                rises = chances[node.seen][: len(node.seen.actions)]
                action = min(int(np.searchsorted(rises, rng.random() * rises[-1], "right")), len(rises) - 1)
                turns[number].append((node.seen, action))
                nodes[number] = self.player.step(node, action)
        return [(node is True, played) for node, played in zip(nodes, turns, strict=True)]

    def validate(self, policy: ModelPolicy, wishes: Sequence[int], seed: int) -> Floats:
        """0 or 1 for every wish: one episode at the temperature of validation."""
        played = self.episodes(policy, wishes, np.random.default_rng([seed, 2]), TEMPERATURE)
        return np.array([float(success) for success, _ in played])

    def learn(self, drawn: Sequence[Sequence[int]], seed: int, rate: float) -> ModelPolicy:
        """The model after these batches of wishes: an advantage is the outcome minus the mean of its group.

        As in verl-agent, a batch of episodes is split into minibatches of states, each of which is a step of Adam.
        """
        policy = ModelPolicy(deepcopy(self.start.model), (), self.start.completions)
        optimizer = make_optimizer(policy.model, OptimizerConfig(lr=rate, betas=(0.9, 0.98), weight_decay=0.0))
        rng = np.random.default_rng([seed, 1])
        for wishes in drawn:
            played = self.episodes(policy, np.repeat(wishes, GROUP).tolist(), rng)
            outcomes = np.array([float(success) for success, _ in played]).reshape(-1, GROUP)
            advantages = (outcomes - outcomes.mean(axis=1, keepdims=True)).ravel()
            weights = dict[Seen, Floats]()
            for (_, turns), advantage in zip(played, advantages.tolist(), strict=True):
                for seen, action in turns if advantage else ():
                    weights.setdefault(seen, np.zeros(len(seen.actions)))[action] += advantage / (GROUP * BATCH)
            states = list(weights)
            for chosen in np.array_split(rng.permutation(len(states)), max(min(MINIBATCHES, len(states)), 1)):
                self._step(policy, optimizer, {states[i]: weights[states[i]] for i in chosen.tolist()})
        return policy


def measure(learner: Learner, seed: int, rate: float = RATE, steps: int = STEPS) -> dict[str, float]:
    """The model under one seed, trained on either split; see ``compare``."""
    learn, validate = partial(learner.learn, seed=seed, rate=rate), partial(learner.validate, seed=seed)
    return compare(learner.player.shop, learn, validate, seed, steps)


def jobs() -> Iterator[dict[str, Any]]:
    """Every job; the first one is small, so that a test can run it again."""
    for shop, seed in ("sample", 0), *product(SHOPS, SEEDS):
        yield {"shop": shop, "policy": POLICY, "rate": RATE, "seed": seed}


@cache
def learner_of(shop: str, data: str = "") -> Learner:
    """The learner of a shop, whose warm-up is run once."""
    return Learner(shop, data)


def main() -> int:
    """Do the missing jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of the results, a line a job")
    parser.add_argument("--data", default="", help="folder of WebShop's thousand products")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after the job in which this time has passed")
    arguments = parser.parse_args()
    done, begin = {json.dumps(row["job"]) for row in rows_of(arguments.out)}, time.monotonic()
    for job in jobs():
        if json.dumps(job) in done or (job["shop"] == "thousand" and not arguments.data):
            continue
        if time.monotonic() - begin > 60.0 * arguments.minutes:
            break
        began, steps = time.process_time(), SAMPLE_STEPS if job["shop"] == "sample" else STEPS
        store_row(arguments.out, job, began, measure(learner_of(job["shop"], arguments.data), job["seed"], steps=steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())

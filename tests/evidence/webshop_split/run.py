"""What is WebShop's leaking split worth?  Three linear policies, the leaking split against a clean one, two shops, ten seeds.

verl-agent gives worker i of training the seed s + i // G and worker j of validation the seed s + 1000 + j. Every worker samples
its own price limits and shuffles the goals with its seed; then training takes the positions from 500 on and validation the first
500. The orders differ, so a validation goal is one of the training goals of nearly every other worker.

  python tests/evidence/webshop_split/run.py --out tests/evidence/webshop_split/results.jsonl [--data FOLDER] [--minutes M]

Every job is a shop, a policy and a seed, with both splits; its line is appended to the file, and a later call does the jobs that
are missing. ``--data`` is the folder of WebShop's thousand products; without it the embedded shop alone is measured.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

import creditflow
from creditflow.envs.files.appended import read_appended
from creditflow.envs.tasks import load_panel
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.goals import Goal, Mersenne, cap_words, price_cap, price_table
from creditflow.envs.webshop.goals.tasks import goal_content, wish_hash

__all__ = [
    "BATCH",
    "FEATURES",
    "GROUP",
    "RATES",
    "SAMPLE_STEPS",
    "SEEDS",
    "SHOPS",
    "TEMPERATURE",
    "TURNS",
    "Node",
    "Player",
    "Policy",
    "Seen",
    "compare",
    "expected_fraction",
    "jobs",
    "leaking_draws",
    "limits_of",
    "measure",
    "open_shop",
    "replay",
    "rows_of",
    "store_row",
    "table",
    "words_of",
]

Floats = NDArray[np.float64]
PolicyT = TypeVar("PolicyT")
SHOPS: Final = ("embedded", "thousand")
SEEDS: Final = range(10)
RATES: Final[Mapping[str, float]] = {"shared": 20.0, "words": 20.0, "tasks": 60.0}  # of learning
# verl-agent's settings, and the number of goals of the complete thousand
GOALS, HELD_OUT, BATCH, GROUP, STEPS, EVALUATED, EVERY, VALIDATION_SEED = 6910, 500, 16, 8, 150, 128, 5, 1000
# a tenth of the steps, in shops with a tenth of the wishes, so that the same fraction is trained on
STEPS_STUDIED: Final = 15
SAMPLE_STEPS: Final = 4
EVERY_WISH: Final = {
    "sample": 20,
    "embedded": 2,
    "thousand": 10,
}  # by shop: every second of the embedded goals, and so on
TURNS, UNLIMITED = 15, 1_000_000  # turns are counted here, because states are visited out of order
TEMPERATURE: Final = 0.4  # of validation, as in verl-agent
WEIGHTS: Final = 1 << 18  # of word pairs
FEATURES: Final = (
    "short search", "long search", "title words", "title words squared", "too dear", "first results", "next page", "back",
    "wanted option", "other option", "option again", "buy with wanted options left", "buy", "other page",
)  # fmt: skip
OTHER: Final = {"next >": "next page", "back to search": "back"}
START: Final = np.array([1.0, 1.0, 3.0, 3.0, -2.0, 0.5, -1.0, -2.0, 3.0, -1.0, -3.0, -1.0, 2.0, -2.0])  # set by hand
STOP_WORDS: Final = frozenset((
    "a", "an", "and", "are", "at", "be", "best", "buy", "find", "for", "get", "i", "in", "is", "it", "like",
    "looking", "lower", "me", "most", "my", "need", "of", "on", "or", "our", "than", "the", "to", "want",
    "with", "would", "you",
))  # fmt: skip


# ---- verl-agent's split ----


@dataclass(frozen=True, slots=True)
class Split:
    """The draws of one run.

    Attributes:
        train: int64 (steps, BATCH), the wish of every group.
        validation: int64 (evaluations, EVALUATED), the wishes of every evaluation; the worker of column j has the seed s + 1000 + j.
    """

    train: NDArray[np.int64]
    validation: NDArray[np.int64]


@lru_cache(maxsize=2048)
def _order(goals: int, seed: int) -> NDArray[np.int64]:
    """The wish at every position of a worker's list: the order does not depend on what is shuffled."""
    numbers = list(range(goals))
    Mersenne(seed).shuffle(numbers)
    return np.array(numbers)


def leaking_draws(goals: int, held_out: int, steps: int, seed: int, *, remedy: bool = False) -> Split:
    """What verl-agent trains on and validates on with ``env.seed=seed``: positions by its generator, wishes by its workers' orders.

    Args:
        goals: N.
        held_out: h, the number of positions that validation takes.
        steps: number of batches.
        seed: s, ``env.seed``.
        remedy: give all workers the seed 0, and thereby one order.
    """
    sampler = {"train": seed, "validation": seed + VALIDATION_SEED}
    drawn = {name: np.random.RandomState(number) for name, number in sampler.items()}  # verl-agent's stream
    positions = np.array(
        [drawn["train"].choice(np.arange(held_out, goals), BATCH, replace=False) for _ in range(steps)]
    )
    count = min(EVALUATED, held_out)
    rounds = steps // EVERY + 1  # one before training
    checked = np.array([drawn["validation"].choice(np.arange(held_out), count, replace=False) for _ in range(rounds)])
    return Split(
        np.column_stack([_order(goals, 0 if remedy else seed + i)[positions[:, i]] for i in range(BATCH)]),
        np.column_stack(
            [_order(goals, 0 if remedy else seed + VALIDATION_SEED + j)[checked[:, j]] for j in range(count)]
        ),
    )


def expected_fraction(goals: int, held_out: int, steps: int) -> float:
    """The expected fraction of validation wishes that were trained on: 1 − [h/N + (1 − h/N) (1 − 1/(N − h))^k]^16."""
    kept = goals - held_out
    return float(1.0 - (held_out / goals + kept / goals * (1.0 - 1.0 / kept) ** steps) ** BATCH)


def replay(seed: int) -> list[float]:
    """By evaluation, the fraction of verl-agent's validation wishes that were trained on before it."""
    draws = leaking_draws(GOALS, HELD_OUT, STEPS, seed)
    return [
        round(float(np.isin(wishes, draws.train[: EVERY * number]).mean()), 6)
        for number, wishes in enumerate(draws.validation)
    ]


def limits_of(products: Sequence[Product], wanted: Container[str], seed: int) -> list[float]:
    """The price limits of the products' wishes, as a worker with this seed samples them."""
    rng = Mersenne(seed)
    prices = price_table(products, rng)
    return [price_cap(price, rng) for one, price in zip(products, prices, strict=True) if one.asin in wanted]


def equal_limits(data: str) -> float:
    """The fraction of the thousand's goals whose price limit is the same for two workers, mean over 45 pairs of ten workers."""
    stock = open_shop("thousand", data).env.stock
    products = [stock.catalogue.store.product(row) for row in range(len(stock.catalogue))]
    count = Counter(goal.asin for goal in stock.goals)
    weights = np.array([count[one.asin] for one in products if one.asin in count])
    sampled = [np.array(limits_of(products, count, seed)) for seed in SEEDS]
    equal = [float(weights @ (one == other)) / weights.sum() for one, other in combinations(sampled, 2)]
    return round(float(np.mean(equal)), 6)


# ---- shops ----


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop and all of its different wishes.

    Attributes:
        env: the environment.
        goals: the wishes, as goals.
        clean: bool (wishes,), whether the clean split trains on it.
        others: in the embedded shop, as many wishes that are not measured.
    """

    env: WebShopEnv
    goals: Sequence[Goal]
    clean: NDArray[np.bool_]
    others: Sequence[Goal] = ()


@lru_cache(maxsize=3)
def open_shop(name: str, data: str = "") -> Shop:
    """A key of ``EVERY_WISH``: of the embedded shop a half or a small sample, or the thousand products in the folder ``data``."""
    every = EVERY_WISH[name]
    if name != "thousand":
        env: Any = creditflow.make("webshop", preset="verl_agent", max_steps=UNLIMITED).unwrapped
        train = {row.locator["goal"] for row in load_panel("webshop", "standard-v1").rows if row.split == "train"}
        numbers = range(0, len(env.stock.goals), every)
        clean = np.array([number in train for number in numbers])
        return Shop(env, [env.stock.goals[i] for i in numbers], clean, env.stock.goals[1::every])
    env = creditflow.make("webshop", preset="verl_agent", data=data, max_steps=UNLIMITED).unwrapped
    rows = load_panel("webshop", "small-synthetic-v1").rows
    listed = {(row.locator["asin"], row.locator["wish"]) for row in rows if row.split == "train"}
    wishes = {(goal.asin, wish_hash(goal)): goal for goal in env.stock.goals}
    used, others = list(wishes)[::every], list(wishes)[every // 2 :: every]
    clean = np.array([wish in listed for wish in used])
    return Shop(env, [wishes[wish] for wish in used], clean, [wishes[wish] for wish in others])


# ---- what a policy reads ----


@lru_cache(maxsize=1 << 16)
def words_of(text: str) -> tuple[str, ...]:
    return tuple(word for word in dict.fromkeys(re.findall(r"[a-z0-9]+", text.lower())) if word not in STOP_WORDS)


@lru_cache(maxsize=1 << 16)
def _spaced(text: str) -> str:
    return f" {' '.join(re.findall(r'[a-z0-9]+', text.lower()))} "


@lru_cache(maxsize=1 << 16)
def _hashes(words: tuple[str, ...]) -> NDArray[np.uint64]:
    return np.array([zlib.crc32(word.encode()) for word in words], dtype=np.uint64)


class Pairs(NamedTuple):
    """The pairs of a state.

    Attributes:
        weights: int32, those of all actions, one action after the other.
        sizes, starts: int64 (A,), how many each action has, and where they begin.
        scale: float64 (A,), 1 / √sizes.
    """

    weights: NDArray[np.int32]
    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    scale: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What the policies read of one state.

    Attributes:
        actions: the listed actions.
        texts: what each action says.
        wish: the task's wish, without the price limit.
        shared: float64 (A, F), features that all tasks share.
        pairs: by kind of policy.
    """

    actions: tuple[str, ...]
    texts: tuple[str, ...]
    wish: str
    shared: Floats
    pairs: dict[str, Pairs] = field(default_factory=dict)

    def pairs_of(self, kind: str) -> Pairs:
        """The pairs of a policy of this kind, made at the first call."""
        if kind not in self.pairs:
            asked = words_of(self.wish) if kind == "words" else (self.wish,)
            crossed = [_crossed(asked, words_of(text) or (text,)) for text in self.texts]
            sizes = np.array([len(weights) for weights in crossed], dtype=np.int64)
            self.pairs[kind] = Pairs(
                np.concatenate(crossed), sizes, np.cumsum(sizes) - sizes, sizes.astype(float) ** -0.5
            )
        return self.pairs[kind]


@lru_cache(maxsize=1 << 15)
def _crossed(asked: tuple[str, ...], said: tuple[str, ...]) -> NDArray[np.int32]:
    mixed = _hashes(asked)[:, None] * np.uint64(2654435761) + _hashes(said)[None, :] * np.uint64(40503)
    return ((mixed >> np.uint64(7)) % np.uint64(WEIGHTS)).astype(np.int32).ravel()


def _asked(name: str, value: str, wish: str) -> bool:
    """Whether the wish names this option: by its group, or where it does not name the group, by the value alone."""
    if f"{name}:".lower() in wish:
        return f"{name}: {value}".lower() in wish
    return _spaced(value) in _spaced(wish)


def read_state(env: WebShopEnv, info: Mapping[str, Any]) -> Seen:
    """The features of the present state."""
    goal, state, catalogue = env.shop.goal, env.shop_state, env.stock.catalogue
    wish = goal.instruction.removesuffix(cap_words(goal.price_cap)).lower()
    wanted, chosen = set(words_of(wish)), dict(state.options)
    groups = dict(catalogue.product(state.asin).options) if state.page == "item" else {}
    group_of = {value: name for name, values in groups.items() for value in values}
    asked = {value for value, name in group_of.items() if _asked(name, value, wish)}
    left = {group_of[value] for value in asked if chosen.get(group_of[value]) != value}
    rows, texts = [], []
    for place, action in enumerate(info["admissible_actions"]):
        name = action.partition("[")[2][:-1]
        row, text = {OTHER.get(name, "other page"): 1.0}, action
        if action.startswith("search["):
            row, text = {"short search" if place else "long search": 1.0}, f"search {place}"
        elif state.page == "results" and catalogue.store.row(name.upper()) is not None:
            one = catalogue.product(name.upper())
            text = f"{one.title} {one.asin}"
            found = sum(word in wanted for word in words_of(one.title)) / max(len(wanted), 1)
            row = {"title words": found, "title words squared": found**2, "first results": float(place < 5)}
            row["too dear"] = float(catalogue.price(one.asin) > goal.price_cap)
        elif name in group_of:
            again = chosen.get(group_of[name]) == name
            row = {"option again" if again else "wanted option" if name in asked else "other option": 1.0}
        elif name == "buy now":
            row = {"buy": 1.0, "buy with wanted options left": float(len(left))}
        rows.append([row.get(feature, 0.0) for feature in FEATURES])
        texts.append(text)
    return Seen(tuple(info["admissible_actions"]), tuple(texts), wish, np.array(rows))


class Policy:
    """π(a | s) ∝ exp(w · shared + v · pairs / √pairs), from ``START`` and v = 0.

    Args:
        kind: a key of ``RATES``. "shared" has no pairs. "words" pairs every word of the wish with every word of the action, so that
            tasks with common words share weights. "tasks" pairs the whole wish with every word of the action: a table for each task.
    """

    def __init__(self, kind: str) -> None:
        self.kind, self.shared, self.pairs = kind, START.copy(), np.zeros(WEIGHTS)

    def probabilities(self, seen: Seen, temperature: float = 1.0) -> Floats:
        """π of the listed actions."""
        logits = seen.shared @ self.shared
        if self.kind != "shared":
            pairs = seen.pairs_of(self.kind)
            logits = logits + np.add.reduceat(self.pairs.take(pairs.weights), pairs.starts) * pairs.scale
        powers = np.exp((logits - logits.max()) / temperature)
        result: Floats = powers / powers.sum()
        return result

    def update(self, turns: Sequence[tuple[Seen, int, float]], rate: float) -> None:
        """One step along Σ advantage ∇ log π, over turns of (state, action, advantage)."""
        by_state: dict[Seen, Floats] = {}
        for seen, action, advantage in turns:
            weights = by_state.setdefault(seen, np.zeros(len(seen.actions)))
            weights[action] += advantage
        shared, touched, amounts = np.zeros_like(self.shared), [np.zeros(0, np.int32)], [np.zeros(0)]
        for seen, weights in by_state.items():
            weights -= weights.sum() * self.probabilities(seen)
            shared += weights @ seen.shared
            if self.kind != "shared":
                pairs = seen.pairs_of(self.kind)
                touched.append(pairs.weights)
                amounts.append(np.repeat(weights * pairs.scale, pairs.sizes))
        self.shared += rate * shared
        self.pairs += rate * np.bincount(np.concatenate(touched), np.concatenate(amounts), minlength=WEIGHTS)


# ---- training and evaluation ----


class Node(NamedTuple):
    """A state of a task, and how to return to it."""

    seen: Seen
    snapshot: str
    leads_to: dict[int, Node | bool]  # by action, the next node, or whether the purchase scored 1


class Player:
    """Plays the wishes of a shop. What an action leads to is asked of the environment once, since nothing in a shop is random."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self._first: dict[int, Node] = {}
        self._nodes: dict[str, Node] = {}
        self._live: Node | None = None  # the node that the environment is in

    def first(self, wish: int) -> Node:
        """The state in which the episodes of a wish begin."""
        if wish not in self._first:
            content = goal_content(self.shop.goals[wish], self.shop.env.stock.catalogue.digest)
            _, info = self.shop.env.reset(options={"task": content})
            self._first[wish] = self._node(info)
        return self._first[wish]

    def _node(self, info: Mapping[str, Any]) -> Node:
        key = info["state_key"]
        if key not in self._nodes:
            self._nodes[key] = Node(read_state(self.shop.env, info), self.shop.env.get_state(), {})
        self._live = self._nodes[key]
        return self._live

    def step(self, node: Node, action: int) -> Node | bool:
        """The next node, or after a purchase whether it scored 1."""
        if action not in node.leads_to:
            if self._live is not node:
                self.shop.env.set_state(node.snapshot)
            _, _, terminated, _, info = self.shop.env.step(node.seen.actions[action])
            self._live = None
            node.leads_to[action] = bool(info["success"]) if terminated else self._node(info)
        return node.leads_to[action]

    def episodes(
        self, wish: int, count: int, policy: Policy, rng: np.random.Generator, temperature: float = 1.0
    ) -> list[tuple[bool, list[tuple[Seen, int]]]]:
        """Whether each episode's purchase scored 1, and its turns."""
        chances: dict[Seen, list[float]] = {}
        played = []
        for _ in range(count):
            node: Node | bool = self.first(wish)
            turns = list[tuple[Seen, int]]()
            while isinstance(node, Node) and len(turns) < TURNS:
                seen = node.seen
                if seen not in chances:
                    chances[seen] = np.cumsum(policy.probabilities(seen, temperature)).tolist()
                action = min(bisect_right(chances[seen], rng.random()), len(seen.actions) - 1)
                turns.append((seen, action))
                node = self.step(node, action)
            played.append((node is True, turns))
        return played

    def success(self, policy: Policy, wishes: Sequence[int], seed: int) -> Floats:
        """0 or 1 for every wish: one episode at the temperature of validation."""
        rng = np.random.default_rng([seed, 2])
        return np.array([float(self.episodes(wish, 1, policy, rng, TEMPERATURE)[0][0]) for wish in wishes])


def train(player: Player, kind: str, batches: Sequence[Sequence[int]], rate: float, seed: int) -> Policy:
    """A policy after one step for every batch of wishes: an advantage is the outcome minus the mean of its group."""
    policy, rng = Policy(kind), np.random.default_rng([seed, 1])
    for batch in batches:
        rows = list[tuple[Seen, int, float]]()
        for wish in batch:
            group = player.episodes(wish, GROUP, policy, rng)
            mean = sum(success for success, _ in group) / GROUP
            for success, turns in group:
                rows += [(seen, action, (success - mean) / (GROUP * len(batch))) for seen, action in turns]
        policy.update([row for row in rows if row[2]], rate)
    return policy


def measure(player: Player, kind: str, rate: float, seed: int, steps: int = STEPS_STUDIED) -> dict[str, float]:
    """One linear policy under one seed, trained on either split; see ``compare``."""

    def learn(batches: Sequence[Sequence[int]]) -> Policy:
        return train(player, kind, batches, rate, seed)

    def validate(policy: Policy, wishes: Sequence[int]) -> Floats:
        return player.success(policy, wishes, seed)

    return compare(player.shop, learn, validate, seed, steps)


def compare(
    shop: Shop,
    learn: Callable[[Sequence[Sequence[int]]], PolicyT],
    validate: Callable[[PolicyT, Sequence[int]], Floats],
    seed: int,
    steps: int,
) -> dict[str, float]:
    """Train a policy on the leaking split and one on the clean split, and validate both.

    Args:
        shop: the wishes.
        learn: the policy after these batches of wishes; without batches, the policy before training.
        validate: 0 or 1 for every wish, float64.
        seed: of the splits and the draws.
        steps: number of batches.

    Returns:
        Mean success on parts of the wishes, and by "count_…" how many wishes these are. Of the policy of the leaking split, after
        training and with "start_…" before: "all" wishes, each of which is equally likely to be validated there; "seen", trained on;
        "unseen"; of these those of products of which another wish was trained on, "near", and the others, "far". "clean" is the
        policy of the clean split on that split's validation wishes, and "same" that of the leaking split on these.
    """
    count = len(shop.goals)
    split = leaking_draws(count, count * HELD_OUT // GOALS, steps, seed)
    rng, kept = np.random.default_rng([seed, 3]), np.flatnonzero(shop.clean)
    drawn = [rng.choice(kept, BATCH, replace=False).tolist() for _ in split.train]
    wishes, held_out = list(range(count)), np.flatnonzero(~shop.clean).tolist()
    success = {
        "start": validate(learn([]), wishes),
        "leaking": validate(learn(split.train.tolist()), wishes),
        "clean": validate(learn(drawn), held_out),
    }
    seen = np.isin(np.arange(count), split.train)
    known = {goal.asin for goal, trained_on in zip(shop.goals, seen, strict=True) if trained_on}
    near = np.array([goal.asin in known for goal in shop.goals])
    parts = {
        "all": seen | ~seen,
        "seen": seen,
        "unseen": ~seen,
        "near": ~seen & near,
        "far": ~seen & ~near,
        "same": ~shop.clean,
    }
    row = {"clean": float(success["clean"].mean())}
    for name, chosen in parts.items():
        row[f"count_{name}"] = int(chosen.sum())
        if chosen.any():
            row |= {
                name: float(success["leaking"][chosen].mean()),
                f"start_{name}": float(success["start"][chosen].mean()),
            }
    return {name: round(value, 6) for name, value in row.items()}


# ---- the design and its table ----


def jobs() -> Iterator[dict[str, Any]]:
    """All jobs, a seed after the other; those of the sample are small, so that a test can run them again."""
    for kind, rate in RATES.items():
        yield {"shop": "sample", "policy": kind, "rate": rate, "seed": 0}
    for seed, shop, (kind, rate) in product(SEEDS, SHOPS, RATES.items()):
        yield {"shop": shop, "policy": kind, "rate": rate, "seed": seed}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The stored rows."""
    return [row for _, row in read_appended(path, '{"job":{', "results of this study")] if path.exists() else []


def store_row(path: Path, job: Mapping[str, Any], began: float, result: Mapping[str, Any]) -> None:
    """Append the line of a job that began at this processor time."""
    row = {"job": job, **result, "seconds": round(time.process_time() - began, 2)}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row, separators=(",", ":")) + "\n")


def run(path: Path, data: str, minutes: float) -> None:
    """Do the missing jobs."""
    done, begin = {json.dumps(row["job"]) for row in rows_of(path)}, time.monotonic()
    names = ("sample", *SHOPS) if data else ("sample", SHOPS[0])
    players = {name: Player(open_shop(name, data)) for name in names}

    for seed in SEEDS:
        replayed: dict[str, Any] = {"replay": GOALS, "seed": seed}
        if json.dumps(replayed) not in done:
            store_row(path, replayed, time.process_time(), {"fractions": replay(seed)})
    if data and json.dumps(compared := {"limits": SHOPS[1]}) not in done:
        store_row(path, compared, time.process_time(), {"equal": equal_limits(data)})
    for job in jobs():
        if json.dumps(job) in done or job["shop"] not in players:
            continue
        if time.monotonic() - begin > 60.0 * minutes:
            return
        player, kind = players[job["shop"]], job["policy"]
        steps = SAMPLE_STEPS if job["shop"] == "sample" else STEPS_STUDIED
        store_row(path, job, time.process_time(), measure(player, kind, job["rate"], job["seed"], steps))


def interval(values: Sequence[float]) -> str:
    """Mean and 95 % interval of differences over seeds by Student's t, in percentage points."""
    from scipy.stats import t  # not installed where models are trained

    points = 100.0 * np.array(values)
    half = float(t.ppf(0.975, len(points) - 1) * points.std(ddof=1) / len(points) ** 0.5)
    mean = float(points.mean())
    return f"{mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}]".replace("-", "−")


def gained(row: Mapping[str, float], part: str, other: str) -> float:
    """How much more the success on a part rose in training than on another part: what differed before is no effect."""
    return (row[part] - row[f"start_{part}"]) - (row[other] - row[f"start_{other}"])


COLUMNS: Final[Mapping[str, Callable[[Mapping[str, float]], float]]] = {
    "added by the leak": lambda row: gained(row, "all", "unseen"),
    "trained on − not": lambda row: gained(row, "seen", "unseen"),
    "leaking − clean, same goals": lambda row: row["same"] - row["clean"],
}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of the page."""
    lines = [
        f"| shop | policy | rate | seeds | success, all goals | not trained on | {' | '.join(COLUMNS)} |",
        "| --- " * 9 + "|",
    ]
    for shop, kind, rate in dict.fromkeys(
        (row["job"]["shop"], row["job"]["policy"], row["job"]["rate"]) for row in rows
    ):
        found = [row for row in rows if row["job"].items() >= {"shop": shop, "policy": kind, "rate": rate}.items()]
        if len(found) > 1:
            means = [f"{100.0 * float(np.mean([row[name] for row in found])):.1f}%" for name in ("all", "unseen")]
            cells = [
                shop,
                kind,
                f"{rate:g}",
                str(len(found)),
                *means,
                *(interval([of(row) for row in found]) for of in COLUMNS.values()),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run the study, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of the results, a line a job")
    parser.add_argument("--data", default="", help="folder of WebShop's thousand products")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after the job in which this time has passed")
    parser.add_argument("--table", action="store_true", help="print the table of what has run")
    arguments = parser.parse_args()
    if arguments.table:
        print(table([row for row in rows_of(arguments.out) if "shop" in row["job"]]))
    else:
        run(arguments.out, arguments.data, arguments.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The words of the report: definitions, and where a text uses them, so that the page explains them where they stand."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from creditflow.envs.errors import ConfigError
from creditflow.train.bench.methods import NAMED, settings_of
from creditflow.train.bench.variants.names import MethodName
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import lookup

__all__ = ["DEFINITIONS", "Segment", "Words", "about_method"]

DEFINITIONS: Final[Mapping[str, str]] = {
    "credit": "one number for each turn of a recorded rollout: the factor of the turn's term in the policy gradient",
    "scheme, control, method": "a scheme is a published or proposed way to assign credit; a control is credit whose quality is "
    "known; a method is either of them",
    "success rate": "probability that a rollout of the policy succeeds; exact where the states fit into a table",
    "cell": "a kind of task, the success rate J0 of the initial policy, and the group size G (rollouts per group)",
    "M1, cosine": "direction: cosine between the gradient sampled with the credit and the exact gradient of the success rate; "
    "of the mean over many groups, and the mean over single groups",
    "M2, gain": "improvement, the main metric: exact success rate gained by one step of a given KL divergence, divided by the "
    "gain of the exact gradient",
    "M3, bias and variance": "squared bias and variance of the sampled gradient after optimal scaling, relative to the exact "
    "gradient's squared length",
    "M4, concordance": "order within a state: how often the better of two actions has more credit, weighted by how much better "
    "it is; by the policy's action values Q^π, and by shortest paths Q*",
    "M5, AUROC": "probability that a turn with positive exact advantage has more credit than one with negative advantage, "
    "among the turns of failed and of successful rollouts; of credit centered within states (in brackets: of the credit "
    "itself)",
    "coverage, dead groups": "fraction of turns with credit other than 0; fraction of groups without any credit",
    "mean success during training": "area under the learning curve, divided by its length, over a budget of environment turns (a "
    "shared policy: over its updates); the final criterion",
    "shared policy": "one policy over features of the state whose parameters many tasks share, so that a step for one task changes the "
    "others; held-out tasks are evaluated but not trained on; a batch is the rollouts of one update",
    "KL": "Kullback–Leibler divergence from the old policy to the new one, in nats per turn",
    "95 % CI": "95 % confidence interval by Student's t; tasks, and seeds where there are several, are the samples",
    "p, detectable": "p-value adjusted by Holm's method over the schemes compared; the true difference that such a test finds with "
    "probability 0.8: where p is not significant, a smaller difference may well exist",
    "oracle_adv": "control: the exact advantage A^π, the ground truth",
    "oracle_progress": "control: by how many turns the distance to the goal decreased; efficiency, which is not advantage",
    "stateless": "control: the outcome times .9 to the number of turns that follow, minus its mean over the group (not centred in results of version 0.2.0); it reads no states",
    "shuffled(X)": "control: X's credit permuted among the turns of each rollout",
    "flipped(X)": "control: X's credit times −1",
    "X[fitted]": "X with annotations estimated on earlier rollouts: what a critic, a success model or an LLM judge could have "
    "learned by then",
    "X[exact]": "control: X with exact values as annotations, which no method has in practice",
    "natural gradient": "the best direction at equal KL divergence: the upper limit of M2",
    "keys": "what tells a method which state it is in: distinct keys identify every state, aliased keys stand for several states, fresh keys "
    "never repeat",
    "table per task": "the policy is one softmax table for each task, so nothing is learned for other tasks",
    "rank correlation": "Spearman's, over methods: 1 if the metric orders the methods as learning does, 0 if it tells nothing",
    "sanity check": "a statement that holds whenever the benchmark works, such as: the exact advantage learns faster than shuffled credit",
    "preregistered prediction": "written before the run, with the method, the endpoint and the margin",
    "held-out": "tasks on which the policy is evaluated but not trained",
    "warm-up": "supervised learning from a noisy expert's actions, from which all methods of a seed start",
    "floor": "what is reached without reinforcement learning; a method below it is no better than a cheaper alternative",
    "imitation": "supervised learning of an expert's actions",
    "greedy": "the most probable action in every state, instead of a sampled one",
    "temperature": "what the logits are divided by before an action is sampled: below 1 the policy is less random; with the entropy of X: the "
    "one at which the warm-up is as random as the policy trained with X",
    "entropy": "how random the actions are: entropy of the distribution of actions, in nats per turn",
    "exact gradient": "the gradient of the exact success rate, computed instead of sampled",
    "percentage point": "one hundredth: a success rate of 0.50 instead of 0.40 is 10 points more",
    "ms per 1000 turns": "time to assign credit to 1000 recorded turns, in milliseconds on one core; one measurement, without an interval",
}

# what stands in texts for a definition; the longest that fits is taken
_ALIASES: Final[Mapping[str, str]] = {
    "M1": "M1, cosine", "cosine": "M1, cosine", "M2": "M2, gain", "gain": "M2, gain", "M3": "M3, bias and variance",
    "bias²": "M3, bias and variance", "squared bias": "M3, bias and variance", "variance": "M3, bias and variance",
    "M4": "M4, concordance", "concordance": "M4, concordance", "M5": "M5, AUROC", "AUROC": "M5, AUROC",
    "coverage": "coverage, dead groups", "dead groups": "coverage, dead groups", "area": "mean success during training", "shared policy": "shared policy",
    "held-out": "held-out", "KL": "KL", "95 % CI": "95 % CI", "95 % confidence interval": "95 % CI", "intervals": "95 % CI", "p": "p, detectable",
    "detectable": "p, detectable", "natural gradient": "natural gradient", "success rate": "success rate", "exact success": "success rate",
    "cells": "cell", "cell": "cell", "controls": "scheme, control, method", "control": "scheme, control, method",
    "scheme": "scheme, control, method", "schemes": "scheme, control, method", "method": "scheme, control, method", "credit": "credit",
    "sanity checks": "sanity check", "keys": "keys", "aliased": "keys", "distinct": "keys", "rank correlation": "rank correlation",
    "exact advantage": "oracle_adv", "table per task": "table per task", "preregistered": "preregistered prediction", "turn budget": "mean success during training",
    "mean success": "mean success during training", "ms per 1000 turns": "ms per 1000 turns",
    "percentage points": "percentage point", "warm-up": "warm-up", "floor": "floor", "imitation": "imitation", "greedy": "greedy",
    "temperature": "temperature", "entropy": "entropy", "exact gradient": "exact gradient",
}  # fmt: skip
_KINDS: Final = {
    "open": "grids with walls; success is always within reach",
    "pits": "grids with pits: one wrong move makes success impossible",
    "alias": "grids with pits, in which pairs of states look the same to a method, though not to the policy",
    "slip": "grids with pits, where one action in ten is replaced by a random one",
    "sokoban": "small Sokoban levels",
    "sokoban-few": "small Sokoban levels; in fewer than half of their states success is impossible",
    "sokoban-some": "small Sokoban levels; in half to three quarters of their states success is impossible",
    "sokoban-many": "small Sokoban levels; in more than three quarters of their states success is impossible",
    "sokoban-boxes": "small Sokoban levels; a method sees the boxes alone, so that all positions of the player look the same to it",
    "long": "grids that take dozens of turns",
    "key": "grids with pits and a door, which is open to an agent that has fetched the key",
}
_WORDS: Final = re.compile(
    r"(?<![\w.])(?:" + "|".join(re.escape(word) for word in sorted(_ALIASES, key=len, reverse=True)) + r")(?![\w(])"
)


class Segment(NamedTuple):
    """A part of a text, and the term that explains it; "" for none."""

    text: str
    term: str = ""


def about_method(name: str) -> str:
    """What a method is, in a sentence or two: a control's definition, or a scheme's summary and source; "" if it is neither."""
    if name in DEFINITIONS:
        return DEFINITIONS[name]
    try:
        variant = MethodName.parse(name)
    except ConfigError:
        return ""
    if variant.corruptions:
        return DEFINITIONS[f"{variant.corruptions[0]}(X)"]
    if variant.scheme in credit.names():
        scheme, sentences = lookup(variant.scheme), list[str]()
    elif variant.scheme in NAMED:
        scheme = lookup(NAMED[variant.scheme].scheme)
        sentences = [f"Variant: {settings_of([name]).get(name, 'as in the paper')}."]
    else:
        return ""
    sentences += ["Credit of a turn: " + " ".join((inspect.getdoc(scheme) or "").partition("\n\n")[0].split())]
    sentences += [f"Source: {scheme.source}." if scheme.source else ""]
    sentences += [DEFINITIONS[f"X[{variant.source}]"] + "." if f"X[{variant.source}]" in DEFINITIONS else ""]
    return " ".join(sentence for sentence in sentences if sentence)


class Words:
    """The terms that one page uses.

    Attributes:
        used: definition by term, in the order of their first use.
    """

    def __init__(self) -> None:
        self.used: dict[str, str] = {}
        self._marked: set[str] = set()

    def section(self) -> str:
        """Begin a section, in which every term is marked once; "" for the page."""
        self._marked.clear()
        return ""

    def number(self, term: str) -> int:
        """Number of a term that is used, from 1."""
        return list(self.used).index(term) + 1

    def method(self, name: str) -> list[Segment]:
        """The name of a method, explained as a whole if it is known."""
        about = about_method(name) or DEFINITIONS.get(name, "")
        if not about:
            return [Segment(name)]
        self.used.setdefault(name, about)
        return [Segment(name, name)]

    def kind(self, title: str) -> list[Segment]:
        """The title of a panel, explained if it begins with a kind of task."""
        kind = title.partition(",")[0]
        if kind not in _KINDS:
            return [Segment(title)]
        self.used.setdefault(kind, _KINDS[kind])
        return [Segment(kind, kind), *([Segment(title[len(kind) :])] if title != kind else [])]

    def marked(self, text: str) -> list[Segment]:
        """The parts of a text, each term explained where it first stands in the section."""
        return list(self._segments(text))

    def _segments(self, text: str) -> Iterator[Segment]:
        end = 0
        for match in _WORDS.finditer(text):
            term = _ALIASES[match[0]]
            if term in self._marked or (match[0] == "p" and text != "p"):
                continue
            self._marked.add(term)
            self.used.setdefault(term, DEFINITIONS[term])
            if match.start() > end:
                yield Segment(text[end : match.start()])
            yield Segment(match[0], term)
            end = match.end()
        if end < len(text):
            yield Segment(text[end:])

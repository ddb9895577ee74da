"""Simulated search for the questions of an environment: noisy or useful documents, chosen by a curriculum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

import numpy as np

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.base import Passage
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.simulation.noise import Curriculum, is_noisy
from creditflow.envs.wikisearch.retrieval.simulation.passages import CorpusSimulator
from creditflow.envs.wikisearch.retrieval.simulation.writer import ModelSimulator

__all__ = ["Simulation", "Simulator", "open_simulation"]

DRAWS: Final = ("query", "call")
_CURRICULUM: Final = tuple(field.name for field in fields(Curriculum))


class Simulator(Protocol):
    """Makes the documents of a query."""

    def __call__(self, question: Question, query: str, k: int, noisy: bool) -> list[Passage]:
        """At most ``k`` documents with different ids, best first.

        Raises:
            ServiceError: the simulator failed.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Simulated search.

    Attributes:
        curriculum: how often documents are noisy.
        seed: decides for which queries.
        by_call: draw anew in every call of every episode, not once for each query of a question.
        simulator: makes the documents.
    """

    curriculum: Curriculum
    seed: int
    simulator: Simulator
    by_call: bool = False

    def search(
        self, question: Question, queries: Sequence[str], k: int, progress: float, rng: np.random.Generator
    ) -> list[tuple[Passage, ...]]:
        """At most ``k`` documents for each query, best first; those of one query are all useful or all noisy, as in ZeroSearch.

        Args:
            question: that is to be answered.
            queries: the queries of one call.
            k: documents for each.
            progress: the fraction of the training run that is done.
            rng: the episode's random numbers; drawn from with ``by_call`` alone, one number a call.

        Raises:
            ServiceError: the simulator failed.
        """
        noise, call = self.curriculum.at(progress), str(rng.integers(2**63)) if self.by_call else ""
        return [
            tuple(self.simulator(question, query, k, is_noisy(self.seed, question.id, query, noise, call)))
            for query in queries
        ]


def open_simulation(options: Mapping[str, Any], local: LocalRetriever | None) -> Simulation:
    """Simulated search from plain values.

    Args:
        options: ``{"start": …, "end": …, "base": …}`` (``noise.Curriculum``), "seed", "draw": "query" (default: the same for all
            searches of a question for it) or "call" (ZeroSearch's release: anew in every call), and "model": a served language model
            that writes the documents, ``{"url": …, "model": …, "key_variable": …, "cache": …}``; without it they come from the
            corpus.
        local: the corpus, if it is in this process.

    Raises:
        ConfigError: a wrong option, or neither a model nor a corpus in this process.
    """
    allowed = (*_CURRICULUM, "seed", "draw", "model")
    if not isinstance(options, Mapping):
        raise ConfigError(f"simulation must be a mapping such as {{'end': 0.5}}, got {short_repr(options)}")
    if unknown := sorted(map(str, set(options) - set(allowed))):
        raise unknown_name_error("option of a simulation", unknown[0], allowed)
    seed, model = options.get("seed", 0), options.get("model")
    if type(seed) is not int or seed < 0:
        raise ConfigError(f"the seed of a simulation is an integer ≥ 0, got {short_repr(seed)}")
    if (draw := options.get("draw", "query")) not in DRAWS:
        raise unknown_name_error("draw of a simulation", draw, DRAWS)
    curriculum = Curriculum(**{name: options[name] for name in _CURRICULUM if name in options})
    return Simulation(curriculum, seed, _simulator(model, local), by_call=draw == "call")


def _simulator(model: Any, local: LocalRetriever | None) -> Simulator:
    if model is None:
        if local is None:
            raise ConfigError(
                "a simulation takes its documents from a corpus in this process, and the retriever is a server: give "
                "corpus=PATH, or simulation={'model': {'url': …, 'model': …}}"
            )
        return CorpusSimulator(local)
    return ModelSimulator.from_options(model, "the model of a simulation")

"""Settings of a synthesis: everything that determines its bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.envs.wikisearch.synthesis import instructions
from creditflow.envs.wikisearch.synthesis.walks import RECIPES
from creditflow.train.run.identity import versions
from creditflow.train.settings.bounds import require_seed

__all__ = ["FORMAT", "TEMPLATES", "SynthesisSettings"]

FORMAT: Final = "creditflow-synthesis"
GENERATION: Final = 1  # increases when the same settings give other questions
TEMPLATES: Final = "templates"
MAX_HOPS: Final = 4


@dataclass(frozen=True, kw_only=True)
class SynthesisSettings:
    """Settings of a synthesis.

    Attributes:
        limit: number of questions wanted.
        seed: random seed.
        recipes: names of recipes, which take turns (see ``envs.wikisearch.synthesis.walks``).
        hops: shortest and longest chain, before injection.
        top_k: results of a search within which every supporting passage must be found.
        attempts: candidates tried for each question wanted.
        max_passages: passages that are read; of a larger corpus a range that the seed chooses.
        same_end: questions that may end in the same property of the same thing.
        writer: "templates", or "openai:URL#MODEL".

    Raises:
        ConfigError: a number is out of its range, or a recipe is unknown.
    """

    limit: int
    seed: int = 0
    recipes: tuple[str, ...] = RECIPES
    hops: tuple[int, int] = (2, 3)
    top_k: int = 3
    attempts: int = 100
    max_passages: int = 1_000_000
    same_end: int = 2
    writer: str = TEMPLATES

    def __post_init__(self) -> None:
        require_seed(self)
        for name in self.recipes:
            if name not in RECIPES:
                raise unknown_name_error("recipe", name, RECIPES)
        if not self.recipes or len(set(self.recipes)) != len(self.recipes):
            raise ConfigError(f"recipes must be distinct and non-empty, got {', '.join(self.recipes) or 'none'}")
        if not 2 <= self.hops[0] <= self.hops[1] <= MAX_HOPS:
            raise ConfigError(f"hops are from 2 to {MAX_HOPS}, the shortest first, got {self.hops[0]}-{self.hops[1]}")

    def identity(self, corpus: str) -> dict[str, Any]:
        """Everything on which the bytes depend, given the digest of the corpus."""
        model = {} if self.writer == TEMPLATES else {"instructions": instructions.VERSION}
        return {"versions": versions() | {"generation": GENERATION} | model, "corpus": corpus, **asdict(self)}

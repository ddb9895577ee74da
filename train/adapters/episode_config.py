"""How a third-party trainer runs episodes in our environments: environment, prompting, limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.rollout.engine import Budget
from creditflow.train.settings.schema import EnvConfig

__all__ = ["EpisodeConfig"]


@dataclass(frozen=True, kw_only=True)
class EpisodeConfig:
    """How episodes are run.

    Attributes:
        env: environment and its options.
        prompting: prompt, dialect and history.
        max_new_tokens: maximum length of one turn's completion. (A trainer's maximum completion length does not limit
            episodes; ``budget`` does.)
        budget: limits of one episode in turns and tokens.
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    prompting: PromptingConfig = field(default_factory=PromptingConfig)
    max_new_tokens: int = 256
    budget: Budget = field(default_factory=Budget)

    @property
    def windowed(self) -> bool:
        """Whether every turn has a prompt of its own, and so a row of its own."""
        return self.prompting.history == "window"

    def require_one_row(self) -> None:
        """Raise ConfigError for a windowed history, where the trainer takes one row per episode."""
        if self.windowed:
            raise ConfigError(
                "this trainer takes one row per episode, a windowed history needs one per turn: use history='append' "
                "here, or creditflow's own trainer, verl or TRL"
            )

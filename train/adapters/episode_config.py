"""How a third-party trainer runs episodes in our environments: environment, prompting, limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from creditflow.agents.language_model.models.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.rollout.engine import Budget
from creditflow.train.settings.schema import EnvConfig

__all__ = ["EpisodeConfig"]


@dataclass(frozen=True, kw_only=True)
class EpisodeConfig:
    """How episodes are run.

    Attributes:
        env: environment and its options.
        prompting: prompt, dialect and history; the history must be append-only.
        max_new_tokens: maximum length of one turn's completion. (A trainer's maximum completion length does not limit
            episodes; ``budget`` does.)
        budget: limits of one episode in turns and tokens.

    Raises:
        ConfigError: a windowed history.
    """

    env: EnvConfig = field(default_factory=EnvConfig)
    prompting: PromptingConfig = field(default_factory=PromptingConfig)
    max_new_tokens: int = 256
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        if self.prompting.history != "append":
            raise ConfigError(
                "this trainer takes one row per episode, a windowed history needs one per turn: use history='append' "
                "here, or creditflow's own trainer"
            )

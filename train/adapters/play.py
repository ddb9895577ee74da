"""How a trainer of somebody else plays our episodes: environment, prompting, limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError
from creditflow.train.rollout.engine import Budget
from creditflow.train.settings.schema import EnvConfig

__all__ = ["Play"]


@dataclass(frozen=True, kw_only=True)
class Play:
    """How episodes are played.

    Attributes:
        env: the environment.
        prompting: how the model is prompted; its history must be append-only.
        max_new_tokens: longest answer. (A trainer's longest completion does not limit episodes; ``budget`` does.)
        budget: limits of one episode.

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

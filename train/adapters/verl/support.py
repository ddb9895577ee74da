"""Releases and settings of verl under which the scheme's advantages reach the loss unchanged."""

from __future__ import annotations

from typing import Any, Final

from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.releases import Releases
from creditflow.train.adapters.verl.credit import NAME, CreditSettings, read_settings

__all__ = ["VERL", "check_config", "check_windowed", "credit_settings"]

VERL: Final = Releases("verl", "verl", "0.9.1", "0.9.2", "overrides one of verl's private methods")
# policy losses whose gradient weights each token by its own advantage (shown by the contract tests); others average
# advantages or ratios over an episode ("geo_mean", "gspo"), or were not tested
SUPPORTED_LOSSES: Final = ("vanilla",)


def credit_settings(algorithm: Any) -> CreditSettings:
    """``algorithm.creditflow`` of verl's config, which may leave it out."""
    section = algorithm.get(NAME) if algorithm is not None else None
    if section is not None and not isinstance(section, dict):
        from omegaconf import OmegaConf

        section = OmegaConf.to_container(section, resolve=True)
    return read_settings(section)


def check_config(config: Any) -> None:
    """Raise ConfigError for settings under which the loss would not use the scheme's advantages.

    Args:
        config: verl's complete config.
    """
    algorithm, rollout = config.algorithm, config.actor_rollout_ref.rollout
    if algorithm.get("use_kl_in_reward"):
        raise ConfigError(
            "algorithm.use_kl_in_reward changes rewards token by token after credit is assigned from the episode's own: "
            "use actor_rollout_ref.actor.use_kl_loss=true"
        )
    loss = config.actor_rollout_ref.actor.policy_loss.get("loss_mode", SUPPORTED_LOSSES[0])
    if loss not in SUPPORTED_LOSSES:
        raise ConfigError(
            f"actor_rollout_ref.actor.policy_loss.loss_mode={loss} is not known to give each turn's tokens that turn's "
            f"advantage; covered by the contract tests: {', '.join(SUPPORTED_LOSSES)}"
        )
    if rollout.n < 1:
        raise ConfigError(f"actor_rollout_ref.rollout.n is the group size, got {rollout.n}")
    if config.critic.get("enable"):
        raise ConfigError("credit needs no critic: critic.enable=false")
    for name, allowed in (("top_p", (1.0,)), ("top_k", (-1, 0))):
        value = rollout.get(name, allowed[0])
        if value not in allowed:
            raise ConfigError(
                f"actor_rollout_ref.rollout.{name}={value} samples from less than the whole distribution that is trained"
            )


def check_windowed(config: Any) -> None:
    """Raise ConfigError unless verl takes a row per turn, as a windowed history needs.

    Args:
        config: verl's complete config.
    """
    if not config.trainer.get("use_v1", True):
        raise ConfigError(
            "a windowed history returns a row per turn, which verl's legacy trainer does not take "
            "(AgentLoopWorker._agent_loop_postprocess reads one output): trainer.use_v1=true, or history: append"
        )
    distillation = config.get("distillation")
    if distillation and distillation.get("enabled"):
        raise ConfigError(
            "verl's distillation scores only an episode's last row (AgentLoopWorkerTQ._agent_loop_postprocess): "
            "distillation.enabled=false, or history: append"
        )

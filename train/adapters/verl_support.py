"""Which releases of verl, and which of its settings, let credit through to the loss unchanged."""

from __future__ import annotations

import importlib.metadata
import re
from typing import Any, Final

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.adapters.verl_credit import NAME, CreditSettings, settings_of

__all__ = ["check_config", "check_version", "credit_settings", "require_verl"]

TESTED: Final = (0, 9, 1)  # the contract tests ran on it; the adapter overrides one of its private methods


def require_verl() -> None:
    """Raise unless the supported verl is installed.

    Raises:
        MissingExtraError: there is none.
        ConfigError: it is another release.
    """
    try:
        version = importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError("verl", "verl") from error
    check_version(version)


def check_version(version: str) -> None:
    """Raise ConfigError for a release that the contract tests did not run on.

    >>> check_version("0.9.1")
    """
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) != TESTED:
        tested = ".".join(map(str, TESTED))
        raise ConfigError(
            f"verl {version} is installed; this adapter overrides one of verl's private methods and was tested with "
            f"{tested}: pip install 'verl=={tested}'"
        )


def credit_settings(algorithm: Any) -> CreditSettings:
    """``algorithm.creditflow`` of verl's config, which may leave it out."""
    section = algorithm.get(NAME) if algorithm is not None else None
    if section is not None and not isinstance(section, dict):
        from omegaconf import OmegaConf

        section = OmegaConf.to_container(section, resolve=True)
    return settings_of(section)


def check_config(config: Any) -> None:
    """Raise ConfigError for settings under which other numbers than ours would be learned from.

    Args:
        config: verl's, whole.
    """
    algorithm, rollout = config.algorithm, config.actor_rollout_ref.rollout
    if algorithm.get("use_kl_in_reward"):
        raise ConfigError(
            "algorithm.use_kl_in_reward changes rewards token by token after credit is assigned from the episode's own: "
            "use actor_rollout_ref.actor.use_kl_loss=true"
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

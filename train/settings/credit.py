"""Settings of credit: the scheme, its annotators, and the penalty on long responses. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from creditflow.envs.errors import ConfigError
from creditflow.train.settings.bounds import require_at_least

__all__ = ["CreditConfig", "OverlongConfig"]


@dataclass(frozen=True, kw_only=True)
class OverlongConfig:
    """DAPO's penalty on long responses, subtracted from rewards before credit is assigned.

    With it, a group in which all fail can have a learning signal: shorter failures are better.

    Attributes:
        max_tokens: length at which the penalty reaches ``weight``; 0 for no penalty.
        margin: number of tokens before ``max_tokens`` over which the penalty rises linearly.
        weight: maximum penalty.
        unit: length of each "turn", or of all model tokens of a "trajectory".
    """

    max_tokens: int = 0
    margin: int = 0
    weight: float = 1.0
    unit: Literal["turn", "trajectory"] = "turn"

    def __post_init__(self) -> None:
        require_at_least(self, 0, "max_tokens", "margin")
        if self.max_tokens and not 0 < self.margin <= self.max_tokens:
            raise ConfigError(
                f"margin must be from 1 to max_tokens tokens, got {self.margin} with max_tokens {self.max_tokens}"
            )
        if not self.weight > 0.0:
            raise ConfigError(f"weight must be positive, got {self.weight}")


@dataclass(frozen=True, kw_only=True)
class CreditConfig:
    """The credit scheme.

    Attributes:
        scheme: name of the scheme, or path/to/file.py:NAME.
        semantics: "paper", the published formula, or "release", the released code.
        parameters: parameters of the scheme; every scheme also takes ``centre: group`` and ``divide_by_success: true``.
        annotators: annotators to run on every iteration's rollouts before credit is assigned, as in ``creditflow
            annotate --with`` ("likelihood:DIR"); the run's own critic needs no entry.
        overlong: penalty on long responses.
    """

    scheme: str = "grpo"
    semantics: Literal["paper", "release"] = "paper"
    parameters: dict[str, Any] = field(default_factory=dict)
    annotators: tuple[str, ...] = ()
    overlong: OverlongConfig = field(default_factory=OverlongConfig)

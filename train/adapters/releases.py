"""Releases of a trainer that an adapter was tested with; any other release is rejected before it is imported."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Final

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.versions import version_numbers

__all__ = ["GEM", "OPENENV", "RLLM", "SKYRL_GYM", "TINKER", "TORCHRL", "VERIFIERS", "Releases"]


@dataclass(frozen=True)
class Releases:
    """Releases that the contract tests of an adapter ran with.

    Attributes:
        package: name of the distribution, which is also the name of our extra.
        label: name used in messages.
        first, beyond: first supported release, and the first unsupported one after it.
        touches: the private interface that the adapter depends on, for messages.
    """

    package: str
    label: str
    first: str
    beyond: str
    touches: str

    def require(self) -> None:
        """Raise unless a tested release is installed.

        Raises:
            MissingExtraError: the trainer is not installed.
            ConfigError: an untested release is installed.
        """
        try:
            version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError as error:
            raise MissingExtraError(self.label, self.package) from error
        self.check(version)

    def check(self, version: str) -> None:
        """Raise ConfigError for a release that the contract tests did not run with.

        >>> Releases("trl", "TRL", "1.16", "1.17", "reads a private method").check("1.16.2")
        """
        installed = version_numbers(version)
        if not installed or not version_numbers(self.first) <= installed < version_numbers(self.beyond):
            requirement = f"{self.package}>={self.first},<{self.beyond}"
            raise ConfigError(
                f"{self.label} {version} is installed; this adapter {self.touches} and was tested with "
                f"{self.first} ≤ {self.label} < {self.beyond}: pip install '{requirement}'"
            )


GEM: Final = Releases("gem-llm", "GEM", "0.1", "0.2", "implements its environments")
OPENENV: Final = Releases("openenv", "OpenEnv", "0.10", "0.11", "answers hostile messages before OpenEnv's routes do")
RLLM: Final = Releases("rllm", "rLLM", "0.3", "0.4", "hooks into its unified trainer")
SKYRL_GYM: Final = Releases("skyrl-gym", "SkyRL-gym", "0.4", "0.5", "implements its text environments")
TINKER: Final = Releases(
    "tinker-cookbook", "tinker-cookbook", "0.6.1", "0.7", "replaces a function of its training loop"
)
TORCHRL: Final = Releases("torchrl", "TorchRL", "0.14", "0.15", "reads info through its info readers")
VERIFIERS: Final = Releases("verifiers", "verifiers", "0.4", "0.5", "plugs into its v1 interfaces")

"""Which releases of a trainer an adapter was tested on; others are refused before anything of them is touched."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass

from creditflow.envs.errors import ConfigError, MissingExtraError

__all__ = ["Releases"]


@dataclass(frozen=True)
class Releases:
    """Releases that the contract tests of an adapter ran on.

    Attributes:
        package: its name on the package index, and that of our extra.
        label: its name in a sentence.
        first, beyond: from this release, up to this one, which is not in.
        touches: what the adapter does to it that no release promises to keep.
    """

    package: str
    label: str
    first: str
    beyond: str
    touches: str

    def require(self) -> None:
        """Raise unless a tested release is installed.

        Raises:
            MissingExtraError: there is none.
            ConfigError: it is another one.
        """
        try:
            version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError as error:
            raise MissingExtraError(self.label, self.package) from error
        self.check(version)

    def check(self, version: str) -> None:
        """Raise ConfigError for a release that the contract tests did not run on.

        >>> Releases("trl", "TRL", "1.16", "1.17", "reads a private method").check("1.16.2")
        """
        found = _numbers(version)
        if not found or not _numbers(self.first) <= found < _numbers(self.beyond):
            wanted = f"{self.package}>={self.first},<{self.beyond}"
            raise ConfigError(
                f"{self.label} {version} is installed; this adapter {self.touches} and was tested with "
                f"{self.first} ≤ {self.label} < {self.beyond}: pip install '{wanted}'"
            )


def _numbers(version: str) -> tuple[int, ...]:
    """The release's numbers; () if it begins with none."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()

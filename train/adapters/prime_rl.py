"""An algorithm of prime-rl that assigns any scheme's credit: whole groups of verifiers' episodes in, advantages per token out.

prime-rl's algorithms are a fixed table, named in its configuration by a fixed union, so this one takes the place of ``grpo``.
``install`` must run in the orchestrator's process, before it builds its algorithms. Read at prime-rl's commit 559b447 (0.8.0,
21 August 2026), which needs Python 3.12 and GPUs; ``install`` checks what it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.adapters.verifiers.credit import credit_episodes
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import Played, require_plain

__all__ = ["TAKEN", "install", "make_algorithm"]


TAKEN = "grpo"  # the name in prime-rl's configuration whose algorithm is replaced


def make_algorithm(
    base: type[Any], scheme: Scheme, *, agent: str = "player", read: Callable[[Any], Played] | None = None
) -> type[Any]:
    """A subclass of prime-rl's ``Algorithm``.

    Args:
        base: ``prime_rl.orchestrator.algo.Algorithm``.
        scheme: credit scheme.
        agent, read: as in ``credit_episodes``: the seat that is credited, and how its traces are read.

    Raises:
        ConfigError: a scheme that reads annotations.
    """
    require_plain(scheme)

    class CreditAlgorithm(base):  # type: ignore[misc]  # a class of prime-rl's
        action_loss_type: ClassVar[Any] = "rl"

        async def score_group(self, episodes: Sequence[Any]) -> None:
            """Write the group's credit into its traces; a group of one, or with no trace, gets zeros or nothing.

            Raises:
                TrajectoryError: traces without record, or with lost turns.
            """
            credit_episodes(episodes, scheme, agent=agent, read=read, alone="zero")

    return CreditAlgorithm


def install(scheme: Scheme, *, agent: str = "player", read: Callable[[Any], Played] | None = None) -> type[Any]:
    """Replace prime-rl's ``grpo`` in this process; returns the algorithm.

    Raises:
        MissingExtraError: prime-rl is not installed.
        ConfigError: prime-rl's table or base class is not as it was read, or a scheme that reads annotations.
    """
    require_plain(scheme)
    try:
        from prime_rl.orchestrator import algo
    except ImportError as error:
        raise MissingExtraError("prime-rl", "verifiers") from error
    table: Any = getattr(algo, "ALGORITHM_CLASSES", None)
    base: Any = getattr(algo, "Algorithm", None)
    if not isinstance(table, dict) or TAKEN not in table or not hasattr(base, "score_group"):
        raise ConfigError(
            f"prime-rl's table of algorithms is not as in commit 559b447 (a dict with {TAKEN!r}, and Algorithm.score_group)"
        )
    algorithm = make_algorithm(base, scheme, agent=agent, read=read)
    table[TAKEN] = algorithm
    return algorithm

"""Exact distances, values and optimal commands from any reachable state.

States are reduced to what matters for the goal (``planning/reduction.py``). The distance of every reduction and the optimal
commands of every state are cached with the game, so environments of one group share the searches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from creditflow.envs.alfworld.planning import SearchResult, reduce_world, shortest
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.snapshot import read_snapshot
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, OracleLimitError, short_repr

__all__ = ["ALFWorldOracle", "Assessment"]

MAX_CACHED = 20_000  # distances, and states with their optimal commands, per game
MAX_SOLUTION = 1_000  # commands
_PLAN_VERBS = frozenset({"go", "open", "take", "put", "clean", "heat", "cool", "use"})


class Assessment(NamedTuple):
    """The oracle's assessment of one state.

    Attributes:
        value: 1.0 if success can be reached, else 0.0.
        distance: fewest commands to success; inf if out of reach.
        actions: sorted commands that begin a shortest plan.
        goal_conditions: fraction of ALFRED's goal conditions that hold, in [0, 1].
        exact: False if a search reached its limit.
    """

    value: float
    distance: float
    actions: tuple[str, ...]
    goal_conditions: float
    exact: bool


class ALFWorldOracle:
    """Oracle over snapshots of ``ALFWorldEnv.get_state()``.

    Args:
        max_nodes: most states that one search may expand. Released games need at most a few thousand; a search that
            reaches the limit is repeated greedily: its result is an upper bound, and ``exact`` becomes False.

    Attributes:
        exact: whether every result so far was exact.
    """

    def __init__(self, max_nodes: int = 50_000) -> None:
        if type(max_nodes) is not int or max_nodes < 1:
            raise ConfigError(f"max_nodes must be a positive integer, got {short_repr(max_nodes)}")
        self.max_nodes = max_nodes
        self.exact = True

    # -- Oracle ------------------------------------------------------------------------------------------------------
    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """Return 1.0 if success can be reached (within ``steps_left`` commands, if given), else 0.0."""
        distance = self.distance(state)
        return float(math.isfinite(distance) and (steps_left is None or distance <= steps_left))

    def distance(self, state: str) -> float:
        """Return the fewest commands to success; inf if it is out of reach."""
        return self.world_distance(read_snapshot(state).world).distance

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Return the sorted commands that begin a shortest plan; () if there is none, or none is needed."""
        return self._actions(read_snapshot(state).world)[0]

    # -- assessments -------------------------------------------------------------------------------------------------
    def assess(self, state: str) -> Assessment:
        """Assess one state.

        Raises:
            DataError: not a snapshot.
            OracleLimitError: the greedy search reached its limit too.
        """
        return self.assess_world(read_snapshot(state).world)

    def assess_many(self, states: Iterable[str]) -> list[Assessment]:
        """Assess many states, each distinct one once."""
        assessed: dict[str, Assessment] = {}
        assessments = []
        for state in states:
            if state not in assessed:
                assessed[state] = self.assess(state)
            assessments.append(assessed[state])
        return assessments

    def assess_world(self, world: World) -> Assessment:
        """Assess the state of a game."""
        result = self.world_distance(world)
        actions, exact = self._actions(world)
        met, every = world.conditions()
        return Assessment(
            float(result.distance < math.inf), result.distance, actions, met / every, result.exact and exact
        )

    def world_distance(self, world: World) -> SearchResult:
        """Return the distance of a state to success.

        Raises:
            OracleLimitError: the greedy search reached ``max_nodes`` too.
        """
        result = self._distance(world)
        self.exact &= result.exact
        return result

    def solution(self, world: World) -> tuple[str, ...] | None:
        """Return the alphabetically first shortest plan; None if success is out of reach.

        Raises:
            OracleLimitError: inexact distances led into a cycle (never while ``exact``).
        """
        world = world.copy()
        commands: list[str] = []
        while not world.won():
            actions = self._actions(world)[0]
            if not actions:
                return None
            if len(commands) > MAX_SOLUTION:
                raise OracleLimitError(
                    f"inexact searches found no plan of at most {MAX_SOLUTION} commands; raise oracle_nodes"
                )
            commands.append(actions[0])
            act(world, admissible_commands(world).by_text[actions[0]])
        return tuple(commands)

    def _distance(self, world: World) -> SearchResult:
        if world.won():
            return SearchResult(0, True)
        reduced = reduce_world(world)
        cache = world.game.distances
        result: SearchResult | None = cache.get((reduced, self.max_nodes))
        if result is None:
            result = shortest(reduced, self.max_nodes)
            if result is None:
                raise OracleLimitError(f"no plan found within {self.max_nodes} states of this game; raise oracle_nodes")
            if (
                world.game.lamps & world.game.pickupable
            ):  # in no known game: the search assumes that lamps stay where they are
                result = SearchResult(result.distance, False)
            if len(cache) >= MAX_CACHED:
                cache.clear()
            cache[reduced, self.max_nodes] = result
        return result

    def _actions(self, world: World) -> tuple[tuple[str, ...], bool]:
        """Return the optimal commands, and whether all distances behind them were exact; cached with the game."""
        cache, key = world.game.optimal, (world.key(), self.max_nodes)
        result: tuple[tuple[str, ...], bool] | None = cache.get(key)
        if result is None:
            if len(cache) >= MAX_CACHED:
                cache.clear()
            result = cache[key] = self._find_actions(world)
        self.exact &= result[1]
        return result

    def _find_actions(self, world: World) -> tuple[tuple[str, ...], bool]:
        current = self.world_distance(world)
        if current.distance in (0, math.inf):
            return (), current.exact
        least, exact = math.inf, current.exact
        best: list[str] = []
        seen: dict[int, SearchResult] = {}  # location -> result: all walks to one location lead to one state
        for command, parsed in admissible_commands(world).by_text.items():
            if parsed.verb not in _PLAN_VERBS:
                continue
            location = world.game.home[parsed.receptacle] if parsed.verb == "go" else -1
            result = seen.get(location)
            if result is None or location < 0:
                after = world.copy()
                act(after, parsed)
                result = self.world_distance(after)
                seen[location] = result
            exact &= result.exact
            if result.distance < least:
                least, best = result.distance, [command]
            elif result.distance == least < math.inf:
                best.append(command)
        return tuple(sorted(best)), exact

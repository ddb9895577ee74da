"""Exact distances, values and optimal commands from any reachable state.

One search per *kind* of situation: states are reduced to what matters for the goal, and every answer is remembered
with the game, so environments of one group share it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from creditflow.envs.alfworld.planning.astar import SearchResult, shortest
from creditflow.envs.alfworld.planning.reduction import reduce_world
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.snapshot import read_snapshot
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, OracleLimitError, short_repr

__all__ = ["ALFWorldOracle", "Assessment"]

REMEMBERED = 20_000  # answers per game
LONGEST = 1_000  # commands of a solution
_DEEDS = frozenset({"go", "open", "take", "put", "clean", "heat", "cool", "use"})


class Assessment(NamedTuple):
    """All that the oracle knows about one state.

    Attributes:
        value: 1.0 if success can be reached, else 0.0.
        distance: fewest commands to success; inf if out of reach.
        actions: sorted commands that begin a shortest way.
        goal_conditions: share of ALFRED's goal conditions that hold now, in [0, 1].
        exact: False if a search was cut.
    """

    value: float
    distance: float
    actions: tuple[str, ...]
    goal_conditions: float
    exact: bool


class ALFWorldOracle:
    """Answers about snapshots of ``ALFWorldEnv.get_state()``.

    Args:
        max_nodes: most states that one search may expand. Released games need at most a few thousand; a search that
            would need more is repeated greedily, its answer is an upper bound, and ``exact`` turns False.

    Attributes:
        exact: whether every answer given so far was exact.
    """

    def __init__(self, max_nodes: int = 50_000) -> None:
        if type(max_nodes) is not int or max_nodes < 1:
            raise ConfigError(f"max_nodes must be a positive integer, got {short_repr(max_nodes)}")
        self.max_nodes = max_nodes
        self.exact = True

    # -- the contract ------------------------------------------------------------------------------------------------
    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """1.0 if success can be reached (within ``steps_left`` commands, when given), else 0.0."""
        distance = self.distance(state)
        return float(math.isfinite(distance) and (steps_left is None or distance <= steps_left))

    def distance(self, state: str) -> float:
        """Fewest commands to success; inf if it is out of reach."""
        return self.world_distance(read_snapshot(state).world).distance

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Sorted commands that begin a shortest way; () if there is none, or none is needed."""
        return self._actions(read_snapshot(state).world)[0]

    # -- more --------------------------------------------------------------------------------------------------------
    def assess(self, state: str) -> Assessment:
        """Everything about one state.

        Raises:
            DataError: not a snapshot.
            OracleLimitError: not even the greedy search found a way.
        """
        return self.assess_world(read_snapshot(state).world)

    def assess_many(self, states: Iterable[str]) -> list[Assessment]:
        """Everything about many states, each distinct one looked at once."""
        known: dict[str, Assessment] = {}
        answers = []
        for state in states:
            if state not in known:
                known[state] = self.assess(state)
            answers.append(known[state])
        return answers

    def assess_world(self, world: World) -> Assessment:
        """Everything about the state of a game."""
        answer = self.world_distance(world)
        actions, exact = self._actions(world)
        met, every = world.conditions()
        return Assessment(
            float(answer.distance < math.inf), answer.distance, actions, met / every, answer.exact and exact
        )

    def world_distance(self, world: World) -> SearchResult:
        """The distance of a state to success.

        Raises:
            OracleLimitError: not even the greedy search found a way within ``max_nodes``.
        """
        answer = self._distance(world)
        self.exact &= answer.exact
        return answer

    def solution(self, world: World) -> tuple[str, ...] | None:
        """The shortest way to success that is first in alphabetical order; None if there is none.

        Raises:
            OracleLimitError: cut searches led in circles (never while ``exact``).
        """
        world = world.copy()
        commands: list[str] = []
        while not world.won():
            actions = self._actions(world)[0]
            if not actions:
                return None
            if len(commands) > LONGEST:
                raise OracleLimitError(f"cut searches found no way of at most {LONGEST} commands; raise oracle_nodes")
            commands.append(actions[0])
            act(world, admissible_commands(world).by_text[actions[0]])
        return tuple(commands)

    def _distance(self, world: World) -> SearchResult:
        if world.won():
            return SearchResult(0, True)
        reduced = reduce_world(world)
        known = world.game.distances
        answer: SearchResult | None = known.get((reduced, self.max_nodes))
        if answer is None:
            answer = shortest(reduced, self.max_nodes)
            if answer is None:
                raise OracleLimitError(
                    f"no way to success found within {self.max_nodes} states of this game; raise oracle_nodes"
                )
            if world.game.lamps & world.game.pickupable:  # no known game: the search takes lamps to stand still
                answer = SearchResult(answer.distance, False)
            if len(known) >= REMEMBERED:
                known.clear()
            known[reduced, self.max_nodes] = answer
        return answer

    def _actions(self, world: World) -> tuple[tuple[str, ...], bool]:
        """The optimal commands, and whether all answers behind them were exact."""
        here = self.world_distance(world)
        if here.distance in (0, math.inf):
            return (), here.exact
        least, exact = math.inf, here.exact
        best: list[str] = []
        seen: dict[int, SearchResult] = {}  # location -> answer: all ways to one location lead to one state
        for command, parsed in admissible_commands(world).by_text.items():
            if parsed.verb not in _DEEDS:
                continue
            place = world.game.home[parsed.receptacle] if parsed.verb == "go" else -1
            answer = seen.get(place)
            if answer is None or place < 0:
                after = world.copy()
                act(after, parsed)
                answer = self.world_distance(after)
                seen[place] = answer
            exact &= answer.exact
            if answer.distance < least:
                least, best = answer.distance, [command]
            elif answer.distance == least < math.inf:
                best.append(command)
        return tuple(sorted(best)), exact

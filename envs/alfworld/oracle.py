"""Exact distances, values and optimal commands from any reachable state.

States are reduced to what matters for the goal (``planning/reduction.py``). The distance of every reduction and the optimal
commands of every state are cached with the game, so environments of one group share the searches.

The distances are lengths of shortest plans, found by A* over macro-actions (walk, open, act) on an abstraction of the state.
Most of a house cannot influence the shortest plan. A ``Reduced`` keeps the objects of the goal's type and the locations
that are needed to use them, without names; of equal locations it keeps one. States with equal abstractions have equal
distances, so the oracle searches and caches abstractions.

The abstraction preserves distances:

* Closing never enables anything, and an opening or a walk can always be postponed until right before the command that
  needs it. So a shortest plan is a sequence of *macro-actions* (take, put, treat, switch on), each preceded by at most
  one walk and one opening.
* An irrelevant object matters only while it is held, as it must be put down first.
* Two locations with equal receptacles and no relevant object can be exchanged in any plan, and no plan needs both:
  the one where an object is put down becomes a location of another kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from creditflow.envs.alfworld.game import Game, bits
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.snapshot import read_snapshot
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import ConfigError, OracleLimitError, short_repr

__all__ = ["EMPTY", "OTHER", "ALFWorldOracle", "Assessment", "shortest"]

MAX_CACHED = 20_000  # distances, and states with their optimal commands, per game
MAX_SOLUTION = 1_000  # commands
_PLAN_VERBS = frozenset({"go", "open", "take", "put", "clean", "heat", "cool", "use"})
EMPTY, OTHER = -1, -2  # the held object: none, or an irrelevant one
GREEDY_WEIGHT = 5  # of the estimate, in the second search


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


class Place(NamedTuple):
    """The relevant properties of a receptacle.

    Attributes:
        goal: it is of the goal's type.
        treats: its appliance gives the wanted property.
        closed: it must be opened before use.
        fits: objects of the goal's type may be put in.
        fits_other: the irrelevant object that is held may be put in.
        items: mask over the reduced objects.
        lamps: mask over the reduced lamps.
    """

    goal: bool
    treats: bool
    closed: bool
    fits: bool
    fits_other: bool
    items: int
    lamps: int


class Reduced(NamedTuple):
    """An abstract problem in canonical form; hashable.

    Attributes:
        stands: receptacles per location: first the agent's location, last those that cannot be reached.
        unreachable: how many of the last locations cannot be reached (0 or 1).
        held: a reduced object, ``EMPTY`` or ``OTHER``.
        treated: mask of objects that have the wanted property (all, if none is wanted).
        loose: mask of objects that can be picked up.
        lit: mask of lamps that were switched on.
        needed: number of objects that must lie in one receptacle; 0 for looking at one under a lamp.
    """

    stands: tuple[tuple[Place, ...], ...]
    unreachable: int
    held: int
    treated: int
    loose: int
    lit: int
    needed: int


def reduce_world(world: World) -> Reduced:
    """Return the abstraction of a state."""
    game, goal = world.game, world.game.goal
    goal_items = game.targets if goal.looks else game.candidates
    items, lamps = bits(goal_items), bits(game.lamps)
    held = world.held
    other_held = held if held >= 0 and not goal_items >> held & 1 else -1
    where = _Where(game, world, items, lamps, other_held)
    current = where.location(game.at_location[world.location], keep_plain=held >= 0)
    elsewhere: list[tuple[Place, ...]] = []
    alike: set[tuple[Place, ...]] = set()
    for location, receptacles in enumerate(game.at_location):
        stand = where.location(receptacles, keep_plain=held >= 0) if location != world.location else ()
        if stand and stand not in alike:
            elsewhere.append(stand)
            if not any(spot.items for spot in stand):  # an object may lie in two places: those are never merged
                alike.add(stand)
    nowhere = where.location(tuple(r for r, home in enumerate(game.home) if home < 0), keep_plain=False)
    treated = {"clean": world.clean, "hot": world.hot, "cool": world.cool}.get(goal.quality, -1)
    hand = EMPTY
    if held >= 0:
        hand = OTHER if other_held >= 0 else items.index(held)
    return Reduced(
        (current, *sorted(elsewhere), *((nowhere,) if nowhere else ())),
        int(bool(nowhere)),
        hand,
        _renumber(treated, items),
        _renumber(game.pickupable, items),
        _renumber(world.toggled, lamps),
        0 if goal.looks else goal.count,
    )


def _renumber(mask: int, numbers: list[int]) -> int:
    return sum(1 << i for i, number in enumerate(numbers) if mask >> number & 1)


class _Where:
    """Abstraction of the receptacles of one state."""

    def __init__(self, game: Game, world: World, items: list[int], lamps: list[int], other: int) -> None:
        self.items, self.lamps, self.other = items, lamps, other
        self.game, self.world = game, world
        self.item_mask = sum(1 << o for o in items)
        self.lamp_mask = sum(1 << o for o in lamps)
        self.treating = {"clean": game.sinks, "hot": game.microwaves, "cool": game.fridges}.get(game.goal.quality, 0)
        self.goals = sum(1 << r for r in game.goal_places)

    def location(self, receptacles: tuple[int, ...], *, keep_plain: bool) -> tuple[Place, ...]:
        """Return the relevant receptacles of one location, in canonical order.

        ``keep_plain`` keeps those that only serve to put down the held object.
        """
        reduced = []
        for r in receptacles:
            receptacle = self._place(r)
            if (
                receptacle.goal
                or receptacle.treats
                or receptacle.items
                or receptacle.lamps
                or (keep_plain and (receptacle.fits_other if self.other >= 0 else receptacle.fits))
            ):
                reduced.append(receptacle)
        reduced.sort()
        return tuple(reduced)

    def _place(self, r: int) -> Place:
        game, world = self.game, self.world
        inside = world.inside[r]
        return Place(
            bool(self.goals >> r & 1),
            bool(self.treating >> r & 1),
            bool(game.openable & ~world.opened & 1 << r),
            bool(game.fits[r] & self.item_mask),
            self.other >= 0 and bool(game.fits[r] >> self.other & 1),
            _renumber(inside, self.items) if inside & self.item_mask else 0,
            _renumber(inside, self.lamps) if inside & self.lamp_mask else 0,
        )


class SearchResult(NamedTuple):
    """Result of a search.

    Attributes:
        distance: fewest commands to the goal; inf if it cannot be reached.
        exact: False if the exact search reached its limit; then ``distance`` is the length of some plan.
    """

    distance: float
    exact: bool


class _Node(NamedTuple):
    """A search node.

    Attributes:
        at: location of the agent.
        held: object, ``EMPTY`` or ``OTHER``.
        doors: mask of the closed receptacles.
        lies: receptacle mask per object.
        treated: mask of the objects that have the wanted property.
        lit: mask of the lamps that were switched on.
    """

    at: int
    held: int
    doors: int
    lies: tuple[int, ...]
    treated: int
    lit: int


class _Board:
    """The constant part of an abstract game, with its receptacles numbered consecutively."""

    def __init__(self, reduced: Reduced) -> None:
        places = [(stand, receptacle) for stand, contents in enumerate(reduced.stands) for receptacle in contents]
        self.stand = [stand for stand, _ in places]
        reach = len(reduced.stands) - reduced.unreachable
        self.reachable = [stand < reach for stand in self.stand]
        self.goals = self._mask(receptacle.goal for _, receptacle in places)
        self.goal_list = [r for r, (_, receptacle) in enumerate(places) if receptacle.goal]
        self.treats = [r for r, (_, receptacle) in enumerate(places) if receptacle.treats and self.reachable[r]]
        self.fits = [r for r, (_, receptacle) in enumerate(places) if receptacle.fits and self.reachable[r]]
        self.fits_other = [r for r, (_, receptacle) in enumerate(places) if receptacle.fits_other and self.reachable[r]]
        self.lamps = [
            (r, receptacle.lamps) for r, (_, receptacle) in enumerate(places) if receptacle.lamps and self.reachable[r]
        ]
        self.stand_mask = [self._mask(s == stand for s, _ in places) for stand in range(len(reduced.stands))]
        self.goal_stands = {self.stand[r] for r in self.goal_list}
        self.treat_stands = {self.stand[r] for r in self.treats}
        self.count, self.loose = reduced.needed, reduced.loose
        # putting an object elsewhere than at the goal only helps to take another one, and only if that one is better
        every = (1 << max(1, reduced.treated.bit_length(), reduced.loose.bit_length())) - 1
        self.swap = self.count == 2 or (self.count == 1 and reduced.treated != every)
        size = max((receptacle.items.bit_length() for _, receptacle in places), default=0)
        size = max(size, reduced.held + 1)
        lies = tuple(self._mask(receptacle.items >> o & 1 for _, receptacle in places) for o in range(size))
        doors = self._mask(receptacle.closed for _, receptacle in places)
        self.start = _Node(0, reduced.held, doors, lies, reduced.treated, reduced.lit)

    @staticmethod
    def _mask(flags: Iterator[int] | Iterator[bool]) -> int:
        return sum(1 << i for i, flag in enumerate(flags) if flag)

    # -- the goal ----------------------------------------------------------------------------------------------------
    def done(self, node: _Node) -> bool:
        if self.count == 0:
            return node.held >= 0 and any(self.stand[r] == node.at and lamps & node.lit for r, lamps in self.lamps)
        ready = [lies & self.goals for o, lies in enumerate(node.lies) if node.treated >> o & 1]
        if self.count == 1:
            return any(ready)
        return any(a & b for i, a in enumerate(ready) for b in ready[:i])

    def estimate(self, node: _Node) -> float:
        """Return a lower bound of the remaining distance."""
        free = 1 if node.held == OTHER else 0
        if self.count == 0:
            return self._estimate_look(node, free)
        if self.count == 1:
            return min((self._estimate_one(node, o) for o in range(len(node.lies))), default=math.inf) + free
        best = math.inf
        for g in self.goal_list:
            costs = sorted(self._cost_into(node, o, g) for o in range(len(node.lies)))
            if len(costs) > 1:
                best = min(best, costs[0] + costs[1])
        return best + free

    def _estimate_look(self, node: _Node, free: int) -> float:
        if not self.lamps:
            return math.inf
        lit = [r for r, lamps in self.lamps if lamps & node.lit]
        lamp = 0 if lit else 1
        if node.held >= 0:
            stands = {self.stand[r] for r in lit} if lit else {self.stand[r] for r, _ in self.lamps}
            return lamp + (node.at not in stands)
        return lamp + free + 1

    def _estimate_one(self, node: _Node, o: int) -> float:
        lies, treated = node.lies[o], node.treated >> o & 1
        if node.held == o:
            steps = 0 if treated else 1 + (node.at not in self.treat_stands)
            if lies & self.goals:
                return steps
            return steps + 1 + (treated and node.at not in self.goal_stands)
        if treated and lies & self.goals:
            return 0
        if not self.loose >> o & 1 or not lies:
            return math.inf
        placed = lies & self.goals and lies.bit_count() > 1
        walk = not lies & self.stand_mask[node.at]
        return walk + 1 + (0 if treated else 1) + (0 if placed else 1)

    def _cost_into(self, node: _Node, o: int, g: int) -> float:
        if node.lies[o] >> g & 1:
            return 0
        if node.held == o:
            return 1 + (self.stand[g] != node.at)
        if not self.loose >> o & 1 or not node.lies[o]:
            return math.inf
        return 2 + (not node.lies[o] & self.stand_mask[self.stand[g]])

    # -- macro-actions ----------------------------------------------------------------------------------------------
    def macro_actions(self, node: _Node) -> Iterator[tuple[int, _Node]]:
        """Yield the macro-actions that may begin a shortest plan: cost in commands, and the next node."""
        at, held, doors, lies, treated, lit = node
        if held == OTHER:
            for r in self.fits_other:
                yield self._cost(node, r), _Node(self.stand[r], EMPTY, doors & ~(1 << r), lies, treated, lit)
        elif held == EMPTY:
            yield from self._takes(node)
        else:
            if not treated >> held & 1:
                for r in self.treats:  # appliances work closed
                    yield 1 + (self.stand[r] != at), _Node(self.stand[r], held, doors, lies, treated | 1 << held, lit)
            yield from self._puts(node)
        for r, lamps in self.lamps:
            away = int(self.stand[r] != at)
            dark = lamps & ~lit
            while dark:
                low = dark & -dark
                yield away + 1, _Node(self.stand[r], held, doors, lies, treated, lit | low)
                dark ^= low
            if away and held >= 0 and lamps & lit:
                yield 1, _Node(self.stand[r], held, doors, lies, treated, lit)

    def _cost(self, node: _Node, r: int) -> int:
        return 1 + (self.stand[r] != node.at) + (node.doors >> r & 1)

    def _takes(self, node: _Node) -> Iterator[tuple[int, _Node]]:
        for o, where in enumerate(node.lies):
            if not self.loose >> o & 1:
                continue
            rest = where
            while rest:
                low = rest & -rest
                rest ^= low
                r = low.bit_length() - 1
                if self.reachable[r]:
                    lies = (*node.lies[:o], where ^ low, *node.lies[o + 1 :])
                    yield self._cost(node, r), _Node(self.stand[r], o, node.doors & ~low, lies, node.treated, node.lit)

    def _puts(self, node: _Node) -> Iterator[tuple[int, _Node]]:
        o = node.held
        swap = self.swap and len(node.lies) > 1
        for r in self.fits:
            if swap or self.goals >> r & 1:
                lies = (*node.lies[:o], node.lies[o] | 1 << r, *node.lies[o + 1 :])
                yield (
                    self._cost(node, r),
                    _Node(self.stand[r], EMPTY, node.doors & ~(1 << r), lies, node.treated, node.lit),
                )


def shortest(reduced: Reduced, limit: int) -> SearchResult | None:
    """Return the distance to the goal.

    Args:
        reduced: the abstract problem.
        limit: most nodes to expand, in an exact search and, if that reaches the limit, in a greedy one.

    Returns:
        The result, or None if the greedy search reached the limit too.
    """
    board = _Board(reduced)
    exact = _search(board, limit, 1)
    if exact is not None:
        return SearchResult(exact, True)
    greedy = _search(board, limit, GREEDY_WEIGHT)
    return None if greedy is None else SearchResult(greedy, False)


def _search(board: _Board, limit: int, weight: int) -> float | None:
    """Run weighted A*; return the length of the plan, inf if there is none, None if ``limit`` was reached."""
    best = {board.start: 0}
    estimate = board.estimate(board.start)
    if math.isinf(estimate):
        return math.inf
    heap: list[tuple[float, int, int, _Node]] = [(weight * estimate, 0, 0, board.start)]
    pushed, expanded = 0, 0
    while heap:  # ties are broken towards the deeper node
        _, negative, _, node = heappop(heap)
        steps = -negative
        if steps > best[node]:
            continue
        if board.done(node):
            return steps
        expanded += 1
        if expanded > limit:
            return None
        for cost, reached in board.macro_actions(node):
            total = steps + cost
            if total < best.get(reached, math.inf):
                best[reached] = total
                estimate = board.estimate(reached)
                if estimate < math.inf:
                    pushed += 1
                    heappush(heap, (total + weight * estimate, -total, pushed, reached))
    return math.inf

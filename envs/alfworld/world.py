"""The mutable state of a game: agent, held object, positions and states of objects."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from creditflow.envs.alfworld.game import Game
from creditflow.envs.errors import DataError, short_repr

__all__ = ["World"]


class World:
    """The true facts of one episode, as small integers (about 1.5 KB; the house itself is in ``Game``).

    Attributes:
        location: location number of the agent.
        held: object number, or −1.
        opened: receptacle mask.
        inside: object mask per receptacle. An object may lie in several at once: released games contain such.
        around: object mask per location (the objects that can be sliced there, or that ``look`` lists "next to" it).
        missing: receptacle -> object mask of the explicit negative facts that taking leaves behind. They change one
            text (``look``) and nothing else.
        clean, hot, cool, toggled, sliced: object masks.
    """

    __slots__ = (
        "around",
        "clean",
        "cool",
        "game",
        "held",
        "hot",
        "inside",
        "location",
        "missing",
        "opened",
        "sliced",
        "toggled",
    )

    def __init__(self, game: Game) -> None:
        self.game = game
        self.location = game.start_location
        self.held = game.start_held
        self.opened = game.start_opened
        self.inside = list(game.start_inside)
        self.around = list(game.start_around)
        self.missing: dict[int, int] = {}
        self.clean, self.hot, self.cool, self.toggled, self.sliced = game.first_states

    def copy(self) -> World:
        """An independent copy."""
        twin = World.__new__(World)
        twin.game, twin.location, twin.held, twin.opened = self.game, self.location, self.held, self.opened
        twin.inside, twin.around, twin.missing = self.inside[:], self.around[:], self.missing.copy()
        twin.clean, twin.hot, twin.cool = self.clean, self.hot, self.cool
        twin.toggled, twin.sliced = self.toggled, self.sliced
        return twin

    def key(self) -> str:
        """Return 32 hex digits over game and true facts: equal keys mean equal dynamics, rewards and commands.

        The negative facts in ``missing`` are left out, as they alter only the reply to ``look``.
        """
        game = self.game
        text = (
            f"{game.digest}{game.syntax}|{self.location},{self.held},{self.opened},{self.clean},{self.hot},{self.cool},"
        )
        text += f"{self.toggled},{self.sliced}|{_changes(self.inside, game.start_inside)}"
        text += f"|{_changes(self.around, game.start_around)}"
        return blake2b(text.encode("ascii"), digest_size=16).hexdigest()

    def won(self) -> bool:
        """Whether the goal holds."""
        game = self.game
        if game.goal.looks:
            return bool(self.held >= 0 and game.targets >> self.held & 1 and self._lit_lamp())
        candidates = game.candidates & self._with_property()
        if game.goal.count == 1:
            return any(self.inside[r] & candidates for r in game.goal_places)
        return any((self.inside[r] & candidates).bit_count() >= 2 for r in game.goal_places)

    def _with_property(self) -> int:
        quality = self.game.goal.quality
        if quality == "clean":
            return self.clean
        if quality == "hot":
            return self.hot
        if quality == "cool":
            return self.cool
        return -1

    def _lit_lamp(self) -> bool:
        lamps = self.game.lamps & self.toggled
        return bool(lamps) and any(self.inside[r] & lamps for r in self.game.at_location[self.location])

    def conditions(self) -> tuple[int, int]:
        """Return (met, total) goal conditions, counted as in ALFRED.

        Placing: 1. Two objects: how many of them lie in the best receptacle, of 2. Clean, heat, cool: an object is in
        place, an object has the property, one object has both, of 3. Looking: the object is held, a lamp that was
        switched on is here, of 2.
        """
        game, goal = self.game, self.game.goal
        if goal.looks:
            return int(self.held >= 0 and game.targets >> self.held & 1) + int(self._lit_lamp()), 2
        if goal.count == 2:
            return min(2, max(((self.inside[r] & game.targets).bit_count() for r in game.goal_places), default=0)), 2
        placed = any(self.inside[r] & game.candidates for r in game.goal_places)
        if not goal.quality:
            return int(placed), 1
        return int(placed) + int(bool(game.candidates & self._with_property())) + int(self.won()), 3

    # -- snapshots ---------------------------------------------------------------------------------------------------
    def to_json(self) -> list[Any]:
        """Return the differences from the initial state; masks are hexadecimal strings, as JSON numbers may lose bits."""
        game = self.game
        masks = (self.opened, self.clean, self.hot, self.cool, self.toggled, self.sliced)
        return [
            self.location,
            self.held,
            [f"{mask:x}" for mask in masks],
            [[i, f"{mask:x}"] for i, mask in _changes(self.inside, game.start_inside)],
            [[i, f"{mask:x}"] for i, mask in _changes(self.around, game.start_around)],
            [[i, f"{mask:x}"] for i, mask in sorted(self.missing.items()) if mask],
        ]

    @classmethod
    def from_json(cls, game: Game, data: Any) -> World:
        """Invert ``to_json``.

        Raises:
            DataError: not a state of this game.
        """
        world = cls(game)
        things, receptacles, places = len(game.object_ids), len(game.receptacle_ids), len(game.location_ids)
        try:
            location, held, masks, inside, around, missing = data
            world.location, world.held = _number(location, 0, places), _number(held, -1, things)
            opened, *states = masks
            world.opened = _mask(opened, receptacles)
            world.clean, world.hot, world.cool, world.toggled, world.sliced = (_mask(mask, things) for mask in states)
            for i, mask in inside:
                world.inside[_number(i, 0, receptacles)] = _mask(mask, things)
            for i, mask in around:
                world.around[_number(i, 0, places)] = _mask(mask, things)
            world.missing = {_number(i, 0, receptacles): _mask(mask, things) for i, mask in missing}
        except (TypeError, ValueError) as error:
            raise DataError(
                f"snapshot: not a state of this game ({error}): {json.dumps(data, default=str)[:120]}"
            ) from error
        return world


def _changes(now: list[int], start: tuple[int, ...]) -> list[tuple[int, int]]:
    if tuple(now) == start:
        return []
    return [(i, mask) for i, mask in enumerate(now) if mask != start[i]]


def _number(value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value < high:
        raise ValueError(f"{value!r} is not in [{low}, {high})")
    return value


def _mask(text: Any, size: int) -> int:
    if not isinstance(text, str) or not text.isascii() or len(text) > 1_000:
        raise ValueError(f"{short_repr(text, 40)} is not a hexadecimal mask")
    return _number(int(text, 16), 0, 1 << size)

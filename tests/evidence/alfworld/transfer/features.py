"""Features of commands that exist in every house, from the task and from what the player has seen so far.

A command has four: its relation to the task (verb, what is held, whether the furniture is a goal and what was seen there),
alone and with the type of the task; and, for a look into furniture that was not seen yet, the type of furniture, alone and with the
type of object sought. The last two are the search prior; the first two name no object and no furniture. Nothing here depends on what is hidden from the player.
"""

from __future__ import annotations

from typing import NamedTuple

from creditflow.envs.alfworld.actions import ParsedCommand
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.world import World

__all__ = ["PRIOR", "Belief", "Row", "command_rows", "is_prior"]

Row = tuple[str, ...]  # the features of a command
PRIOR = "prior"  # first word of the features of the search prior
_TREATMENTS = {"clean": "clean", "heat": "hot", "cool": "cool"}
_AT_FURNITURE = frozenset({"go", "open", "close", "examine", "take", "put"})


class Belief:
    """What the player has seen: masks of receptacles, and of objects that were treated as the task requires.

    Attributes:
        visited: receptacles that the player stood at.
        seen: receptacles whose contents were shown; only the player changes them afterwards.
        treated: objects that were cleaned, heated or cooled by the player, whichever the task requires.
        used: lamps that were switched on.
    """

    def __init__(self) -> None:
        self.visited = self.seen = self.treated = self.used = 0

    def update(self, world: World, parsed: ParsedCommand) -> None:
        """Take in the reply to a command, after it was executed."""
        if parsed.verb in _AT_FURNITURE:
            bit = 1 << parsed.receptacle
            self.visited |= bit
            here = world.game.location_masks[world.location] if world.held < 0 else bit  # what can be taken is listed
            self.seen |= here & (world.opened | ~world.game.openable)
        elif parsed.verb == "use":
            self.used |= 1 << parsed.obj
        elif parsed.verb in _TREATMENTS:
            bit, wanted = 1 << parsed.obj, world.game.goal.quality
            if _TREATMENTS[parsed.verb] == wanted:
                self.treated |= bit
            elif parsed.verb != "clean" and wanted != "clean":  # heating and cooling undo each other
                self.treated &= ~bit


class _Stage(NamedTuple):
    """What the player is after.

    Attributes:
        task: type of the task.
        words: kind of object held, number of objects in place, whether the object sought was seen somewhere.
        sought: mask of the objects sought; 0 if the player has to carry what it holds.
        kind: their type; "" if none.
        ready: mask of the objects that may be placed.
    """

    task: str
    words: str
    sought: int
    kind: str
    ready: int


def _stage(world: World, belief: Belief) -> _Stage:
    game, goal = world.game, world.game.goal
    ready = game.candidates & (belief.treated if goal.quality else -1)
    placed = 0
    if goal.count == 2:
        placed = max(
            (world.inside[r] & ready for r in game.goal_places if belief.seen >> r & 1), key=int.bit_count, default=0
        )
    sought, kind = 0, ""
    if world.held < 0:
        held, sought, kind = "nothing", game.targets & ~placed, goal.target
    elif ready >> world.held & 1:
        held = "ready"
        if goal.looks:
            sought, kind = game.lamps, goal.place
    else:
        held = "target" if game.targets >> world.held & 1 else "other"
    found = any(belief.seen >> r & 1 and mask & sought for r, mask in enumerate(world.inside))
    return _Stage(goal.task_type, f"{held} {placed.bit_count()} {'found' if found else ''}", sought, kind, ready)


def _role(game: Game, r: int) -> str:
    goal = game.goal
    if r in game.goal_places:
        return "goal"
    means = {"clean": game.sinks, "hot": game.microwaves, "cool": game.fridges}.get(goal.quality, 0)
    return "means" if means >> r & 1 else "other"


def _status(world: World, belief: Belief, stage: _Stage, r: int, walk: bool) -> str:
    """What was seen in a receptacle, or, of a walk, at the location that it leads to."""
    game = world.game
    contents = 0
    for other in game.at_location[game.home[r]] if walk else (r,):
        if belief.seen >> other & 1:
            contents |= world.inside[other]
    if not belief.seen >> r & 1 and not (walk and contents & stage.sought):
        return "closed" if belief.visited >> r & 1 else "new"
    first = " first" if world.game.goal.count == 2 and contents & stage.ready else ""
    return ("with" if contents & stage.sought else "without") + first


def command_rows(world: World, belief: Belief, commands: dict[str, ParsedCommand]) -> list[Row]:
    """Return the features of every command, in order."""
    game, stage = world.game, _stage(world, belief)
    places: dict[tuple[int, bool], str] = {}
    rows: list[Row] = []
    for verb, o, r in commands.values():
        words = f"{stage.words} {verb}"
        if verb in _TREATMENTS:
            words += f" {_TREATMENTS[verb] == game.goal.quality}"
        elif verb == "use":
            words += f" {bool(game.lamps & ~belief.used & 1 << o)}"
        if verb not in _AT_FURNITURE:
            rows.append((words, f"{stage.task} {words}"))
            continue
        walk = verb == "go"
        if (r, walk) not in places:
            places[r, walk] = f"{_role(game, r)} {_status(world, belief, stage, r, walk)}"
        words += f" {places[r, walk]}"
        if verb == "take":
            words += f" {bool(stage.sought >> o & 1)}"
        if verb in ("go", "open") and stage.kind and not belief.seen >> r & 1:
            kind = game.receptacle_types[r]
            rows.append((words, f"{stage.task} {words}", f"{PRIOR} {kind}", f"{PRIOR} {stage.kind} {kind}"))
        else:
            rows.append((words, f"{stage.task} {words}"))
    return rows


def is_prior(feature: str) -> bool:
    """Whether a feature belongs to the search prior."""
    return feature.startswith(PRIOR)

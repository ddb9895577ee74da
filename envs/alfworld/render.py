"""Observations, and text keys: the state as a text-only method sees it.

``raw`` is the engine's reply, byte for byte. ``augmented`` adds what the engine leaves out (location, held object with
all its properties, moved objects) and takes no step. Text keys:

``observation``
    the observation itself (GiGPO's anchor).
``graphgpo``
    reply, location and held object, moved objects, sorted commands: the anchor of GraphGPO's recipe.
``rewardflow``
    reply and inventory, a tag such as ``(cleaned)`` only right after the command that cleans, "You Won!" at success: what
    RewardFlow's released code builds, but with the inventory of the *same* moment (there it lags one command behind, and
    takes a step).
``rewardflow_paper``
    the same with lasting tags such as ``[cleaned]``, as its paper describes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from creditflow.envs.alfworld.history import EpisodeHistory
from creditflow.envs.alfworld.replies import intro, inventory
from creditflow.envs.alfworld.rules import admissible_commands
from creditflow.envs.alfworld.world import World

__all__ = ["OBSERVATIONS", "TEXT_KEYS", "augmented", "raw"]


def raw(world: World, history: EpisodeHistory) -> str:
    """The engine's reply."""
    return intro(world) if history.reply is None else history.reply


def states_of(world: World, o: int) -> list[str]:
    """Names of the states of an object, in a fixed order."""
    masks = (
        ("cleaned", world.clean),
        ("heated", world.hot),
        ("cooled", world.cool),
        ("sliced", world.sliced),
        ("switched on", world.toggled),
    )
    return [name for name, mask in masks if mask >> o & 1]


def augmented(world: World, history: EpisodeHistory) -> str:
    """The reply, then the agent's location, the held object and the moved objects."""
    game = world.game
    facing = " and ".join(game.receptacle_names[r] for r in game.at_location[world.location])
    held = _tagged(world, world.held) if world.held >= 0 else "nothing"
    lines = [raw(world, history), "", f"You are at: {facing or 'the middle of the room'}.", f"In your hand: {held}."]
    moved = [
        f"{_tagged(world, o)} from {game.receptacle_names[first]} to {game.receptacle_names[last]}"
        for o, (first, last) in history.moves.items()
        if last not in (-1, first)
    ]
    if moved:
        lines.append(f"You moved: {'; '.join(moved)}.")
    return "\n".join(lines)


def _tagged(world: World, o: int) -> str:
    return " ".join([world.game.object_names[o], *(f"[{state}]" for state in states_of(world, o))])


def _graphgpo(world: World, history: EpisodeHistory) -> str:
    game = world.game
    location = "middle of a room" if history.went_to < 0 else game.receptacle_names[history.went_to]
    hand = f"{game.object_names[world.held]}({_status(world, world.held)})" if world.held >= 0 else "nothing"
    sentences = [raw(world, history), f"Location: {location}. Items in hand (status): {hand}."]
    moved = "".join(
        f"{game.object_names[o]}({_status(world, o)}) from {game.receptacle_names[first]} "
        f"move to {game.receptacle_names[first if last < 0 else last]};"
        for o, (first, last) in history.moves.items()
        if o != world.held and (last not in (-1, first) or _status(world, o) != "unprocessed")
    )
    if moved:
        sentences.append(f"History moving list by you: {moved}")
    sentences.append(",".join(admissible_commands(world).commands))
    return " ".join(sentences)


def _status(world: World, o: int) -> str:
    masks = (("heated", world.hot), ("cooled", world.cool), ("cleaned", world.clean), ("sliced", world.sliced))
    return " ".join(name for name, mask in masks if mask >> o & 1) or "unprocessed"


_PASSING: Final = {"clean": " (cleaned)", "heat": " (heated)", "cool": " (cooled)"}


def _rewardflow(world: World, history: EpisodeHistory) -> str:
    return _with_inventory(world, history, _PASSING.get(history.verb, ""))


def _rewardflow_paper(world: World, history: EpisodeHistory) -> str:
    states = states_of(world, world.held)[:3] if world.held >= 0 else []
    states = [state for state in states if state in ("cleaned", "heated", "cooled")]
    return _with_inventory(world, history, "".join(f" [{state}]" for state in states))


def _with_inventory(world: World, history: EpisodeHistory, tag: str) -> str:
    if world.won():
        return "You Won!"
    carried = inventory(world)
    if tag and world.held >= 0:
        carried = f"{carried.removesuffix('.')}{tag}."
    return f"{raw(world, history)} {carried}"


OBSERVATIONS: Final[dict[str, Callable[[World, EpisodeHistory], str]]] = {"raw": raw, "augmented": augmented}
# None: the text of the chosen observation mode
TEXT_KEYS: Final[dict[str, Callable[[World, EpisodeHistory], str] | None]] = {
    "observation": None,
    "graphgpo": _graphgpo,
    "rewardflow": _rewardflow,
    "rewardflow_paper": _rewardflow_paper,
}

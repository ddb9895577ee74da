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
from typing import Any, Final

from creditflow.envs.alfworld.actions import ParsedCommand
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.replies import intro, inventory
from creditflow.envs.alfworld.rules import admissible_commands
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import DataError, short_repr

__all__ = ["OBSERVATIONS", "TEXT_KEYS", "EpisodeHistory", "augmented", "raw"]


class EpisodeHistory:
    """History of one episode. It is not part of the state: different histories may lead to one ``World``.

    Attributes:
        reply: the last reply; None at the start, where the introduction stands for it.
        verb: verb of the last command; "" if it was rejected, or before the first.
        went_to: number of the receptacle last walked to, −1 at the start.
        moves: object number -> (receptacle it was first taken from, receptacle it was last put into or −1 while held).
    """

    __slots__ = ("moves", "reply", "verb", "went_to")

    def __init__(self) -> None:
        self.reply: str | None = None
        self.verb = ""
        self.went_to = -1
        self.moves: dict[int, tuple[int, int]] = {}

    def record(self, parsed: ParsedCommand, reply: str) -> None:
        """Record an executed command and its reply."""
        self.reply, self.verb = reply, parsed.verb
        if parsed.verb == "go":
            self.went_to = parsed.receptacle
        elif parsed.verb in ("take", "put"):
            first, _ = self.moves.get(parsed.obj, (parsed.receptacle, -1))
            self.moves[parsed.obj] = (first, parsed.receptacle if parsed.verb == "put" else -1)

    def record_rejected(self, reply: str) -> None:
        """Record the reply to a rejected command."""
        self.reply, self.verb = reply, ""

    def to_json(self) -> list[Any]:
        """Return the history as JSON values, for snapshots."""
        return [self.reply, self.verb, self.went_to, [[o, *ends] for o, ends in self.moves.items()]]

    @classmethod
    def from_json(cls, game: Game, data: Any) -> EpisodeHistory:
        """Inverse of ``to_json``.

        Raises:
            DataError: not a history of this game.
        """
        history = cls()
        try:
            reply, verb, went_to, moves = data
            things, places = range(len(game.object_ids)), range(-1, len(game.receptacle_ids))
            if not (reply is None or isinstance(reply, str)) or not isinstance(verb, str) or went_to not in places:
                raise ValueError("reply, verb or receptacle is wrong")
            history.reply, history.verb, history.went_to = reply, verb, went_to
            for o, source, put in moves:
                if o not in things or source not in places[1:] or put not in places:
                    raise ValueError(f"no such move: {o!r}, {source!r}, {put!r}")
                history.moves[o] = (source, put)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"snapshot: not the history of an episode of this game ({error}): {short_repr(data, 120)}"
            ) from error
        return history


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

"""The part of an episode's history that observations depend on: last reply, last walk, moved objects."""

from __future__ import annotations

from typing import Any

from creditflow.envs.alfworld.actions import ParsedCommand
from creditflow.envs.alfworld.game import Game
from creditflow.envs.errors import DataError, short_repr

__all__ = ["EpisodeHistory"]


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

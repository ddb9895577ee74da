"""Who plays the game: our own rules, or TextWorld's engine behind the same four methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from creditflow.envs.alfworld.actions import AdmissibleCommands
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.rules import NOTHING_HAPPENS, act, admissible_commands, intro
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import check_name

__all__ = ["BACKENDS", "Backend", "NativeBackend", "make_backend"]

BACKENDS: Final = ("native", "textworld")


class Backend(Protocol):
    """Plays one game.

    Attributes:
        world: the true facts now.
        past: the commands since the start, if this backend needs them to come back to a state; else ().
    """

    world: World
    past: tuple[str, ...]

    def intro(self) -> str:
        """The introduction of the game that was begun."""
        ...

    def start(self, game: Game, fields: Mapping[str, Any] | None = None) -> None:
        """Begin a game. ``fields`` are those of the file it was read from, for engines that read files."""
        ...

    def admissible(self) -> AdmissibleCommands:
        """The admissible commands."""
        ...

    def do(self, command: str) -> tuple[str, bool]:
        """Send a command, admissible or not; returns the reply, and whether the state changed."""
        ...

    def restore(self, world: World, past: tuple[str, ...]) -> None:
        """Come to a state of any game, whatever was played before."""
        ...


class NativeBackend:
    """Our own rules."""

    world: World
    past: tuple[str, ...] = ()
    _admissible: AdmissibleCommands | None = None  # of the world as it is now: a step asks for it several times

    def start(self, game: Game, fields: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002 - the native engine needs the parsed game alone
        """Begin a game."""
        self.world, self._admissible = World(game), None

    def intro(self) -> str:
        """The introduction."""
        return intro(World(self.world.game))

    def admissible(self) -> AdmissibleCommands:
        """The admissible commands."""
        if self._admissible is None:
            self._admissible = admissible_commands(self.world)
        return self._admissible

    def do(self, command: str) -> tuple[str, bool]:
        """Send a command."""
        parsed = self.admissible().by_text.get(command.strip())
        if parsed is None:
            return NOTHING_HAPPENS, False
        self._admissible = None
        return act(self.world, parsed)

    def restore(self, world: World, past: tuple[str, ...]) -> None:  # noqa: ARG002 - a world says it all
        """Come to a state."""
        self.world, self._admissible = world, None


def make_backend(name: str) -> Backend:
    """A backend by name.

    Raises:
        ConfigError: unknown name.
        MissingExtraError: "textworld" without ALFWorld's packages.
    """
    check_name("backend", name, BACKENDS)
    if name == "native":
        return NativeBackend()
    from creditflow.envs.alfworld.engines.textworld import TextWorldBackend

    return TextWorldBackend()

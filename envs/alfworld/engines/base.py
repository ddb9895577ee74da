"""Game backends: native rules, or TextWorld's engine behind the same interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from creditflow.envs.alfworld.actions import AdmissibleCommands
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.wording.dialect import NOTHING_HAPPENS
from creditflow.envs.alfworld.wording.replies import intro
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import check_name

__all__ = ["BACKENDS", "Backend", "NativeBackend", "make_backend"]

BACKENDS: Final = ("native", "textworld")


class Backend(Protocol):
    """Runs one game.

    Attributes:
        world: the true facts of the present state.
        past: the commands since the start, if this backend needs them to restore a state; else ().
    """

    world: World
    past: tuple[str, ...]

    def intro(self) -> str:
        """The introduction of the started game."""
        ...

    def start(self, game: Game, fields: Mapping[str, Any] | None = None) -> None:
        """Start a game; ``fields`` are those of its file, for engines that read files."""
        ...

    def admissible(self) -> AdmissibleCommands:
        """The admissible commands of the present state."""
        ...

    def do(self, command: str) -> tuple[str, bool]:
        """Send a command, admissible or not; return the reply and whether the state changed."""
        ...

    def restore(self, world: World, past: tuple[str, ...]) -> None:
        """Restore a state of any game, whichever game is running."""
        ...


class NativeBackend:
    """Native rules."""

    world: World
    past: tuple[str, ...] = ()
    _admissible: AdmissibleCommands | None = None  # of the present state: a step needs it several times

    def start(self, game: Game, fields: Mapping[str, Any] | None = None) -> None:
        """Start a game."""
        del fields  # the native rules need only the compiled game
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

    def restore(self, world: World, past: tuple[str, ...]) -> None:
        """Restore a state."""
        del past  # the world is the whole state
        self.world, self._admissible = world, None


def make_backend(name: str) -> Backend:
    """Make a backend by name.

    Raises:
        ConfigError: unknown name.
        MissingExtraError: "textworld" without ALFWorld's packages.
    """
    check_name("backend", name, BACKENDS)
    if name == "native":
        return NativeBackend()
    from creditflow.envs.alfworld.engines.textworld import TextWorldBackend

    return TextWorldBackend()

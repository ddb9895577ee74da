"""Game backends: native rules, or TextWorld's engine behind the same interface."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, Protocol

from creditflow.envs.alfworld.actions import AdmissibleCommands, ParsedCommand
from creditflow.envs.alfworld.dialect import NOTHING_HAPPENS
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.replies import intro
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World
from creditflow.envs.errors import DataError, MissingExtraError, check_name

__all__ = ["BACKENDS", "Backend", "NativeBackend", "RealEngine", "TextWorldBackend", "make_backend"]

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
    return TextWorldBackend()


_LOADING = Lock()  # the engine's translator replaces sys.argv and sys.stdout while it loads


class RealEngine:
    """``PddlEnv`` in ALFWorld's demangling wrapper, without shuffled names.

    Reuse one instance: every new one maps another copy of the planner library and never releases it.

    Raises:
        MissingExtraError: textworld or alfworld is not installed.
    """

    def __init__(self) -> None:
        try:
            import textworld
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld.envs.pddl import PddlEnv
        except ImportError as error:
            raise MissingExtraError("the TextWorld engine (packages alfworld, textworld)", "alfworld") from error
        requested = textworld.EnvInfos(admissible_commands=True, won=True, facts=False)
        self.env: Any = AlfredDemangler(PddlEnv(requested), shuffle=False)
        self.state: Any = None

    def start(self, fields: Mapping[str, Any]) -> str:
        """Load the fields of a ``.tw-pddl`` file and return the introduction."""
        with _LOADING:
            argv = sys.argv
            try:
                self.env.load(dict(fields))
                return self.restart()
            finally:
                sys.argv = argv

    def restart(self) -> str:
        """Restart the loaded game and return the introduction."""
        argv = sys.argv
        try:
            self.state = self.env.reset()
        finally:
            sys.argv = argv
        return str(self.state.feedback)

    def step(self, command: str) -> str:
        """Send a command and return the reply."""
        self.state, _, _ = self.env.step(command)
        return str(self.state.feedback)

    @property
    def commands(self) -> tuple[str, ...]:
        """The admissible commands."""
        return tuple(self.state["admissible_commands"])

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        return bool(self.state["won"])

    def world(self, game: Game) -> World:
        """The engine's facts as a ``World`` of the same game."""
        facts: dict[str, list[tuple[str, ...]]] = {}
        for fact in self.state["_facts"]:
            facts.setdefault(fact.name, []).append(tuple(argument.name for argument in fact.arguments))
        return world_of_facts(game, facts)


def world_of_facts(game: Game, facts: Mapping[str, list[tuple[str, ...]]]) -> World:
    """A ``World`` from true facts with raw ids (``not_inreceptacle`` are the explicit negative ones)."""
    things = {o: i for i, o in enumerate(game.object_ids)}
    places = {r: i for i, r in enumerate(game.receptacle_ids)}
    locations = {p: i for i, p in enumerate(game.location_ids)}

    def mask(name: str) -> int:
        return sum(1 << things[o] for (o,) in set(facts.get(name, [])))

    world = World(game)
    world.location = locations[facts["atlocation"][0][1]]
    held = facts.get("holds", [])
    world.held = things[held[0][1]] if held else -1
    world.opened = sum(1 << places[r] for (r,) in set(facts.get("opened", [])))
    world.clean, world.hot, world.cool = mask("isclean"), mask("ishot"), mask("iscool")
    world.toggled, world.sliced = mask("istoggled"), mask("issliced")
    world.inside = [0] * len(places)
    for o, r in facts.get("inreceptacle", []):
        world.inside[places[r]] |= 1 << things[o]
    world.around = [0] * len(locations)
    for o, p in facts.get("objectatlocation", []):
        world.around[locations[p]] |= 1 << things[o]
    world.missing = {}
    for o, r in facts.get("not_inreceptacle", []):
        world.missing[places[r]] = world.missing.get(places[r], 0) | 1 << things[o]
    return world


class TextWorldBackend:
    """The real engine as a ``Backend``, which restores a state by replaying its commands."""

    world: World
    past: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.engine = RealEngine()
        self._game: Game | None = None
        self._intro = ""

    def start(self, game: Game, fields: Mapping[str, Any] | None = None) -> None:
        """Start a game from its own file if it has one, else from an exported one."""
        if self._game is not None and game.same_as(self._game):
            self._intro = self.engine.restart()
        else:
            self._intro = self.engine.start(game_fields(game) if fields is None else fields)
            self._game = game
        self.past = ()
        self.world = self.engine.world(game)

    def intro(self) -> str:
        """The introduction."""
        return self._intro

    def admissible(self) -> AdmissibleCommands:
        """The real engine's commands, parsed."""
        listed = admissible_commands(self.world).by_text
        commands = self.engine.commands
        return AdmissibleCommands(
            commands, {command: listed.get(command, ParsedCommand("help")) for command in commands}
        )

    def do(self, command: str) -> tuple[str, bool]:
        """Send a command."""
        before = self.world.key()
        reply = self.engine.step(command)
        self.past = (*self.past, command)
        self.world = self.engine.world(self.world.game)
        return reply, self.world.key() != before

    def restore(self, world: World, past: tuple[str, ...]) -> None:
        """Restore a state by replaying its commands.

        Raises:
            DataError: the snapshot has no commands (the native backend writes none), or they lead to another state.
        """
        self.start(world.game)
        for command in past:
            self.engine.step(command)
        self.past = past
        self.world = self.engine.world(world.game)
        if self.world.key() != world.key():
            raise DataError(
                "the snapshot's commands do not lead to its state in the TextWorld engine; backend='textworld' restores "
                "only snapshots that it wrote itself"
            )

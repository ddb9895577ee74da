"""Episodes of a policy over features, on the native rules; a test compares them with the environment's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from evidence.alfworld.transfer.features import Belief, Row, command_rows

from creditflow.envs.alfworld.actions import ParsedCommand
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World

__all__ = ["MAX_STEPS", "Decision", "Demonstration", "Episode", "Player", "demonstrate", "play"]

MAX_STEPS = 50


class Player(Protocol):
    """Chooses one of the commands with these features."""

    def __call__(self, rows: Sequence[Row], rng: np.random.Generator) -> int:
        """Return the number of the command."""
        ...


class Decision(NamedTuple):
    """A state as a policy sees it, and the number of the command chosen there."""

    rows: list[Row]
    choice: int


class Episode(NamedTuple):
    """An episode.

    Attributes:
        won: whether the task was solved within the limit.
        commands: the commands given.
        keys: state keys before every command and after the last; () if they were not asked for.
        decisions: what the policy saw and chose; () if they were not asked for.
    """

    won: bool
    commands: tuple[str, ...]
    keys: tuple[str, ...]
    decisions: tuple[Decision, ...]


class Demonstration(NamedTuple):
    """A state as a policy sees it, and the numbers of the oracle's commands there."""

    rows: list[Row]
    best: tuple[int, ...]


def play(
    game: Game, player: Player, rng: np.random.Generator, *, record: bool = False, limit: int = MAX_STEPS
) -> Episode:
    """Play one episode."""
    world, belief = World(game), Belief()
    commands: list[str] = []
    keys: list[str] = []
    decisions: list[Decision] = []
    while len(commands) < limit and not world.won():
        offered = admissible_commands(world).by_text
        rows = command_rows(world, belief, offered)
        choice = player(rows, rng)
        if record:
            keys.append(world.key())
            decisions.append(Decision(rows, choice))
        command = list(offered)[choice]
        commands.append(command)
        _do(world, belief, offered[command])
    if record:
        keys.append(world.key())
    return Episode(world.won(), tuple(commands), tuple(keys), tuple(decisions))


def demonstrate(game: Game, noise: float, limit: int, rng: np.random.Generator) -> list[Demonstration]:
    """Return the oracle's commands in the states of an episode in which other commands are given with probability ``noise``.

    The oracle knows where everything is, and the policy does not: what it learns of a search is where things tend to lie. Random commands
    lead to the states of a search that has failed so far.
    """
    world, belief, oracle = World(game), Belief(), ALFWorldOracle()
    found: list[Demonstration] = []
    while len(found) < limit and not world.won():
        offered = admissible_commands(world).by_text
        names = list(offered)
        best = oracle.assess_world(world).actions
        if not best:
            break
        found.append(Demonstration(command_rows(world, belief, offered), tuple(names.index(name) for name in best)))
        options = names if rng.random() < noise else best
        _do(world, belief, offered[options[int(rng.integers(len(options)))]])
    return found


def _do(world: World, belief: Belief, parsed: ParsedCommand) -> None:
    act(world, parsed)
    belief.update(world, parsed)

"""TextWorld's engine with ALFWorld's rules, with which the tests and benchmarks compare the native ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.world import World

__all__ = ["RealEngine"]


class RealEngine:
    """``PddlEnv`` in ALFWorld's demangling wrapper, without shuffled names.

    Reuse one instance: every new one maps another copy of the planner library and never releases it.
    """

    def __init__(self) -> None:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv

        requested = textworld.EnvInfos(admissible_commands=True, won=True, facts=False)
        self.env: Any = AlfredDemangler(PddlEnv(requested), shuffle=False)
        self.state: Any = None

    def start(self, fields: Mapping[str, Any]) -> str:
        """Load the fields of a ``.tw-pddl`` file and return the introduction."""
        argv = sys.argv  # the engine's translator replaces it while it loads
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

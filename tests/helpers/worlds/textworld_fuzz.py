"""Differential fuzzer: this package's ALFWorld engine and TextWorld's get the same commands, and must agree byte for byte.

Random commands hardly ever slice, fill the floor list or reach an object in two receptacles, so every game begins with
*errands*, command sequences that lead to such branches; random commands follow, some of them inadmissible. Compared after every command: reply,
ordered admissible commands, ``won``, and all facts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from helpers.worlds.errands import ERRANDS, errand
from helpers.worlds.game_files import iter_archive

from creditflow.envs.alfworld.dialect import NOTHING_HAPPENS
from creditflow.envs.alfworld.engines import RealEngine
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.alfworld.generator import SPLITS, generate
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.replies import intro
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.world import World
from creditflow.envs.tasks import sample_index

__all__ = ["fuzz"]

JUNK = (
    "",
    "Look",
    "look  around",
    "go to  desk 1",
    "take all",
    "put apple 1 in/on fridge 1",
    "use",
    "examine room",
    "\tlook\n",
)


class DisagreementError(AssertionError):
    """The two engines differ."""


class Duel:
    """One game in both engines."""

    def __init__(self, real: RealEngine, game: Game, fields: dict[str, Any], seen: Counter[str]) -> None:
        self.real, self.game, self.seen = real, game, seen
        self.history: list[str] = []
        self.compare("", real.start(fields), intro(World(game)), World(game))
        self.world = World(game)

    def compare(self, command: str, theirs: str, ours: str, world: World) -> None:
        """Compare reply, admissible commands, ``won`` and facts after a command.

        Raises:
            DisagreementError: they differ; names game, history and both values.
        """
        real, where = self.real, f"game {self.game.task.task_id} after {[*self.history, command]}"
        if theirs != ours:
            raise DisagreementError(f"{where}: reply {theirs!r}, here {ours!r}")
        if real.commands != admissible_commands(world).commands:
            raise DisagreementError(
                f"{where}: commands {sorted(set(real.commands) ^ set(admissible_commands(world).commands))}"
            )
        if real.won != world.won():
            raise DisagreementError(f"{where}: won {real.won}, here {world.won()}")
        if real.world(self.game).to_json() != world.to_json():
            raise DisagreementError(f"{where}: facts {real.world(self.game).to_json()}, here {world.to_json()}")

    def play(self, command: str) -> bool:
        """Send one command to both; returns False once the game is won."""
        world = self.world
        parsed = admissible_commands(world).by_text.get(command.strip())
        ours = NOTHING_HAPPENS if parsed is None else act(world, parsed)[0]
        self.compare(command, self.real.step(command), ours, world)
        self.history.append(command)
        self.seen["steps"] += 1
        self.seen[f"verb {parsed.verb if parsed else 'refused'}"] += 1
        if parsed and parsed.verb == "inspect":
            sentences = [
                text.format(o=self.game.object_names[parsed.obj], list="") for text in self.game.dialect.properties
            ]
            index = next((i for i, text in enumerate(sentences) if text == ours), 0)
            self.seen[f"property sentence {index}"] += 1
            self.seen["container with contents examined"] += index == 0 and "nothing" not in ours
        if parsed and parsed.verb == "look" and "you see nothing" not in ours and "middle" not in ours:
            self.seen["floor list shown"] += 1
        self.seen["at co-located receptacles"] += len(self.game.at_location[world.location]) > 1
        self.seen["object in two receptacles somewhere"] += _doubled(world)
        return not world.won()


def _doubled(world: World) -> bool:
    once = 0
    for mask in world.inside:
        if once & mask:
            return True
        once |= mask
    return False


def duel(
    real: RealEngine, game: Game, fields: dict[str, Any], steps: int, rng: np.random.Generator, seen: Counter[str]
) -> None:
    """Play one game to the end or for ``steps`` commands.

    Raises:
        DisagreementError: the engines differ.
    """

    def pick(options: Any) -> Any:
        return options[sample_index(rng, len(options))]

    match = Duel(real, game, fields, seen)
    seen["games"] += 1
    start, turn = seen["steps"], sample_index(rng, len(ERRANDS))
    for kind in ERRANDS[turn:] + ERRANDS[:turn]:
        for command in errand(match.world, kind, pick):
            if seen["steps"] - start >= steps:
                return
            seen[f"errand {kind}"] += 1
            if not match.play(command):
                seen["won"] += 1
                return
    while seen["steps"] - start < steps:
        commands = [
            c for c in admissible_commands(match.world).commands if not c.startswith("go ") or sample_index(rng, 4) == 0
        ]
        command = pick(JUNK) if sample_index(rng, 20) == 0 else pick(commands or ["look"])
        if seen["steps"] - start > steps * 3 // 4:  # end on a shortest path, so that games are won too
            best = ALFWorldOracle()._actions(match.world)[0]
            command = best[0] if best else command
        if not match.play(command):
            seen["won"] += 1
            return


def games(archive: Path, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Game, dict[str, Any]]]:
    """Two thirds released games, spread over the archive, one third generated; one in six of the generated ones uses the old syntax."""
    released = count * 2 // 3
    names = [name for name, _ in iter_archive(archive) if name.endswith("game.tw-pddl")]
    chosen = {names[i] for i in np.argsort(rng.bit_generator.random_raw(len(names)), kind="stable")[:released]}
    for name, data in iter_archive(archive):
        if name in chosen:
            fields = json.loads(data)
            yield name, Game(content_from_fields(fields, name)), fields
    for seed in range(count - released):
        content = generate(seed, SPLITS[seed % 3])
        if seed % 4 == 0:  # lamps that can be taken: no released game has any, but the grammar has sentences for them
            for row in content["objects"]:
                row[5] = sorted({*row[5], "pickupable"} if "toggleable" in row[5] else row[5])
        game = Game(content, "put" if seed % 6 == 5 else None)
        yield f"generated {seed}", game, game_fields(game)


def fuzz(archive: Path, count: int, steps: int) -> Counter[str]:
    """Play games in both engines; returns what occurred how often.

    Raises:
        DisagreementError: the engines differ.
    """
    rng = np.random.Generator(np.random.PCG64(0))
    real, seen = RealEngine(), Counter[str]()
    for _, game, fields in games(archive, count, rng):
        duel(real, game, fields, steps, rng, seen)
    return seen

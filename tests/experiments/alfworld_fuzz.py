"""Differential fuzzer: our engine and TextWorld's play the same commands, and must agree byte for byte.

Random play hardly ever slices, fills the floor list or meets an object in two receptacles, so every game begins with
*errands* that force such branches; then play is random, with some inadmissible commands in between. Compared after
every command: reply, ordered admissible commands, ``won``, and all facts.

    python tests/experiments/alfworld_fuzz.py --archive ../shared/data/alfworld/alfworld_games_full.tar.xz --games 200
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.alfworld.engines.textworld import RealEngine
from creditflow.envs.alfworld.game import Game, bits
from creditflow.envs.alfworld.game_files.archive import iter_archive
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.game_files.reading import content_from_fields
from creditflow.envs.alfworld.generator.houses import SPLITS, generate
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.rules import act, admissible_commands
from creditflow.envs.alfworld.wording.dialect import NOTHING_HAPPENS
from creditflow.envs.alfworld.wording.replies import intro
from creditflow.envs.alfworld.world import World
from creditflow.envs.tasks import sample_index

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "tests" / "evidence" / "alfworld_fuzz.json"
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
    """One game played by both engines."""

    def __init__(self, real: RealEngine, game: Game, fields: dict[str, Any], seen: Counter[str]) -> None:
        self.real, self.game, self.seen = real, game, seen
        self.history: list[str] = []
        self.compare("", real.start(fields), intro(World(game)), World(game))
        self.world = World(game)

    def compare(self, command: str, theirs: str, ours: str, world: World) -> None:
        real, where = self.real, f"game {self.game.task.task_id} after {[*self.history, command]}"
        if theirs != ours:
            raise DisagreementError(f"{where}: reply {theirs!r} here {ours!r}")
        if real.commands != admissible_commands(world).commands:
            raise DisagreementError(
                f"{where}: commands {sorted(set(real.commands) ^ set(admissible_commands(world).commands))}"
            )
        if real.won != world.won():
            raise DisagreementError(f"{where}: won {real.won}")
        if real.world(self.game).to_json() != world.to_json():
            raise DisagreementError(f"{where}: facts {real.world(self.game).to_json()} here {world.to_json()}")

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


# -- errands ---------------------------------------------------------------------------------------------------------
def reach(world: World, r: int) -> Iterator[str]:
    """Walk to a receptacle and open it."""
    name = world.game.receptacle_names[r]
    if world.game.home[r] != world.location:
        yield f"go to {name}"
    if world.game.openable >> r & 1 and not world.opened >> r & 1:
        yield f"open {name}"


def fetch(world: World, things: int, pick: Any) -> Iterator[str]:
    """Take one of some objects, with a free hand."""
    game = world.game
    if world.held >= 0:
        spots = [r for r in range(len(game.fits)) if game.fits[r] >> world.held & 1 and game.home[r] >= 0]
        if not spots:
            return
        r = pick(spots)
        yield from reach(world, r)
        yield game.dialect.put.format(o=game.object_names[world.held], r=game.receptacle_names[r])
    finds = [
        (o, r)
        for r, mask in enumerate(world.inside)
        for o in bits(mask & things & game.pickupable)
        if game.home[r] >= 0
    ]
    if finds:
        o, r = pick(finds)
        yield from reach(world, r)
        yield f"take {game.object_names[o]} from {game.receptacle_names[r]}"


def errand(world: World, kind: str, pick: Any) -> Iterator[str]:
    """Commands that force a rare branch, chosen while playing; some may be refused, which is compared too."""
    game = world.game
    everything = (1 << len(game.object_ids)) - 1
    if kind == "slice":
        yield from fetch(world, game.knives, pick)
        spots = [p for p, mask in enumerate(world.around) if mask & game.sliceable and game.at_location[p]]
        if spots and world.held >= 0:
            place = pick(spots)
            yield f"go to {game.receptacle_names[game.at_location[place][0]]}"
            for o in bits(world.around[place] & game.sliceable):
                yield f"slice {game.object_names[o]} with {game.object_names[world.held]}"
            yield from fetch(world, world.sliced, pick)
            yield from treat(world, pick)
    elif kind == "floor":
        shared = [here for here in game.at_location if len(here) > 1]
        for here in shared[:2]:
            inside = sum(1 << o for o in range(len(game.object_ids)) if any(world.inside[r] >> o & 1 for r in here))
            yield from fetch(world, inside, pick)
            for r in (*here, here[0]):
                if world.held >= 0:
                    yield from reach(world, r)
                    yield game.dialect.put.format(o=game.object_names[world.held], r=game.receptacle_names[r])
                    yield "look"
    elif kind == "properties":
        yield from fetch(
            world, game.cleanable & game.heatable & game.coolable & ~game.containers or game.cleanable, pick
        )
        yield from treat(world, pick)
    elif kind == "doubled":
        twice = sum(1 << o for o in bits(everything) if sum(mask >> o & 1 for mask in world.inside) > 1)
        yield from fetch(world, twice, pick)
        if world.held >= 0:
            o = world.held
            homes = [r for r, mask in enumerate(world.inside) if mask >> o & 1 and game.home[r] >= 0]
            for r in homes:
                yield from reach(world, r)
                yield f"examine {game.receptacle_names[r]}"
                yield f"take {game.object_names[o]} from {game.receptacle_names[r]}"
                yield game.dialect.put.format(o=game.object_names[o], r=game.receptacle_names[r])
                yield f"take {game.object_names[o]} from {game.receptacle_names[r]}"
                yield "look"
    elif kind == "containers":
        full = sum(1 << o for o, mask in enumerate(game.inner) if mask)
        yield from fetch(world, full or game.containers, pick)
        yield from treat(world, pick)
    elif kind == "lamps":
        for r, mask in enumerate(world.inside):
            for o in bits(mask & game.toggleable):
                yield from reach(world, r) if game.home[r] >= 0 else ()
                yield f"use {game.object_names[o]}"
                yield f"use {game.object_names[o]}"
                yield from fetch(world, 1 << o, pick)  # lamps can be taken in the fuzzer's own games only
                yield f"examine {game.object_names[o]}"
                return


def treat(world: World, pick: Any) -> Iterator[str]:
    """Clean, heat and cool what is held, in an order that shows every combination, and examine it each time."""
    game = world.game
    if world.held < 0:
        return
    name = game.object_names[world.held]
    yield f"examine {name}"
    means = {"cool": game.fridges, "heat": game.microwaves, "clean": game.sinks}
    orders = (("cool", "heat", "clean", "cool"), ("clean", "cool", "heat", "cool"), ("heat", "cool", "clean", "heat"))
    for verb in pick(orders):
        places = means[verb]
        for r in bits(places)[:1]:
            if game.home[r] != world.location:
                yield f"go to {game.receptacle_names[r]}"
            yield f"{verb} {name} with {game.receptacle_names[r]}"
            yield f"examine {name}"


ERRANDS = ("slice", "floor", "properties", "doubled", "containers", "lamps")


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
        if seen["steps"] - start > steps * 3 // 4:  # end on the shortest way, so that games are won too
            best = ALFWorldOracle()._actions(match.world)[0]
            command = best[0] if best else command
        if not match.play(command):
            seen["won"] += 1
            return


def games(archive: Path, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Game, dict[str, Any]]]:
    """Two thirds released games, spread over the archive, one third generated; one in six of these in old syntax."""
    released = count * 2 // 3
    names = [name for name, _ in iter_archive(archive) if name.endswith("game.tw-pddl")]
    chosen = {names[i] for i in np.argsort(rng.bit_generator.random_raw(len(names)), kind="stable")[:released]}
    for name, data in iter_archive(archive):
        if name in chosen:
            fields = json.loads(data)
            yield name, Game(content_from_fields(fields, name)), fields
    for seed in range(count - released):
        content = generate(seed, SPLITS[seed % 3])
        if seed % 4 == 0:  # a lamp in the hand: no released game has it, but the grammar has sentences for it
            for row in content["objects"]:
                row[5] = sorted({*row[5], "pickupable"} if "toggleable" in row[5] else row[5])
        game = Game(content, "put" if seed % 6 == 5 else None)
        yield f"generated {seed}", game, game_fields(game)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--archive", type=Path, default=ROOT.parent / "shared/data/alfworld/alfworld_games_full.tar.xz")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--steps", type=int, default=55, help="most commands per game")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    options = parser.parse_args()
    rng = np.random.Generator(np.random.PCG64(options.seed))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    real, seen = RealEngine(), Counter[str]()
    began = time.perf_counter()
    differences: list[str] = []
    for name, game, fields in games(options.archive, options.games, rng):
        try:
            duel(real, game, fields, options.steps, rng, seen)
        except DisagreementError as error:  # reported, counted, and the exit code
            differences.append(str(error))
            print(f"DISAGREEMENT {error}", flush=True)
        seconds = time.perf_counter() - began
        print(f"{seen['games']:4d} games {seen['steps']:6d} steps {seconds:7.0f} s  {name}", flush=True)
    report = {
        "job": "alfworld_fuzz",
        "commit": commit.stdout.strip(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("alfworld", "textworld", "fast-downward-textworld", "numpy")},
        },
        "seed": options.seed,
        "disagreements": differences,
        "counts": dict(sorted(seen.items())),
        "seconds": round(time.perf_counter() - began, 1),
    }
    options.out.parent.mkdir(exist_ok=True)
    temporary = options.out.with_suffix(".json.tmp")
    temporary.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    temporary.replace(options.out)
    print(json.dumps(report["counts"], indent=1))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

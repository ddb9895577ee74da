"""Files of games: Sokoban levels and ALFWorld's ``.tw-pddl`` files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.export import game_fields
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import load_panel
from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import freeze, mutate_json, mutate_recipe, spell
from fuzz.target import MismatchError, Target

XSB = b"; 1\n######\n#@ $.#\n#    #\n######\n\n; 2\n#####\n#.$@#\n#####\n"
BOXOBAN = b"; 0\n##########\n##########\n#    #####\n#  $ #####\n# @. #####\n#    #####\n##########\n##########\n##########\n##########\n\n"


def _levels(_: Path) -> Sequence[bytes]:
    rows = load_panel("sokoban", "small-v1").rows[:5]
    return [XSB, BOXOBAN * 3, "\n\n".join(str(row.locator["xsb"]) for row in rows).encode()]


def _read_levels(data: bytes, folder: Path) -> None:
    path = folder / "levels.txt"
    path.write_bytes(data)
    env = SokobanEnv(levels=str(path), oracle_memory_mb=16)
    env.reset(seed=1)
    env.step("up")
    if SokobanEnv(level=env.task.content["xsb"]).reset()[1]["task_id"] != env.task.task_id:
        raise MismatchError("a level of a file and its own text are different tasks")


@lru_cache(maxsize=1)
def _fields() -> bytes:
    return freeze(game_fields(Game(generate(7, "train"), None)))


def _read_game(data: bytes, folder: Path) -> None:
    path = folder / "game.tw-pddl"
    path.write_bytes(data)
    env = ALFWorldEnv(game=str(path))
    _, info = env.reset(seed=1)
    env.step(info["admissible_actions"][0] if info["admissible_actions"] else "look")
    env.set_state(env.get_state())


def _mutate_game(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    """Damage one of the texts (PDDL, grammar), or the fields that contain them."""
    if below(rng, 4) == 0:
        return mutate_json(rng, samples)
    fields = json.loads(pick(rng, samples))
    name = pick(rng, ("pddl_problem", "pddl_problem", "grammar", "pddl_domain"))
    if name == "grammar" and below(rng, 2):
        start = fields[name].index("{")  # rules in JSON, inside text of another format
        rules, end = json.JSONDecoder().raw_decode(fields[name], start)
        changed = spell(mutate_recipe(rng, [freeze(rules)])).decode()
        fields[name] = fields[name][:start] + changed + fields[name][end:]
    else:
        fields[name] = mutate_bytes(rng, [fields[name].encode()]).decode("utf-8", "replace")
    return freeze(fields)


def _game_traps() -> Sequence[bytes]:
    fields = json.loads(_fields())
    deep = {"(": "(" * 200_000, "()": "(a" * 50_000 + ")" * 50_000}
    found = [
        freeze({**fields, name: text}) for name in ("pddl_problem", "pddl_domain", "grammar") for text in deep.values()
    ]
    return [
        *found,
        b"[" * 100_000,
        b"9" * 5000,
        b'{"pddl_problem":1,"pddl_problem":2}',
        freeze({**fields, "grammar": "[" * 100_000}),
        freeze({**fields, "grammar": re.sub(r'"rhs": *"[^"]*"', '"rhs": 0.5', fields["grammar"])}),
    ]


TARGETS = (
    Target(
        name="games/levels", read=_read_levels, seeds=_levels, mutate=mutate_bytes, cases=150, place="levels.txt",
        traps=lambda: [b"#" * 2_000_000, b"#\n" * 500_000, b"", b"\xff\xfe", (b"#" * 70 + b"\n") * 70, BOXOBAN * 3000,
                       b"#####\n#@  #\n#####", b"; " + b"x" * 200_000 + b"\n" + XSB],
    ),
    Target(
        name="games/tw-pddl", read=_read_game, seeds=lambda _: [_fields()], mutate=_mutate_game, traps=_game_traps, cases=80,
        place="game.tw-pddl",
    ),
)  # fmt: skip

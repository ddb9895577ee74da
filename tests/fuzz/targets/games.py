"""Files of games: Sokoban levels, ALFWorld's ``.tw-pddl`` files and archives of them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tarfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from helpers.worlds.exported_games import game_fields

from creditflow.envs.alfworld.env import ALFWorldEnv
from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.game_files.folder import iter_archive
from creditflow.envs.alfworld.generator import generate
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import load_panel
from fuzz.mutate_bytes import below, mutate_bytes, pick
from fuzz.mutate_data import freeze, mutate_json, mutate_recipe, spell
from fuzz.samples import bomb
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


# -- archives --------------------------------------------------------------------------------------------------------
NAME = "json_2.1.1/train/look_at_obj_in_light-Book-None-DeskLamp-301/trial_1/game.tw-pddl"


def _tar(*members: tuple[str, bytes], form: int = tarfile.PAX_FORMAT, **changes: Any) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in changes.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def _archives(_: Path) -> Sequence[bytes]:
    plain = _tar((NAME, _fields()), (NAME.replace("trial_1", "trial_2"), _fields()))
    return [plain, gzip.compress(plain), lzma.compress(plain)]


def _header(size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def _archive_traps() -> Sequence[bytes]:
    game = _tar((NAME, _fields()))
    link: dict[str, Any] = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd", "size": 0}
    hard: dict[str, Any] = {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd", "size": 0}
    record = b"30 path=" + b"x" * 21 + b"\n"
    return [
        bomb(_header(900 << 20, tarfile.XHDTYPE), b"9 a=bcd\n\n" * 100, 1100),
        bomb(_header(900 << 20, tarfile.XGLTYPE), record * 30, 1100),
        bomb(_header(900 << 20, tarfile.GNUTYPE_LONGNAME), b"x" * 1000, 1000),
        bomb(_header(1 << 40, tarfile.REGTYPE), b"\0" * 1024, 1500),
        bomb(_header(1500 << 20, tarfile.REGTYPE), b"\0" * 1024, 1500),
        bomb(b"", _header(0, tarfile.REGTYPE), 200),
        _header(1 << 40, tarfile.XHDTYPE),
        _header(-1 & 0o7777777, tarfile.XGLTYPE) + b"\0" * 512,
        _tar((NAME, b"x"), **link),
        _tar((NAME, b"x"), **hard),
        _tar(("../" + NAME, _fields())),
        _tar(("/" + NAME, _fields())),
        _tar((NAME.replace("trial_1", "../../.."), _fields())),
        _tar((NAME, _fields()), pax_headers={"path": "../../evil/train/a/b/game.tw-pddl"}),
        _tar((NAME, _fields()), pax_headers={"GNU.sparse.map": "0,1,9,9", "GNU.sparse.size": "99999999999"}),
        _tar(
            (NAME, _fields()),
            pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "x"},
        ),
        _tar((NAME, _fields()), pax_headers={"size": "9" * 5000}),
        _tar((NAME, _fields()), pax_headers={"mtime": "x"}),
        gzip.compress(game)[:-9],
        gzip.compress(game)[:200] + b"\xff" * 200 + gzip.compress(game)[400:],
        lzma.compress(game)[:-9],
        lzma.compress(game)[:100] + b"\xff" * 50 + lzma.compress(game)[150:],
        bz2.compress(game)[:-9],
        lzma.compress(b"\0" * 20_000_000, preset=0),
        game[:700],
        b"",
    ]


def _mutate_archive(rng: np.random.Generator, samples: Sequence[bytes]) -> bytes:
    """Damage the compressed bytes, or the archive inside."""
    if below(rng, 2):
        return mutate_bytes(rng, samples)
    inside = mutate_bytes(rng, samples[:1])
    packers: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, lzma.compress, bytes)
    return pick(rng, packers)(inside)


def _read_archive(data: bytes, folder: Path) -> None:
    path = folder / "games.tar"
    path.write_bytes(data)
    for _ in iter_archive(path):
        pass


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
    Target(
        name="games/archive", read=_read_archive, seeds=_archives, mutate=_mutate_archive, traps=_archive_traps, cases=80,
        place="games.tar", seconds=10.0,
    ),
)  # fmt: skip

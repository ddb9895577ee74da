"""Compare our levels of RAGEN's distribution with those of its own generator, from a checkout of its repository.

python tests/evidence/ragen/run.py CHECKOUT    # of github.com/mll-lab-nu/RAGEN; writes results.json beside this file
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.sokoban.levels.gym_sokoban import GymSokobanOptions, RagenOptions, carve_room, reverse_start
from creditflow.envs.sokoban.levels.xsb import Level, parse_level
from creditflow.envs.sokoban.oracle import level_oracle

LEVELS: Final = 512
ROOMS: Final = 100
SIDE: Final = 6
FIRST_SEED: Final = 123  # of RAGEN's validation
SYMBOLS: Final = {0: "#", 1: " ", 2: ".", 3: "*", 4: "$", 5: "@"}  # by the codes of its rooms


def generator(checkout: Path) -> Any:
    """RAGEN's module; it draws pictures by matplotlib, which a comparison of levels does not need."""
    for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.animation"):
        sys.modules.setdefault(name, types.ModuleType(name))
    spec = spec_from_file_location("ragen_sokoban", checkout / "ragen" / "env" / "sokoban" / "utils.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{checkout} is no checkout of RAGEN")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ragen_level(ragen: Any, seed: int) -> Level:
    """The level of a seed, with the parameters of its environment."""
    ragen.random.seed(seed)  # it draws from the global states of both modules
    ragen.np.random.seed(seed)
    structure, state, *_ = ragen.generate_room(dim=(SIDE, SIDE), num_steps=20, num_boxes=1, search_depth=300)
    rows = []
    for fixed_row, row in zip(structure.astype(int), state.astype(int), strict=True):
        cells = zip(fixed_row.tolist(), row.tolist(), strict=True)
        rows.append("".join("+" if cell == 5 and fixed == 2 else SYMBOLS[cell] for fixed, cell in cells))
    return parse_level("\n".join(rows))


def described(levels: list[Level]) -> dict[str, Any]:
    """Mean and counts of the exact lengths of shortest solutions."""
    lengths = [level_oracle(level).moves_left(level.player, level.boxes) for level in levels]
    counts = np.bincount(lengths)[1:].tolist()
    return {
        "levels": len(levels),
        "mean": round(float(np.mean(lengths)), 2),
        "lengths": counts,
        "distinct": len({level.xsb for level in levels}),
    }


def same_start(ragen: Any, seed: int, boxes: int) -> bool | None:
    """Whether both searches choose the same start of one of our rooms; None if there is no room."""
    room = carve_room(np.random.Generator(np.random.PCG64(seed)), SIDE, SIDE, boxes)
    if room is None:
        return None
    structure = np.zeros((SIDE, SIDE))
    structure.flat[list(room.floor)] = 1
    structure.flat[list(room.targets)] = 2
    state = np.where(structure == 2, 4, structure)
    state.flat[room.player] = 5
    best, mapping, _ = ragen.reverse_playing(state, structure, 300)
    ours = reverse_start(room, count="swaps")
    if ours.score == 0:
        return bool(ragen.box_displacement_score(mapping) == 0)
    boxes_there = np.flatnonzero(np.isin(best, (3, 4))).tolist()
    return int(np.flatnonzero(best == 5)[0]) == ours.player and boxes_there == sorted(ours.boxes)


def main() -> None:
    """Write results.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    ragen = generator(parser.parse_args().checkout)
    seeds = range(LEVELS)
    options = {"ours": RagenOptions(SIDE, SIDE, 1), "gym_sokoban": GymSokobanOptions(SIDE, SIDE, 1)}
    results: dict[str, Any] = {
        "ragen": described([ragen_level(ragen, FIRST_SEED + seed) for seed in seeds]),
    }
    for name, of in options.items():
        results[name] = described([of.level(np.random.Generator(np.random.PCG64(seed))) for seed in seeds])
    results["same_start"] = {}
    for boxes in (1, 2):
        agreed = [same for seed in range(ROOMS) if (same := same_start(ragen, seed, boxes)) is not None]
        results["same_start"][f"{boxes} boxes"] = [sum(agreed), len(agreed)]
    Path(__file__).with_name("results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results))


if __name__ == "__main__":
    main()

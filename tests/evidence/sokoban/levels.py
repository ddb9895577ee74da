"""Writes ``tests/evidence/sokoban/levels.json`` and ``levels.png``: our levels of gym-sokoban's distribution beside its own.

    python -m venv /tmp/gs && /tmp/gs/bin/pip install 'setuptools<66' 'numpy<2' gym==0.26.2 gym-sokoban==0.0.6
    PYTHONPATH=src python tests/evidence/sokoban/levels.py --peer /tmp/gs/bin/python

Two comparisons. On the same rooms, the start that gym-sokoban's search chooses and ours: equal or not. On levels generated
from scratch, the distributions of floor cells, shortest solutions, displacements and dead states: differences of the means
with 95 % intervals, and permutation tests of the Kolmogorov-Smirnov statistic, adjusted by Holm over all of them.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.sokoban import GymSokobanOptions, Level, dead_state_fraction, level_oracle, parse_level
from creditflow.envs.sokoban.levels.gym_sokoban import carve_room, reverse_start
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.bench.report.figures import COLOURS, new_figure, panels, save_figure, tidy
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.statistics.significance import holm

TARGET = Path(__file__).parent
# side, boxes, rooms for the search, levels generated
KINDS = ((6, 1, 400, 2000), (6, 2, 200, 800), (8, 1, 200, 800), (8, 2, 40, 250), (10, 1, 60, 250))
KEPT_ROOMS = 12  # per kind, with the peer's starts, for a test
MEASURES = ("floor cells", "wall cells", "solution length", "displacement", "dead states")
PERMUTATIONS = 999

PEER = r"""
import json, random, sys, time, warnings
warnings.filterwarnings("ignore")
import numpy as np
from gym_sokoban.envs import room_utils

job = json.loads(sys.stdin.read())
starts = []
for room in job["rooms"]:
    height, width = room["shape"]
    fixed = np.zeros((height, width), dtype=int)
    for cell in room["floor"]:
        fixed[divmod(cell, width)] = 1
    for cell in room["targets"]:
        fixed[divmod(cell, width)] = 2
    state = np.where(fixed == 2, 4, fixed)
    state[divmod(room["player"], width)] = 5
    best, score, places = room_utils.reverse_playing(state, fixed)
    player = np.argwhere(best == 5)[0]
    boxes = [int(np.dot(places[divmod(cell, width)], (width, 1))) for cell in room["targets"]]
    starts.append([int(score), int(np.dot(player, (width, 1))), boxes])
levels, seconds = {}, {}
for side, boxes, _, count in job["kinds"]:
    random.seed(side * 10 + boxes)
    np.random.seed(side * 10 + boxes)
    found, began = [], time.process_time()
    while len(found) < count:
        try:
            fixed, state, _ = room_utils.generate_room((side, side), num_steps=int(1.7 * 2 * side), num_boxes=boxes)
        except (RuntimeError, RuntimeWarning):
            continue
        shown = [["# .*$@"[int(c)] if not (c == 5 and f == 2) else "+" for c, f in zip(*rows)] for rows in zip(state, fixed)]
        found.append("\n".join("".join(row) for row in shown))
    levels[f"{side}x{side}, {boxes}"] = found
    seconds[f"{side}x{side}, {boxes}"] = (time.process_time() - began) / count
print(json.dumps({"starts": starts, "levels": levels, "seconds": seconds}))
"""


def measures(level: Level) -> list[float]:
    """The numbers by which levels are compared, in the order of ``MEASURES``; displacement: boxes to targets, paired best."""
    cells = level.height * level.width
    floor = len(level.room)
    width = level.width + 1
    place = [divmod(position, width) for position in level.boxes]
    goal = [divmod(position, width) for position in level.targets]
    displacement = min(
        sum(abs(r - s) + abs(c - d) for (r, c), (s, d) in zip(place, chosen, strict=True))
        for chosen in permutations(goal)
    )
    length = level_oracle(level).moves_left(level.player, level.boxes)
    return [floor, cells - floor, length, displacement, dead_state_fraction(level)]


def ks_statistic(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Greatest difference of the two empirical distribution functions."""
    at = np.unique(np.concatenate([a, b]))
    shares = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def compared(a: NDArray[np.float64], b: NDArray[np.float64], rng: np.random.Generator) -> dict[str, Any]:
    """Means, their difference with a 95 % interval, and the p-value of the permutation test."""
    difference = float(a.mean() - b.mean())
    half = 1.96 * float(np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)))
    both, found = np.concatenate([a, b]), ks_statistic(a, b)
    at_least = 1
    for _ in range(PERMUTATIONS):
        order = rng.permutation(both)
        at_least += ks_statistic(order[: len(a)], order[len(a) :]) >= found - 1e-12
    return {
        "ours": round(float(a.mean()), 3), "gym_sokoban": round(float(b.mean()), 3),
        "difference": [round(x, 3) for x in (difference, difference - half, difference + half)],
        "ks": round(found, 4), "p": at_least / (PERMUTATIONS + 1),
    }  # fmt: skip


def sampled_rooms(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return as many rooms of each kind as are compared."""
    rooms: list[dict[str, Any]] = []
    for side, boxes, count, _ in KINDS:
        made = 0
        while made < count:
            room = carve_room(rng, side, side, boxes)
            if room is not None:
                made += 1
                rooms.append({"shape": [side, side], "boxes": boxes, "room": room})
    return rooms


def draw(lengths: Mapping[str, Any], path: Path) -> None:
    """Plot the histograms of solution lengths."""
    figure = new_figure(12.0, 2.8)
    for axes, (name, pair) in panels(figure, list(lengths.items())):
        bins = np.arange(0.5, max(float(values.max()) for values in pair) + 1.5)
        for values, colour, label in zip(pair, COLOURS, ("ours", "gym-sokoban 0.0.6"), strict=False):
            axes.hist(values, bins=bins, density=True, histtype="step", color=colour, label=label, linewidth=1.5)
        size, boxes = name.split(", ")
        axes.set(title=f"{size}, {boxes} box{'es' * (boxes != '1')}", xlabel="fewest moves to the goal")
        tidy(axes)
    figure.axes[0].set_ylabel("fraction of levels")
    figure.axes[0].legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def main() -> None:
    """Compare, and write both files."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="Python interpreter with gym-sokoban 0.0.6")
    options = parser.parse_args()
    rng = np.random.Generator(np.random.PCG64(20_261_122))
    rooms = sampled_rooms(rng)
    job = {"kinds": KINDS, "rooms": [{"shape": r["shape"], **r["room"]._asdict()} for r in rooms]}
    output = subprocess.run(
        [options.peer, "-c", PEER], input=json.dumps(job), check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    theirs = json.loads(output.splitlines()[-1])

    same = 0
    for entry, (score, player, boxes) in zip(rooms, theirs["starts"], strict=True):
        start = reverse_start(entry["room"])
        entry["start"] = [score, player, boxes]
        same += start.score == score and (not score or (start.player, list(start.boxes)) == (player, boxes))
    rows, seconds, lengths = [], {}, {}
    for side, boxes, _, count in KINDS:
        name = f"{side}x{side}, {boxes}"
        began = time.process_time()
        made_here = [GymSokobanOptions(side, side, boxes).level(rng) for _ in range(count)]
        seconds[name] = {"ours": (time.process_time() - began) / count, "gym_sokoban": theirs["seconds"][name]}
        ours = np.array([measures(level) for level in made_here], dtype=np.float64)
        peer = np.array([measures(parse_level(text)) for text in theirs["levels"][name]], dtype=np.float64)
        lengths[name] = ours[:, 2], peer[:, 2]
        rows += [
            {"kind": name, "measure": measure, "levels": count, **compared(ours[:, i], peer[:, i], rng)}
            for i, measure in enumerate(MEASURES)
        ]
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = round(adjusted, 4)
        print(row)
    kept = []
    for side, boxes, _, _ in KINDS:
        kind = [entry for entry in rooms if (entry["shape"][0], entry["boxes"]) == (side, boxes)]
        kept += [{"shape": e["shape"], **e["room"]._asdict(), "start": e["start"]} for e in kind[:KEPT_ROOMS]]
    facts = provenance([], 20_261_122) | {"command": "python tests/evidence/sokoban/levels.py --peer PYTHON"}
    document = {
        "provenance": facts, "same_starts": same, "rooms_searched": len(rooms), "distributions": rows,
        "seconds_per_level": seconds, "rooms": kept,
    }  # fmt: skip
    print(f"{same} of {len(rooms)} rooms have the same start; seconds per level: {seconds}")
    TARGET.mkdir(exist_ok=True)
    with atomic_writer(TARGET / "levels.json") as stream:
        json.dump(document, stream)
    draw(lengths, TARGET / "levels.png")


if __name__ == "__main__":
    main()

"""Compare generated houses with released games: placement, goals, and a search prior learned from either.

    python tests/evidence/alfworld/compare_houses.py ../shared/data/alfworld/alfworld_games_full.tar.xz

Writes ``tests/evidence/alfworld/houses.json``. Placement is the distribution of pairs (type of object, type of furniture)
over objects that can be taken and lie in furniture. Two references bound what to expect: halves of the released training
games, split by game and by scene. Left-out scenes tell fitting from memory: houses that follow the odd scenes alone
are compared with the released games of the even ones. About four minutes on one core.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.alfworld.fit_houses import fit, plain
from evidence.alfworld.released import Content, described_parser, in_split, released_contents, scene_of

from creditflow.envs.alfworld.generator import generate, parse_statistics
from creditflow.envs.tasks import load_panel
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.statistics.intervals import cluster_bootstrap

ROOT = Path(__file__).resolve().parents[3]
EVIDENCE = Path(__file__).with_name("houses.json")
HOUSES = 3_547  # as many as released training games
PRIOR_COUNT = 10  # objects that a place counts for before any was seen
Placement = Counter[tuple[str, str]]
Prior = Callable[[str, str], float]  # types of object and furniture -> expected objects in one piece


def placements(games: Iterable[Content]) -> Placement:
    found: Placement = Counter()
    for game in games:
        kinds = {row[0]: plain(row[1]) for row in game["receptacles"]}
        found.update((plain(row[1]), kinds[row[3][0]]) for row in game["objects"] if "pickupable" in row[5] and row[3])
    return found


def total_variation(a: Mapping[Any, int], b: Mapping[Any, int]) -> float:
    return 0.5 * sum(abs(a.get(x, 0) / sum(a.values()) - b.get(x, 0) / sum(b.values())) for x in {*a, *b})


def given_object(a: Placement, b: Placement) -> float:
    """Mean total variation of the place given the object, weighted by the first's objects."""
    parts: list[dict[str, Counter[str]]] = []
    for joint in (a, b):
        split: dict[str, Counter[str]] = defaultdict(Counter)
        for (thing, place), number in joint.items():
            split[thing][place] = number
        parts.append(split)
    common = sorted(set(parts[0]) & set(parts[1]))
    sizes = [sum(parts[0][thing].values()) for thing in common]
    return float(np.average([total_variation(parts[0][thing], parts[1][thing]) for thing in common], weights=sizes))


def distances(a: Iterable[Content], b: Iterable[Content]) -> dict[str, float]:
    first, second = placements(a), placements(b)
    return {
        "placement": round(total_variation(first, second), 4),
        "place_given_object": round(given_object(first, second), 4),
    }


def summary(games: Sequence[Content]) -> dict[str, Any]:
    """Return shares of goals and means per game."""
    types = Counter(game["goal"][0] for game in games)
    hidden: list[bool] = []
    for game in games:
        closed = {row[0] for row in game["receptacles"] if row[3] == "openable"}
        hidden += [bool(closed & set(row[3])) for row in game["objects"] if row[1] == game["goal"][1]]
    looks = [game["goal"][2] for game in games if game["goal"][0] == "look_at_obj_in_light"]
    return {
        "games": len(games),
        "task_types": {name: round(number / len(games), 4) for name, number in sorted(types.items())},
        "targets_in_closed_furniture": round(float(np.mean(hidden)), 4),
        "floor_lamps_of_look_goals": round(looks.count("floorlamptype") / len(looks), 4),
        "receptacles": round(float(np.mean([len(game["receptacles"]) for game in games])), 2),
        "openable": round(float(np.mean([sum(bool(row[3]) for row in game["receptacles"]) for game in games])), 2),
        "objects_in_furniture": round(
            float(np.mean([sum(bool(row[3]) for row in game["objects"]) for game in games])), 2
        ),
    }


def search_prior(games: Iterable[Content]) -> Prior:
    """Return the expected number of objects per object and piece, smoothed towards that of the furniture."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    chances: dict[str, Counter[str]] = defaultdict(Counter)
    for game in games:
        kinds = {row[0]: plain(row[1]) for row in game["receptacles"]}
        pieces = Counter(kinds.values())
        for row in game["objects"]:
            if "pickupable" in row[5] and row[3]:
                found[plain(row[1])].update(kinds[place] for place in row[3])
                chances[plain(row[1])].update(pieces)
    of_all, chances_of_all = sum(found.values(), Counter[str]()), sum(chances.values(), Counter[str]())

    def prior(thing: str, place: str) -> float:
        base = of_all[place] / (chances_of_all[place] + PRIOR_COUNT)
        return (found[thing][place] + PRIOR_COUNT * base) / (chances[thing][place] + PRIOR_COUNT)

    return prior


def opens(game: Content, prior: Prior | None) -> float:
    """Expected number of receptacles that are looked into until one has the target, ties in uniformly random order."""
    target = game["goal"][1]
    hits = {place for row in game["objects"] if row[1] == target for place in row[3]}
    levels: dict[float, list[bool]] = defaultdict(list)
    for row in game["receptacles"]:
        levels[prior(plain(target), plain(row[1])) if prior else 0.0].append(row[0] in hits)
    looked = 0.0
    for level in sorted(levels, reverse=True):
        if any(levels[level]):
            return looked + (len(levels[level]) + 1) / (sum(levels[level]) + 1)
        looked += len(levels[level])
    raise AssertionError("every released target lies in some furniture")


def searches(games: Mapping[str, Content], priors: Mapping[str, Prior | None]) -> dict[str, Any]:
    """Return the mean number of looks per prior, and its difference from the released prior, with intervals over games."""
    rng = np.random.default_rng(0)
    numbers = {name: np.array([opens(game, prior) for game in games.values()]) for name, prior in priors.items()}
    units = [np.array([index]) for index in range(len(games))]

    def interval(values: np.ndarray) -> list[float]:
        low, high = cluster_bootstrap(units, lambda drawn: float(values[drawn].mean()), rng=rng, n_resamples=2_000)
        return [round(low, 3), round(high, 3)]

    return {
        "games": len(games),
        "scenes": len({scene_of(name) for name in games}),
        "priors": {
            name: {
                "looks": round(float(values.mean()), 3),
                "interval": interval(values),
                "minus_released": round(float((values - numbers["released"]).mean()), 3),
                "interval_of_difference": interval(values - numbers["released"]),
            }
            for name, values in numbers.items()
        },
    }


def halves(games: Mapping[str, Content], unit: Callable[[str], Any], seed: int) -> tuple[list[Content], list[Content]]:
    """Split games at random by unit."""
    units = sorted({unit(name) for name in games})
    first = {units[i] for i in np.random.default_rng(seed).permutation(len(units))[: len(units) // 2]}
    return (
        [game for name, game in games.items() if unit(name) in first],
        [game for name, game in games.items() if unit(name) not in first],
    )


def mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


def compare(games: Mapping[str, Content]) -> dict[str, Any]:
    train = in_split(games, "train")
    released, houses = list(train.values()), [generate(seed) for seed in range(HOUSES)]
    former = [row.locator for row in load_panel("alfworld", "standard-v1").rows]
    odd = {name: game for name, game in train.items() if scene_of(name) % 2}
    even = [game for name, game in train.items() if name not in odd]
    followed = parse_statistics(json.loads(json.dumps(fit(odd))))
    of_odd = [generate(seed, statistics=followed) for seed in range(HOUSES)]
    priors: dict[str, Prior | None] = {
        "released": search_prior(released),
        "generated": search_prior(houses),
        "former_generator": search_prior(former),
        "uniform": None,
    }
    return {
        "total_variation": {
            "generated_and_released": distances(released, houses),
            "former_generator_and_released": distances(released, former),
            "halves_of_released_by_game": mean_of([distances(*halves(train, str, seed)) for seed in range(10)]),
            "halves_of_released_by_scene": mean_of([distances(*halves(train, scene_of, seed)) for seed in range(10)]),
            "released_odd_and_even_scenes": distances(even, odd.values()),
            "generated_from_odd_and_released_even_scenes": distances(even, of_odd),
        },
        "released": summary(released),
        "generated": summary(houses),
        "former_generator": summary(former),
        "search": {split: searches(in_split(games, split), priors) for split in ("valid_seen", "valid_unseen")},
    }


def main() -> None:
    parser = described_parser(__doc__, "archive", "archive of the released games")
    parser.add_argument("--out", type=Path, default=EVIDENCE, help="file to write")
    args = parser.parse_args()
    result = {
        **provenance([], 0),
        "job": "alfworld_houses",
        "command": "python tests/evidence/alfworld/compare_houses.py ARCHIVE",
        **compare(released_contents(args.archive)),
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n", "ascii")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

"""Fit the statistics that generated houses follow to the released training games.

    python tests/evidence/alfworld/fit_houses.py ../shared/data/alfworld/alfworld_games_full.tar.xz

Writes ``assets/houses/alfworld.json``: counts, and weights of places. Where an object lies is Luce's choice model: one of
the types of furniture in the room, with probabilities proportional to weights, fitted to all objects by the MM algorithm
(Hunter, Annals of Statistics 32, 2004). Before, it prints the mean log-likelihood of the choices in left-out scenes with
weights that grow with the number of pieces to an exponent; 0, the model of the generator, and 0.5 are equally good, 1 is
worse. About a minute on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.alfworld.released import Content, in_split, released_contents, room_of, scene_of

from creditflow.envs.alfworld.game_files.content import STATES
from creditflow.envs.alfworld.generator import STATISTICS_FORMAT, barred

TARGET = Path(__file__).resolve().parents[3] / "assets" / "houses" / "alfworld.json"
WEIGHTS = 10_000  # a type's weights add up to this
ROUNDS = 500
Choice = tuple[tuple[tuple[str, int], ...], str]  # (type, pieces) of the furniture of a room, and the chosen type


def plain(kind: str) -> str:
    return kind.removesuffix("type")


def choices(games: Iterable[Content]) -> dict[str, Counter[Choice]]:
    """Return, per type of object, how often which place was chosen among which; "" is the floor."""
    found: dict[str, Counter[Choice]] = defaultdict(Counter)
    for game in games:
        kinds = {row[0]: plain(row[1]) for row in game["receptacles"]}
        pieces = Counter(kinds.values())
        task, target, goal = game["goal"]
        for row in game["objects"]:
            closed = barred(task, plain(goal)) if row[1] == target else frozenset()
            options = tuple(sorted({**{k: n for k, n in pieces.items() if k not in closed}, "": 1}.items()))
            found[plain(row[1])][options, kinds[row[3][0]] if row[3] else ""] += 1
    return found


def place_weights(found: Mapping[Choice, int], exponent: float = 0.0) -> dict[str, float]:
    """Return the weights of greatest likelihood; only places that were chosen once have one."""
    wins: Counter[str] = Counter()
    for (_, place), times in found.items():
        wins[place] += times
    sets: Counter[tuple[tuple[str, int], ...]] = Counter()
    for (options, _), times in found.items():
        sets[tuple((kind, n) for kind, n in options if kind in wins)] += times
    weights = dict.fromkeys(sorted(wins), 1.0 / len(wins))
    for _ in range(ROUNDS):
        chances: defaultdict[str, float] = defaultdict(float)
        for options, times in sets.items():
            total = sum(weights[kind] * n**exponent for kind, n in options)
            for kind, n in options:
                chances[kind] += times * n**exponent / total
        weights = {kind: wins[kind] / chances[kind] for kind in weights}
        total = sum(weights.values())
        weights = {kind: weight / total for kind, weight in weights.items()}
    return weights


def likelihood_of_left_out_scenes(games: Mapping[str, Content], exponent: float) -> float:
    """Mean log-probability of the choices in the even scenes, with weights of the odd ones."""
    total, number = 0.0, 0
    for room in sorted({room_of(name) for name in games}):
        odd, even = (
            choices(game for name, game in games.items() if room_of(name) == room and scene_of(name) % 2 == rest)
            for rest in (1, 0)
        )
        for thing in sorted(set(odd) & set(even)):
            weights = place_weights(odd[thing], exponent)
            for (options, place), times in even[thing].items():
                score = {kind: weights.get(kind, 1e-4) * n**exponent for kind, n in options}
                total += times * float(np.log(score[place] / sum(score.values())))
                number += times
    return total / number


def histogram(numbers: Iterable[int]) -> list[int]:
    """Return how often 0, 1, 2, … occur."""
    counts = Counter(numbers)
    return [counts[n] for n in range(max(counts, default=0) + 1)]


def integers(weights: Mapping[str, float]) -> dict[str, int]:
    """Return weights as integers, without those that round to 0."""
    return {kind: round(weight * WEIGHTS) for kind, weight in weights.items() if round(weight * WEIGHTS)}


def fit_room(games: Sequence[Content]) -> dict[str, Any]:
    furniture = sorted({plain(row[1]) for game in games for row in game["receptacles"]})
    things = sorted({plain(row[1]) for game in games for row in game["objects"]})
    found = choices(games)
    return {
        "furniture": {kind: _counts(games, "receptacles", kind, named=2) for kind in furniture},
        "objects": {
            thing: {
                "counts": _counts(games, "objects", thing, named=1),
                "places": integers(place_weights(found[thing])),
            }
            for thing in things
        },
        "stands": _stands(games),
    }


def _counts(games: Sequence[Content], rows: str, kind: str, named: int) -> list[int]:
    """Return how many games have 0, 1, 2, … of a type, among those whose goal does not name it, if there are any."""
    free = [game for game in games if plain(game["goal"][named]) != kind and plain(game["goal"][2]) != kind]
    return histogram(sum(plain(row[1]) == kind for row in game[rows]) for game in free or games)


def _stands(games: Sequence[Content]) -> dict[str, dict[str, int]]:
    """Return, per type of furniture, how often a piece shares the location of an earlier one, of which type."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for game in games:
        first: dict[str, str] = {}  # location -> type of the first piece there, in the order of types
        for kind, home in sorted((plain(row[1]), row[2]) for row in game["receptacles"]):
            found[kind][first.get(home, "")] += 1
            first.setdefault(home, kind)
    return {kind: dict(sorted(counts.items())) for kind, counts in sorted(found.items())}


def _goals(games: Mapping[str, Content]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, game in games.items():
        task, target, place = game["goal"]
        goals = found.setdefault(task, {}).setdefault(room_of(name), {}).setdefault(plain(target), Counter())
        goals[plain(place)] += 1
    return found


def _targets(games: Iterable[Content]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for game in games:
        numbers[game["goal"][0]].append(sum(row[1] == game["goal"][1] for row in game["objects"]))
    return {task: histogram(counts) for task, counts in numbers.items()}


def _openable(games: Iterable[Content]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for game in games:
        for row in game["receptacles"]:
            found[plain(row[1])][0] += bool(row[3])
            found[plain(row[1])][1] += 1
    return {kind: odds for kind, odds in found.items() if odds[0]}


def _affordances(games: Iterable[Content]) -> dict[str, list[str]]:
    found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for game in games:
        for row in game["objects"]:
            found[plain(row[1])][tuple(name for name in row[5] if name not in STATES)] += 1
    return {thing: sorted(counts.most_common(1)[0][0]) for thing, counts in found.items()}


def _accepts(games: Iterable[Content]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for game in games:
        for kind, things in game["contain"].items():
            found[plain(kind)] |= {plain(thing) for thing in things}
    return {kind: sorted(things) for kind, things in found.items()}


def _in_two(games: Iterable[Content]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for game in games:
        kinds = {row[0]: plain(row[1]) for row in game["receptacles"]}
        pieces = Counter(kinds.values())
        for row in game["objects"]:
            if row[3]:
                first, *others = (kinds[place] for place in row[3])
                for kind, number in pieces.items():
                    if number > (kind == first):
                        found[first][kind][0] += kind in others
                        found[first][kind][1] += 1
    return {
        first: {kind: odds for kind, odds in sorted(others.items()) if odds[0]}
        for first, others in found.items()
        if any(odds[0] for odds in others.values())
    }


def _nested(games: Iterable[Content]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for game in games:
        holders = {row[0]: row[3] for row in game["objects"] if "isreceptacleobject" in row[5]}
        for row in game["objects"]:
            if row[3] and any(places == row[3] for name, places in holders.items() if name != row[0]):
                found[plain(row[1])][0] += any(holder != row[0] for holder in row[4])
                found[plain(row[1])][1] += 1
    return {thing: odds for thing, odds in found.items() if odds[0]}


def _hidden(games: Mapping[str, Content], rooms: Mapping[str, Any], openable: Collection[str]) -> dict[str, int]:
    """Return, per task, the factor of the weights of openable furniture for the goal's objects, in percent.

    It is the one of greatest likelihood: the expected number of objects in such furniture equals the observed one.
    """
    found: dict[str, list[tuple[float, bool]]] = defaultdict(
        list
    )  # odds of openable furniture with factor 1; whether chosen
    for name, game in games.items():
        task, target, place = game["goal"]
        kinds = {row[0]: plain(row[1]) for row in game["receptacles"]}
        places = rooms[room_of(name)]["objects"][plain(target)]["places"]
        weights = {kind: places.get(kind, 0) for kind in {*kinds.values(), ""} - barred(task, plain(place))}
        hidden = sum(weight for kind, weight in weights.items() if kind in openable)
        shown = sum(weights.values()) - hidden
        for row in game["objects"]:
            if row[1] == target and hidden and shown:
                found[task].append((hidden / shown, bool(row[3]) and kinds[row[3][0]] in openable))
    factors = {}
    for task, rows in found.items():
        odds, chosen = np.array([row[0] for row in rows]), sum(row[1] for row in rows)
        percents = np.arange(1, 1_000)
        expected = (percents[:, None] / 100 * odds / (1 + percents[:, None] / 100 * odds)).sum(axis=1)
        factors[task] = int(percents[np.abs(expected - chosen).argmin()])
    return factors


def fit(games: Mapping[str, Content]) -> dict[str, Any]:
    """Return the statistics of games, as ``statistics.py`` reads them."""
    contents = list(games.values())
    rooms = {
        room: fit_room([game for name, game in games.items() if room_of(name) == room])
        for room in sorted({room_of(name) for name in games})
    }
    openable = _openable(contents)
    return {
        "format": STATISTICS_FORMAT,
        "games": len(games),
        "goals": _goals(games),
        "targets": _targets(contents),
        "rooms": rooms,
        "openable": openable,
        "hidden": _hidden(games, rooms, openable),
        "affordances": _affordances(contents),
        "accepts": _accepts(contents),
        "in_two": _in_two(contents),
        "nested": _nested(contents),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="archive of the released games")
    parser.add_argument("--out", type=Path, default=TARGET, help="file to write (default: the embedded one)")
    args = parser.parse_args()
    games = in_split(released_contents(args.archive), "train")
    for exponent in (0.0, 0.5, 1.0):
        print(
            f"exponent {exponent}: {likelihood_of_left_out_scenes(games, exponent):.4f} per choice in left-out scenes"
        )
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(fit(games), sort_keys=True, indent=None, separators=(",", ":")) + "\n", "ascii")
    print(f"{args.out}: {len(games)} games")


if __name__ == "__main__":
    main()

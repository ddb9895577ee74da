"""The training sets of one seed: released games, houses that follow them, and houses of two former generators.

``generated`` follows all 3,547 released training games, so N of its houses hold more of the release than N games do.
Two further sets say what remains without that: ``refitted`` follows only the N games of ``released``; ``generated_odd``
follows the games of the odd scenes, beside ``released_odd``, and both are judged in the even ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from evidence.alfworld.fit_houses import fit
from evidence.alfworld.released import Content, in_split, scene_of

from creditflow.envs.alfworld.generator import HouseStatistics, generate, parse_statistics
from creditflow.envs.tasks import load_panel

__all__ = ["EVALUATED", "FORMER", "evaluation_games", "follow", "houses", "training_sets"]

EVALUATED: Final = ("valid_seen", "valid_unseen", "even_scenes")
FORMER: Final = ("standard-v1", "standard-v2")
PER_SCENE: Final = 5  # games of an even scene that are played


def houses(seed: int, number: int, statistics: HouseStatistics | None = None) -> list[Content]:
    """Return generated houses, of which no two seeds have one in common."""
    return [generate(seed << 32 | i, statistics=statistics) for i in range(number)]


def follow(games: Mapping[str, Content]) -> HouseStatistics:
    """Return the statistics of games, which houses then follow."""
    return parse_statistics(json.loads(json.dumps(fit(games))))


def drawn(games: Mapping[str, Content], number: int, rng: np.random.Generator) -> dict[str, Content]:
    names = sorted(games)
    return {names[i]: games[names[i]] for i in rng.permutation(len(names))[:number]}


def training_sets(
    games: Mapping[str, Content], seed: int, sizes: Sequence[int], odd: int
) -> Iterator[tuple[str, list[Content]]]:
    """Yield name and games of every training set; the smaller ones of a kind are its first N games.

    Args:
        games: the released games, by path.
        seed: which games are drawn.
        sizes: numbers of games, ascending; ``refitted`` follows as many as the smallest says.
        odd: number of games from the odd scenes; 0 leaves these sets out.
    """
    train, rng = in_split(games, "train"), np.random.default_rng([seed, 0])
    released = drawn(train, sizes[-1], rng)
    yield "released", list(released.values())
    yield "generated", houses(seed, sizes[-1])
    for name in FORMER:
        panel = load_panel("alfworld", name).rows
        order = rng.permutation(len(panel))
        yield name, [panel[i].locator for i in order[: max(size for size in sizes if size <= len(panel))]]
    few = dict(list(released.items())[: sizes[0]])
    yield "refitted", houses(seed, sizes[-1], follow(few))
    if odd:
        of_odd = {name: game for name, game in train.items() if scene_of(name) % 2}
        yield "released_odd", list(drawn(of_odd, odd, rng).values())
        yield "generated_odd", houses(seed, odd, follow(of_odd))


def evaluation_games(games: Mapping[str, Content]) -> dict[str, dict[str, Content]]:
    """Return the released games that are played: both validation splits, and training games of the even scenes."""
    found = {split: in_split(games, split) for split in EVALUATED[:2]}
    scenes: dict[int, list[str]] = {}
    for name in in_split(games, "train"):
        scenes.setdefault(scene_of(name), []).append(name)
    rng = np.random.default_rng(0)
    even = [
        names[i]
        for scene, names in sorted(scenes.items())
        if scene % 2 == 0
        for i in sorted(rng.permutation(len(names))[:PER_SCENE].tolist())
    ]
    return {**found, EVALUATED[2]: {name: games[name] for name in even}}

"""The cheap rival of ``refitted-400``: the same 100 released games, each shown by the oracle four times.

    python tests/evidence/alfworld/transfer/repeated.py ../shared/data/alfworld/alfworld_games_full.tar.xz --seeds 0 1 2 3 4

``refitted-400`` imitates four times as many states as ``released-100``, of 400 houses of a generator that follows the 100 games. Here
the 100 games are shown four times, with other random commands, and as many states are drawn from them. Games, houses and states
are those of ``tabular.py`` with these seeds. Results by game go to ``OUT/repeated-SEED.json``, from which ``summarize.py --repeated`` makes the evidence.
About two minutes per seed on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from evidence.alfworld.released import Content
from evidence.alfworld.transfer.play import Demonstration, demonstrate
from evidence.alfworld.transfer.policy import imitate
from evidence.alfworld.transfer.stored_runs import store_runs
from evidence.alfworld.transfer.tabular import LIMIT, NOISE, SIZES, demonstrations, judge_all, states_of
from evidence.alfworld.transfer.training_sets import evaluation_games, training_sets

from creditflow.envs.alfworld.game import Game


def shown(games: Sequence[Content], times: int, seed: int) -> list[list[Demonstration]]:
    """Return so many demonstrations of every game, the first of each as in ``tabular.py``."""
    found = demonstrations(games, seed)
    for k in range(1, times):
        found += [
            demonstrate(Game(game), NOISE, LIMIT, np.random.default_rng([seed, 1, i, k]))
            for i, game in enumerate(games)
        ]
    return found


def names(sizes: Sequence[int]) -> tuple[str, str, str]:
    """Return the names of the three policies: of the houses, of the repeated games, of the games."""
    few, many = sizes
    return f"refitted-{many}", f"released-{few}, {many // few} times", f"released-{few}"


def one_seed(games: Mapping[str, Content], seed: int, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Return the results of one seed, by policy, decoding and split."""
    chosen, (few, many) = dict(training_sets(games, seed, sizes, 0)), sizes
    played = {split: [Game(game) for game in found.values()] for split, found in evaluation_games(games).items()}
    repeated = shown(chosen["released"][:few], many // few, seed)
    states = (
        states_of(demonstrations(chosen["refitted"], seed), many, seed),
        states_of(repeated, many, seed),
        states_of(repeated, few, seed),
    )
    return judge_all(dict(zip(names(sizes), map(imitate, states), strict=True)), played, seed)


def main() -> None:
    store_runs(__doc__, lambda seeds: ((f"repeated-{seed}", partial(one_seed, seed=seed)) for seed in seeds))


if __name__ == "__main__":
    main()

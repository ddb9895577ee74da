"""Transfer of policies over features: trained on generated houses or released games, played on released validation games.

    python tests/evidence/alfworld/transfer/tabular.py ../shared/data/alfworld/alfworld_games_full.tar.xz --seeds 0 1 2 3 4

Per seed: imitation of the oracle on every training set (``training_sets.py``) of every size, as many states each; GiGPO's credit
from a common start without search prior, which imitates the first generator's houses; and controls: policies without search prior,
policies with one another's, uniformly random commands, the oracle. Results by game go to ``OUT/tabular-SEED.json`` (seeds that are there
are left alone), from which ``summarize.py`` makes the evidence. About three minutes per seed on one core.
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
from evidence.alfworld.transfer.features import is_prior
from evidence.alfworld.transfer.play import MAX_STEPS, Demonstration, Player, demonstrate, play
from evidence.alfworld.transfer.policy import Greedy, Policy, Sampled, imitate, uniform, with_prior_of
from evidence.alfworld.transfer.reinforce import reinforce
from evidence.alfworld.transfer.stored_runs import store_runs
from evidence.alfworld.transfer.training_sets import FORMER, evaluation_games, training_sets

from creditflow.envs.alfworld.game import Game
from creditflow.envs.alfworld.oracle import ALFWorldOracle
from creditflow.envs.alfworld.world import World
from creditflow.wrappers.credit.registry import make

SIZES = (100, 400)
ODD = 300  # games of the odd scenes
STATES = 8  # imitated states per game
LIMIT = 12  # states of one demonstration
NOISE = 0.5
ITERATIONS = 40
SCHEME = "gigpo"
REPEATS = 1  # episodes of a policy per game; seeds repeat the rest


def demonstrations(games: Sequence[Content], seed: int) -> list[list[Demonstration]]:
    return [demonstrate(Game(game), NOISE, LIMIT, np.random.default_rng([seed, 1, i])) for i, game in enumerate(games)]


def states_of(shown: Sequence[Sequence[Demonstration]], games: int, seed: int) -> list[Demonstration]:
    """Return ``STATES`` states per game from the first games, drawn from all of theirs."""
    found = [state for episode in shown[:games] for state in episode]
    if len(found) < STATES * games:
        raise ValueError(f"{games} demonstrations have only {len(found)} states, expected {STATES * games}")
    return [found[i] for i in np.random.default_rng([seed, 2]).permutation(len(found))[: STATES * games]]


def imitations(
    sets: Mapping[str, list[list[Demonstration]]], sizes: Sequence[int], seed: int
) -> dict[str, dict[str, float]]:
    """Return the policies by imitation, by training set and number of games."""
    policies = {
        f"{name}-{size}": imitate(states_of(shown, size, seed))
        for name, shown in sets.items()
        for size in (sorted(sizes) if not name.endswith("_odd") else [len(shown)])
        if size <= len(shown)
    }
    middle = sizes[len(sizes) // 2]
    for name in ("released", "generated"):
        states = states_of(sets[name], middle, seed)
        policies[f"{name}-{middle} without prior"] = imitate(states, keep=lambda feature: not is_prior(feature))
    released, generated = (policies[f"{name}-{middle}"] for name in ("released", "generated"))
    policies[f"released-{middle} with generated prior"] = with_prior_of(released, generated)
    policies[f"generated-{middle} with released prior"] = with_prior_of(generated, released)
    return policies


def judge(player: Player, games: Sequence[Game], seed: int) -> dict[str, list[float]]:
    """Return success and commands (50 if it failed) by game, means over ``REPEATS`` episodes."""
    won, commands = [], []
    for number, game in enumerate(games):
        episodes = [play(game, player, np.random.default_rng([seed, 4, number, k])) for k in range(REPEATS)]
        won.append(float(np.mean([episode.won for episode in episodes])))
        commands.append(float(np.mean([len(episode.commands) if episode.won else MAX_STEPS for episode in episodes])))
    return {"success": won, "commands": commands}


def judge_all(policies: Mapping[str, Policy], played: Mapping[str, Sequence[Game]], seed: int) -> dict[str, Any]:
    """Return results by policy, decoding and split; policies of the odd scenes alone are played in the even ones too."""
    found: dict[str, Any] = {}
    for name, policy in policies.items():
        for decoding, kind in (("greedy", Greedy), ("sampled", Sampled)):
            for split, games in played.items():
                if split != "even_scenes" or "_odd" in name:
                    key = f"{name}/{decoding}"
                    found.setdefault(key, {})[split] = judge(kind(policy), games, seed)
    return found


def one_seed(
    games: Mapping[str, Content],
    seed: int,
    *,
    sizes: Sequence[int] = SIZES,
    odd: int = ODD,
    iterations: int = ITERATIONS,
) -> dict[str, Any]:
    """Train and judge the policies of one seed."""
    chosen = dict(training_sets(games, seed, sizes, odd))
    played = {split: [Game(game) for game in found.values()] for split, found in evaluation_games(games).items()}
    sets = {name: demonstrations(found, seed) for name, found in chosen.items()}
    policies = imitations(sets, sizes, seed)
    middle = sizes[len(sizes) // 2]
    start = imitate(states_of(sets[FORMER[0]], sizes[0], seed), keep=lambda feature: not is_prior(feature))
    policies["start"] = start
    for name in ("released", "generated"):
        tasks = [Game(game) for game in chosen[name][:middle]]
        policies[f"{name}-{middle} reinforced"] = reinforce(start, tasks, make(SCHEME), iterations, seed)
    results = judge_all(policies, played, seed)
    results["random/uniform"] = {split: judge(uniform, found, seed) for split, found in played.items()}
    oracle = ALFWorldOracle()
    results["oracle/optimal"] = {
        split: {
            "success": [1.0] * len(found),
            "commands": [oracle.world_distance(World(game)).distance for game in found],
        }
        for split, found in played.items()
    }
    numbers = {name: [len(shown), sum(map(len, shown))] for name, shown in sets.items()}
    return {"seed": seed, "games_and_states": numbers, "results": results}


def main() -> None:
    store_runs(__doc__, lambda seeds: ((f"tabular-{seed}", partial(one_seed, seed=seed)) for seed in seeds))


if __name__ == "__main__":
    main()

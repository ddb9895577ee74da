"""The task families and the two kinds of metrics of AgentCreditBench, with our schemes; and its metrics on our grids.

  python tests/evidence/credit_bench/run.py --out tests/evidence/credit_bench/results.json

The families are written here from their description; no code of that benchmark is used. The policy is uniform. A batch is one group
of 1,000 rollouts, as its estimators centre over the batch; on the grids it is 64 groups of 8.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.simulate import ArrayGroup, simulate
from creditflow.train.bench.methods import make_methods
from creditflow.train.bench.shared.tasks import viewed_tasks
from creditflow.wrappers.credit import Credit

__all__ = ["FAMILIES", "METHODS", "delayed_effect", "measure", "outcome_broadcast", "recovery", "variable_horizon"]

Floats = NDArray[np.float64]
METHODS: Final = (
    "outcome_broadcast", "rloo", "grpo", "gigpo", "graphgpo", "rewardflow", "hgpo", "gagpo", "rtmc", "grouptd", "grouptd_base",
    "stateless", "position", "oracle_adv",
)  # fmt: skip
ROLLOUTS: Final = 1000
BATCHES: Final = 10
ROUNDING: Final = 1e-9  # exact advantages that are smaller count as 0


def delayed_effect(horizon: int, good: float = 0.8, bad: float = 0.2) -> FiniteMDP:
    """The first action decides the probability of success; all later ones change nothing. The keys count the turns."""
    keys = ["start", *(f"{latent}:{turn}" for turn in range(1, horizon) for latent in ("good", "bad"))]
    size, success, failure = len(keys), len(keys), len(keys) + 1
    next_states = np.zeros((size, 2, 2), np.int32)
    chances = np.zeros((size, 2, 2))
    next_states[0], chances[0] = [[1, 1], [2, 2]], [1.0, 0.0]
    for state in range(1, size):
        last = state + 2 >= size
        rate = good if state % 2 else bad
        next_states[state] = [success, failure] if last else [state + 2, state + 2]
        chances[state] = [rate, 1.0 - rate] if last else [1.0, 0.0]
    return _task("delayed effect", keys, ("a", "b"), next_states, chances, [1.0, 0.0], horizon)


def recovery() -> FiniteMDP:
    """GOOD succeeds at once; BAD leads to a state from which RECOVER succeeds and GIVE_UP fails."""
    next_states = np.array([[[2], [1]], [[2], [3]]], np.int32)
    return _task("recovery", ["start", "mistake"], ("a", "b"), next_states, np.ones((2, 2, 1)), [1.0, 0.0], 2)


def variable_horizon(rewards: Sequence[float] = (0.0, 2.0, 1.0, 3.0, 0.0)) -> FiniteMDP:
    """Stopping at turn t scores ``rewards[t]``, here divided by the largest; in the last turn both actions stop."""
    size = len(rewards)
    stop = np.arange(size, 2 * size)
    go_on = np.append(np.arange(1, size), 2 * size - 1)
    next_states = np.stack([stop, go_on], axis=1)[:, :, None].astype(np.int32)
    scores = [reward / max(rewards) for reward in rewards]
    keys = [f"alive:{turn}" for turn in range(size)]
    return _task("variable horizon", keys, ("stop", "continue"), next_states, np.ones((size, 2, 1)), scores, size)


def _task(
    name: str, keys: Sequence[str], actions: tuple[str, ...], next_states: NDArray[np.int32], chances: Floats,
    scores: Sequence[float], horizon: int,
) -> FiniteMDP:  # fmt: skip
    ends = [f"end:{i}" for i in range(len(scores))]
    named = (*keys, *ends)
    return FiniteMDP(
        name, named, named, actions, next_states, chances, np.array(scores), np.array(scores) == max(scores),
        np.zeros(len(keys)), 0, horizon,
    )  # fmt: skip


def outcome_broadcast(group: ArrayGroup) -> Credit:
    """The outcome on every turn, without a baseline."""
    return Credit.of(group, outcome=group.arrays.score)


def _pits() -> list[tuple[FiniteMDP, int]]:
    return [(task.mdp, 8) for task in viewed_tasks("pits", 0, 0, 64)]


FAMILIES: Final[Mapping[str, Callable[[], list[tuple[FiniteMDP, int]]]]] = {
    "delayed effect, 2 turns": lambda: [(delayed_effect(2), ROLLOUTS)],
    "delayed effect, 8 turns": lambda: [(delayed_effect(8), ROLLOUTS)],
    "delayed effect, 32 turns": lambda: [(delayed_effect(32), ROLLOUTS)],
    "recovery": lambda: [(recovery(), ROLLOUTS)],
    "variable horizon": lambda: [(variable_horizon(), ROLLOUTS)],
    "delayed effect, 8 turns, groups of 8": lambda: [(delayed_effect(8), 8)] * 125,
    "recovery, groups of 8": lambda: [(recovery(), 8)] * 125,
    "variable horizon, groups of 8": lambda: [(variable_horizon(), 8)] * 125,
    "our grids with pits": _pits,
}


class _Sums:
    """What is pooled over the batches of one method."""

    def __init__(self) -> None:
        self.credit, self.exact, self.cells = list[Floats](), list[Floats](), list[NDArray[np.int64]]()
        self.gradients = list[Floats]()
        self.selected = list[Floats]()


def measure(name: str, batches: int = BATCHES) -> dict[str, dict[str, float]]:
    """Both kinds of metrics of every method on a family."""
    tasks = FAMILIES[name]()
    mdps = list({id(mdp): mdp for mdp, _ in tasks}.values())
    starts = dict(zip(map(id, mdps), np.cumsum([0, *(mdp.size * mdp.horizon for mdp in mdps)]).tolist(), strict=False))
    evaluators = {
        id(mdp): ExactEvaluator(mdp, np.full((mdp.size, len(mdp.actions)), 1.0 / len(mdp.actions))) for mdp in mdps
    }
    rng, sums = np.random.default_rng(0), {method: _Sums() for method in METHODS}
    target = np.concatenate([evaluators[id(mdp)].gradient.ravel() for mdp in mdps]) / len(mdps)
    for _ in range(batches):
        of_batch: dict[str, list[tuple[FiniteMDP, Floats]]] = {method: [] for method in METHODS}
        for mdp, size in tasks:
            evaluator = evaluators[id(mdp)]
            (group,) = simulate(mdp, evaluator.policy[None], size, rng)
            at = evaluator.index_turns(group)
            exact = evaluator.advantage[at.left, at.state, at.action]
            cell = starts[id(mdp)] + (at.left - 1) * mdp.size + at.state
            functions = make_methods([m for m in METHODS if m != "outcome_broadcast"], evaluator, (0,))
            for method in METHODS:
                credit = outcome_broadcast(group) if method == "outcome_broadcast" else functions[method](group)
                values = credit.flat_advantages
                pooled = sums[method]
                pooled.credit.append(values)
                pooled.exact.append(exact)
                pooled.cells.append(cell)
                of_batch[method].append((mdp, _gradient(mdp, group, values, size)))
                if mdp.name == "recovery":
                    pooled.selected.append(_repaired(group, values))
        for method, gradients in of_batch.items():
            total = {id(mdp): np.zeros(mdp.size * len(mdp.actions)) for mdp in mdps}
            for mdp, gradient in gradients:
                total[id(mdp)] += gradient.ravel()
            sums[method].gradients.append(np.concatenate(list(total.values())) / len(tasks))
    return {method: _metrics(pooled, target) for method, pooled in sums.items()}


def _gradient(mdp: FiniteMDP, group: ArrayGroup, values: Floats, size: int) -> Floats:
    """Σ_t c_t ∇ log π(a_t | s_t) over a group of rollouts, divided by their number: float64 (S, A), for a uniform policy."""
    count = len(mdp.actions)
    chosen = np.bincount(group.number * count + group.chosen, values, minlength=mdp.size * count).reshape(-1, count)
    gradient: Floats = (chosen - chosen.sum(axis=1, keepdims=True) / count) / size
    return gradient


def _repaired(group: ArrayGroup, values: Floats) -> Floats:
    """float64 (n, 2): the credit of BAD and of RECOVER in the rollouts that chose both."""
    firsts = group.arrays.offsets[:-1]
    repaired = firsts[(np.diff(group.arrays.offsets) == 2) & group.arrays.success]
    return np.stack([values[repaired], values[repaired + 1]], axis=1)


def _metrics(pooled: _Sums, target: Floats) -> dict[str, float]:
    credit, exact, cells = np.concatenate(pooled.credit), np.concatenate(pooled.exact), np.concatenate(pooled.cells)
    matters = np.abs(exact) > ROUNDING
    _, cell = np.unique(cells, return_inverse=True)
    visits = np.bincount(cell)
    shift = (np.bincount(cell, credit - exact) / visits)[cell]
    gradients = np.array(pooled.gradients)
    mean = gradients.mean(axis=0)
    scale = float(mean @ target) / float(mean @ mean) if mean.any() else 0.0  # schemes normalise: direction, then size
    out = {
        "RMSE": float(np.sqrt(np.mean((credit - exact) ** 2))),
        "centred RMSE": float(np.sqrt(np.mean((credit - exact - shift) ** 2))),
        "rank correlation": float(spearmanr(credit, exact).statistic) if np.ptp(credit) else 0.0,
        "sign accuracy": float(np.mean(np.sign(credit[matters]) == np.sign(exact[matters]))),
        "leakage": float(np.abs(credit[~matters]).sum() / max(np.abs(credit).sum(), ROUNDING)),
        "cosine of the mean gradient": _cosine(mean, target),
        "cosine of one batch": float(np.mean([_cosine(gradient, target) for gradient in gradients])),
        "error of the mean gradient": float(np.linalg.norm(mean - target) / np.linalg.norm(target)),
        "error after scaling": float(np.linalg.norm(scale * mean - target) / np.linalg.norm(target)),
        "variance after scaling": float(scale**2 * gradients.var(axis=0).sum() / (target @ target)),
    }
    if pooled.selected:
        bad, recover = np.concatenate(pooled.selected).mean(axis=0).tolist()
        out |= {"credit of BAD, repaired": bad, "credit of RECOVER": recover}
    return {name: float(f"{value:.4g}") for name, value in out.items()}


def _cosine(a: Floats, b: Floats) -> float:
    product = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / product if product else 0.0


def main() -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    import json

    document = {
        "what": "AgentCreditBench's task families and both kinds of its metrics, with our schemes",
        "command": f"python tests/evidence/credit_bench/run.py --out {arguments.out}",
        "rollouts": ROLLOUTS,
        "batches": BATCHES,
        "families": {name: measure(name) for name in FAMILIES},
    }
    with atomic_writer(arguments.out) as stream:
        stream.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

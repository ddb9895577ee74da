"""GroupTD is consistent: with Markov keys its mean credit tends to the exact advantage as groups grow, for every λ."""

import itertools

import numpy as np
import pytest
from helpers.episodes.builders import walk

from creditflow.wrappers.credit.states.grouptd import VARIANTS, GroupTD
from creditflow.wrappers.trajectory import Group, StopReason, Turn

# states a, b, c; two actions with equal probability; with probability 1/4 an action has the result of the other one
MOVES = {"a": "bc", "b": "ag", "c": "ca"}
H = 3


def exact():
    """V_h and Q_h(s, action) by the Bellman equation."""
    values: list[dict[str, float]] = [dict.fromkeys("abc", 0.0) | {"g": 1.0}]
    actions: list[dict[tuple[str, int], float]] = [{}]
    for _ in range(H):
        last = values[-1]
        q = {(s, i): 0.75 * last[m[i]] + 0.25 * last[m[1 - i]] for s, m in MOVES.items() for i in (0, 1)}
        actions.append(q)
        values.append({s: 0.5 * (q[s, 0] + q[s, 1]) for s in MOVES} | {"g": 1.0})
    return values, actions


def kernel_group(copies):
    """Every sequence of actions and slips as often as it is probable, so that counts are the true kernel: 8^H rollouts."""
    members = []
    for number, choices in enumerate(itertools.product(range(8), repeat=H)):
        path, actions = "a", list[str]()
        for choice in choices:
            if path[-1] != "g":
                action, slip = choice % 2, choice >= 6
                path += MOVES[path[-1]][action ^ slip]
                actions.append(str(action))
        end: StopReason = "success" if path[-1] == "g" else "env_limit"
        members += [walk(list(path), end, name=f"{number}.{i}", actions=actions) for i in range(copies)]
    return Group(tuple(members))


@pytest.mark.parametrize(
    "options",
    [
        VARIANTS["grouptd_base"],
        {**VARIANTS["grouptd_base"], "divide_by_success": True},
        VARIANTS["grouptd_relative"],
        {**VARIANTS["grouptd_relative"], "merge_test": 0.0},
    ],
)
@pytest.mark.parametrize("td_lambda", [0.0, 0.6, 1.0])
def test_mean_credit_tends_to_the_advantage_over_the_success_rate_as_groups_grow(options, td_lambda):
    values, actions = exact()
    errors = []
    for copies in (1, 8):
        group = kernel_group(copies)
        flat = GroupTD(**{**options, "td_lambda": td_lambda}).assign(group).flat_advantages
        sums: dict[tuple[str, int, int], list[float]] = {}
        for (_, t, turn), c in zip(positions(group), flat.tolist(), strict=True):
            sums.setdefault((turn.state_key, int(turn.action), H - t), []).append(c)
        scale = values[H]["a"] if options["divide_by_success"] else 1.0
        error = max(
            abs(np.mean(found) - (actions[h][s, action] - values[h][s]) / scale)
            for (s, action, h), found in sums.items()
        )
        errors.append(error)
    assert errors[0] < 0.1
    assert errors[1] < errors[0] / 5  # of order 1/n


def positions(group: Group) -> list[tuple[int, int, Turn]]:
    return [(i, t, turn) for i, m in enumerate(group.trajectories) for t, turn in enumerate(m.turns)]

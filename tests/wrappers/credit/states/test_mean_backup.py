"""Mean backups equal the table of all values, and their cost on long chains is linear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.wrappers.credit.states.grouptd import VARIANTS, GroupTD
from creditflow.wrappers.credit.states.mean_backup import (
    Backup,
    horizon_values,
    stationary_values,
    swept_values,
    tabulated_values,
)
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn


def random_backup(rng: np.random.Generator, size: int, *, turns: int, horizon: int, near: int) -> Backup:
    """Sample transitions between states at most ``near`` apart, and numbers of turns that ended the episode, at least one in each visited state."""
    source = rng.integers(0, size, turns)
    target = np.clip(source + rng.integers(-near, near + 1, turns), 0, size - 1)
    edge, count = np.unique(source * size + target, return_counts=True)
    source, target = np.divmod(edge, size)
    ends = (np.bincount(source, minlength=size) > 0) + rng.integers(0, 2, size) * 1.0
    return Backup(
        source, target, count, ends, ends * rng.random(size), float(rng.choice([0.0, 0.5, 3.0])), rng.random(size),
        rng.random(size), horizon,
    )  # fmt: skip


def tabled(backup: Backup) -> np.ndarray:
    """float64 (H+1, K): the table of all values."""
    table = [backup.start.tolist()]
    for _ in range(backup.horizon):
        row = []
        for k in range(backup.size):
            prior = backup.prior[k]
            own = backup.source == k
            weight = backup.prior_weight + backup.ends[k] + backup.transitions[own].sum()
            onward = sum(n * table[-1][j] for j, n in zip(backup.target[own], backup.transitions[own], strict=True))
            row.append((backup.prior_weight * prior + backup.outcome[k] + onward) / weight if weight else prior)
        table.append(row)
    return np.array(table)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 40), near=st.sampled_from([1, 3, 40]))
def test_values_are_those_of_the_full_table(seed, size, near):
    rng = np.random.default_rng(seed)
    backup = random_backup(rng, size, turns=int(rng.integers(0, 60)), horizon=int(rng.integers(0, 30)), near=near)  # fmt: skip
    table = tabled(backup)
    left, state = np.divmod(rng.permutation(table.size), size)
    found, final = horizon_values(backup, state, left)
    np.testing.assert_allclose(found, table[left, state], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(final, table[-1], rtol=1e-12, atol=1e-300)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 60), near=st.sampled_from([1, 3, 60]))
def test_the_table_and_the_sweeps_of_changes_agree_to_the_last_bit(seed, size, near):
    rng = np.random.default_rng(seed)
    turns, horizon = int(rng.integers(0, 400)), int(rng.integers(0, 60))
    backup = random_backup(rng, size, turns=turns, horizon=horizon, near=near)
    values = tabulated_values(backup)
    left, state = np.divmod(rng.permutation(values.size), size)
    swept, final = swept_values(backup, state, left)
    np.testing.assert_array_equal(values[left, state], swept)
    np.testing.assert_array_equal(values[-1], final)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("near", [1, 4, 60])
def test_elimination_solves_what_a_dense_solver_solves(seed, near):
    rng = np.random.default_rng(seed)
    backup = random_backup(rng, 700, turns=2500, horizon=0, near=near)
    weight = np.where(backup.weight == 0.0, 1.0, backup.weight)
    matrix = np.zeros((700, 700))
    matrix[backup.source, backup.target] = backup.transitions / weight[backup.source]
    known = np.where(backup.weight == 0.0, backup.prior, (backup.prior_weight * backup.prior + backup.outcome) / weight)
    expected = np.linalg.solve(np.eye(700) - matrix, known)
    np.testing.assert_allclose(stationary_values(backup), expected, rtol=1e-9, atol=1e-12)


def chain(n: int, size: int = 3, *, slips: bool = False) -> Group:
    """Trajectories of n turns that share their first half; with slips, every tenth turn stays in its state."""
    members = []
    for i in range(size):
        keys = [f"{k - k // 10 if slips else k}{'' if 2 * k < n else f'.{i}'}" for k in range(n + 1)]
        turns = tuple(Turn(keys[k], "go", keys[k + 1]) for k in range(n))
        end: StopReason = "success" if i == 0 else "env_limit"
        members.append(Trajectory(f"{i}", "g", "t", turns, i == 0, float(i == 0), end, keys[-1]))
    return Group(tuple(members))


@pytest.mark.parametrize("slips", [False, True])
@pytest.mark.parametrize("options", [*VARIANTS.values(), {**VARIANTS["grouptd_base"], "prior": "none"}])
def test_work_is_linear_in_the_length_of_the_chain(options, slips):
    work = {}
    for n in (200, 2000):
        scheme = GroupTD(**options)
        visited: list[int] = []
        group = chain(n, slips=slips)
        swept_values(scheme.backup(group), group.arrays.state, np.full(len(group.turns), n), visited=visited)
        work[n] = sum(visited)
    # a table of all values grows 100 times; without a prior, the duration of slips varies as the square root of the length
    varies = slips and options.get("prior") == "none"
    assert work[2000] < (45 if varies else 20) * work[200]


def test_memory_is_linear_in_the_length_of_the_chain():
    group = chain(20_000)
    credited = GroupTD().assign(group)
    assert credited.flat_advantages.shape == (60_000,)
    assert credited.diagnostics["values"].shape == (len(group.arrays.states.keys),)

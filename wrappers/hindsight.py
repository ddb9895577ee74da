"""``relabel``: dense rewards in hindsight, for trainers that collect a whole batch before they learn from it.

The potential has already seen the episodes that it shapes. It is one function for all of them, so the sum along every path still
telescopes to −Φ(s_0) and the ranking of policies does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.wrappers.dense_reward import Truncation, check_gamma, make_store
from creditflow.wrappers.feature_potential import FeaturePotentials, FeatureStore, Store, Version, feature_rows
from creditflow.wrappers.potentials import Potentials
from creditflow.wrappers.records.stop_reasons import TRUNCATED
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["Relabel", "relabel"]

Floats = NDArray[np.float64]
Relabel = Callable[[Sequence[Trajectory]], list[Floats]]  # what the hooks of trainers call with each batch


def relabel(
    trajectories: Sequence[Trajectory],
    scheme: str,
    *,
    gamma: float,
    beta: float = 1.0,
    truncation: Truncation = "end",
    store: Store | Version | None = None,
    **parameters: Any,
) -> list[Floats]:
    """The raw reward of every turn plus β (γ Φ(s′) − Φ(s)).

    Args:
        trajectories: full episodes of any tasks, in any order.
        scheme: a name in ``POTENTIALS``, or "features", which reads the recorded observations.
        gamma: γ, the trainer's discount.
        beta: β, scale of the shaping.
        truncation: "end": Φ is 0 where the limit of turns ended the episode; "bootstrap": it is kept.
        store: a store that also remembers earlier batches, and learns this one; or a fixed version; default a new store.
        **parameters: of the store, as in ``DenseReward``, if none is given.

    Returns:
        For every trajectory float64 (T_i,), the reward of each turn.

    Raises:
        ConfigError: a scheme without a potential, or parameters beside a store.
        DataError: a branch, which lacks the turns before it; or an episode without observations for "features".
    """
    check_gamma(gamma)
    if store is not None and parameters:
        raise ConfigError(f"the store has its own parameters: {sorted(parameters)} would have no effect")
    if branches := [member.trajectory_id for member in trajectories if member.parent]:
        raise DataError(f"relabel needs full episodes; {branches[0]!r} is a branch of another one")
    if store is None:
        if scheme != "features":  # the window counts episodes of a task, and all of this batch are seen
            parameters.setdefault("window", max(10, len(trajectories)))
        store = make_store(scheme, gamma=gamma, **parameters)
    ends = truncation == "end"
    if isinstance(store, FeatureStore):
        rows = [store.observe_recorded(member) for member in trajectories]
        values = _fitted(rows, store.publish())
    elif isinstance(store, FeaturePotentials):
        values = _fitted([feature_rows(member, store.size) for member in trajectories], store)
    else:
        by_text = store.parameters.get("key") == "text" if isinstance(store, Potentials) else store.key == "text"
        if not isinstance(store, Potentials):
            for member in trajectories:
                store.observe(member)
            store.publish()
        version = store if isinstance(store, Potentials) else store.snapshot()
        values = [_looked_up(member, version, by_text) for member in trajectories]
    return [_relabelled(member, row, gamma, beta, ends) for member, row in zip(trajectories, values, strict=True)]


def _fitted(rows: Sequence[Sequence[Floats]], version: FeaturePotentials) -> list[list[float | None]]:
    """Φ of every state of each episode, from its features; the last one was not observed."""
    return [[*(version.of(row) for row in episode), None] for episode in rows]


def _looked_up(member: Trajectory, version: Potentials, by_text: bool) -> list[float | None]:
    """Φ of every state of an episode, the last included."""
    keys = [turn.text_key if by_text else turn.state_key for turn in member.turns]
    keys.append(member.final_text_key if by_text else member.final_state_key)
    return [version.of(member.task_id, *keys[max(0, t - version.depth) : t + 1]) for t in range(len(keys))]


def _relabelled(member: Trajectory, values: Sequence[float | None], gamma: float, beta: float, ends: bool) -> Floats:
    """The rewards of an episode whose T + 1 states have these values; an unknown one carries the last that is known."""
    phi, carried = np.zeros(len(values)), 0.0
    for t, value in enumerate(values):
        carried = carried if value is None else value
        phi[t] = carried
    if member.turns and (ends or member.end != TRUNCATED):
        phi[-1] = 0.0
    raw = np.array([turn.reward for turn in member.turns], np.float64)
    return np.asarray(raw + beta * (gamma * phi[1:] - phi[:-1]))

"""State potentials learned from recorded groups, published as immutable versions.

A potential that changes in the middle of an episode breaks the sum that makes shaping harmless, and a store that depends
on which worker finished first makes runs impossible to repeat. Groups are therefore collected, and become a new version
only when somebody says so, whatever order they came in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.wrappers.credit.registry import make
from creditflow.wrappers.credit.states.graphgpo import GraphGPO
from creditflow.wrappers.credit.states.grouptd import GroupTD
from creditflow.wrappers.credit.states.rewardflow import RewardFlow
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group

__all__ = ["POTENTIALS", "PotentialStore", "Potentials"]


@dataclass(frozen=True, slots=True)
class Potentials:
    """One version of Φ.

    Attributes:
        version: rises with every change.
        values: Φ by task id, then by state key.
        goal: Φ of a success, which only unrefunded ("paper") shaping ever pays.
    """

    version: int = 0
    values: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    goal: float = 0.0

    def of(self, task_id: str, key: str) -> float | None:
        """Φ of a state; None if the task or the state is unknown."""
        return self.values.get(task_id, {}).get(key)


class PotentialStore:
    """Collects groups; makes potentials of them.

    Args:
        scheme: "rewardflow" (γ^d, d the fewest hops to a success), "graphgpo" (R_succ γ_d^d, d by cost), or "grouptd"
            (the stationary value of the state to the policy that made the rollouts).
        keep: most recent groups of each task that count. Within one version the order in which they came is idle.
        **parameters: of the scheme.

    Raises:
        ConfigError: a scheme without potential, a wrong parameter, merged states, or ``keep`` < 1.
    """

    def __init__(self, scheme: str, *, keep: int = 8, **parameters: Any) -> None:
        if scheme not in POTENTIALS:
            raise unknown_name_error("scheme with a potential", scheme, POTENTIALS)
        if keep < 1:
            raise ConfigError(f"keep must be ≥ 1, got {short_repr(keep)}")
        if scheme == "grouptd" and parameters.setdefault("form", "stationary") != "stationary":
            raise ConfigError("a potential is a function of the state alone: grouptd needs form='stationary'")
        self.keep = keep
        made = make(scheme, **parameters)
        if getattr(made, "merge", "none") != "none":
            raise ConfigError(
                f"a potential is looked up by the key of a state that may be new: {scheme} cannot merge similar ones "
                "there; use merge='none', and CanonicalState to make keys of texts that mean the same"
            )
        self._potential, self._goal = POTENTIALS[scheme](made)
        self._pending: list[Group] = []
        self._groups: dict[str, list[Group]] = {}
        self._current = Potentials()

    def add(self, groups: Iterable[Group]) -> None:
        """Collect groups for the next version."""
        self._pending += groups

    def publish(self) -> Potentials:
        """Make the next version from everything collected; tasks without new groups keep their values."""
        if not self._pending:
            return self._current
        values = dict(self._current.values)
        fresh: dict[str, list[Group]] = {}
        for group in sorted(self._pending, key=lambda g: (g.task_id, g.group_id)):
            fresh.setdefault(group.task_id, []).append(group)
        for task, groups in fresh.items():
            self._groups[task] = [*self._groups.get(task, []), *groups][-max(self.keep, len(groups)) :]
            values[task] = MappingProxyType(self._values(self._groups[task]))
        self._pending = []
        self._current = Potentials(self._current.version + 1, MappingProxyType(values), self._goal)
        return self._current

    def snapshot(self) -> Potentials:
        """The version that was published last."""
        return self._current

    def _values(self, groups: list[Group]) -> dict[str, float]:
        """Φ of the states of one task, over all its groups together; {} as long as nobody succeeded."""
        merged = _merged(groups)
        if not merged.arrays.success.any():
            return {}
        keys, values = self._potential(merged)
        return {key: value for key, value in zip(keys, values.tolist(), strict=True) if math.isfinite(value)}


def _merged(groups: list[Group]) -> Group:
    """One group of all rollouts of a task."""
    task = groups[0].task_id
    members = [
        replace(m, group_id=task, trajectory_id=f"{n}/{m.trajectory_id}", parent=f"{n}/{m.parent}" if m.parent else "")
        for n, group in enumerate(groups)
        for m in group.trajectories
    ]
    return Group(tuple(members), groups[0].task)


Named = tuple[tuple[str, ...], NDArray[np.float64]]
Maker = Callable[[Any], tuple[Callable[[Group], Named], float]]


def _open_nodes(graph: StateGraph, values: NDArray[np.float64]) -> Named:
    """Values of states that can be acted in; ends have no potential of their own."""
    acted = graph.kind == 0
    return tuple(key for key, yes in zip(graph.keys, acted.tolist(), strict=True) if yes), values[acted]


def _rewardflow(scheme: RewardFlow) -> tuple[Callable[[Group], Named], float]:
    def potential(group: Group) -> Named:
        still = group.arrays.states.state == group.arrays.states.next_state
        graph = StateGraph.from_group(group, key=scheme.key, kept=~still & group.arrays.valid)
        hops = graph.distances("hops")
        known = np.isfinite(hops)
        return _open_nodes(graph, np.where(known, scheme.discount ** np.where(known, hops, 0.0), 0.0))

    return potential, 1.0


def _graphgpo(scheme: GraphGPO) -> tuple[Callable[[Group], Named], float]:
    def potential(group: Group) -> Named:
        graph = StateGraph.from_group(group, key=scheme.key)
        distance = graph.distances()
        known = np.isfinite(distance)
        worth = scheme.success_reward * scheme.distance_discount ** np.where(known, distance, 0.0)
        return _open_nodes(graph, np.where(known, worth, 0.0))

    return potential, scheme.success_reward


def _grouptd(scheme: GroupTD) -> tuple[Callable[[Group], Named], float]:
    def potential(group: Group) -> Named:
        found = scheme.assign(group).diagnostics
        acted = np.unique(group.states(scheme.key).state)
        return tuple(found["node_keys"][i] for i in acted.tolist()), np.asarray(found["values"][acted])

    return potential, 1.0


POTENTIALS: Mapping[str, Maker] = MappingProxyType(
    {"rewardflow": _rewardflow, "graphgpo": _graphgpo, "grouptd": _grouptd}
)

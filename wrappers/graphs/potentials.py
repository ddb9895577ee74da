"""State potentials learned from recorded groups, published as immutable versions.

If a potential changes within an episode, its shaping terms do not telescope; if it depends on which worker finishes
first, runs are not reproducible. Groups are therefore collected and become a new version only on ``publish()``,
independent of the order of collection.
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
from creditflow.wrappers.credit.states.rewardflow.scheme import RewardFlow
from creditflow.wrappers.graphs.state_graph import StateGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import OPEN

__all__ = ["EFFECTIVE", "POTENTIALS", "PotentialStore", "Potentials", "require_effect"]


@dataclass(frozen=True, slots=True)
class Potentials:
    """One version of Φ.

    Attributes:
        version: number that increases with every change.
        values: Φ by task id, then by state key.
        goal: Φ of a success, used only with ``terminal="paper"``.
    """

    version: int = 0
    values: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: MappingProxyType({}))
    goal: float = 0.0

    def of(self, task_id: str, key: str) -> float | None:
        """Return Φ of a state; None if the task or the state is unknown."""
        return self.values.get(task_id, {}).get(key)


class PotentialStore:
    """Store that collects groups and computes potentials from them.

    Args:
        scheme: "rewardflow" (γ^d, d hops to a success), "graphgpo" (R_succ γ_d^d, d by cost), or "grouptd" (the
            stationary value of the state under the sampling policy).
        keep: number of most recent groups per task that are used; more if one version adds more. The order in which the
            groups of one version were added has no effect.
        **parameters: parameters of the scheme on which its potential depends: those in ``EFFECTIVE``.

    Raises:
        ConfigError: a scheme without potential, an invalid parameter, one on which the potential does not depend, merged
            states, or ``keep`` < 1.
    """

    def __init__(self, scheme: str, *, keep: int = 8, **parameters: Any) -> None:
        if scheme not in POTENTIALS:
            raise unknown_name_error("scheme with a potential", scheme, POTENTIALS)
        if keep < 1:
            raise ConfigError(f"keep must be ≥ 1, got {short_repr(keep)}")
        if scheme == "grouptd" and parameters.setdefault("form", "stationary") != "stationary":
            raise ConfigError("a potential is a function of the state alone: grouptd needs form='stationary'")
        self.keep = keep
        instance = make(scheme, **{**FIXED.get(scheme, {}), **parameters})
        if getattr(instance, "merge", "none") != "none":
            raise ConfigError(
                f"a potential is looked up by state keys, some of which are new: {scheme} cannot merge similar states "
                "here; use merge='none', and CanonicalState to give equivalent texts one key"
            )
        require_effect(scheme, parameters, EFFECTIVE[scheme])
        self._potential, self._goal = POTENTIALS[scheme](instance)
        self._pending: list[Group] = []
        self._groups: dict[str, list[Group]] = {}
        self._current = Potentials()

    def add(self, groups: Iterable[Group]) -> None:
        """Collect groups for the next version."""
        self._pending += groups

    def publish(self) -> Potentials:
        """Compute the next version from all collected groups; tasks without new groups keep their values."""
        if not self._pending:
            return self._current
        values = dict(self._current.values)
        new: dict[str, list[Group]] = {}
        for group in sorted(self._pending, key=lambda g: (g.task_id, g.group_id)):
            new.setdefault(group.task_id, []).append(group)
        for task, groups in new.items():
            self._groups[task] = [*self._groups.get(task, []), *groups][-max(self.keep, len(groups)) :]
            values[task] = MappingProxyType(self._values(self._groups[task]))
        self._pending = []
        self._current = Potentials(self._current.version + 1, MappingProxyType(values), self._goal)
        return self._current

    def snapshot(self) -> Potentials:
        """Return the version that was published last."""
        return self._current

    def _values(self, groups: list[Group]) -> dict[str, float]:
        """Compute Φ of the states of one task from all its groups; {} without a success."""
        merged = _merged(groups)
        if not merged.arrays.success.any():
            return {}
        keys, values = self._potential(merged)
        return {key: value for key, value in zip(keys, values.tolist(), strict=True) if math.isfinite(value)}


def require_effect(scheme: str, parameters: Iterable[str], effective: Iterable[str]) -> None:
    """Reject parameters of a scheme on which its potential does not depend.

    Raises:
        ConfigError: there are such parameters; the message names them, and those on which the potential depends.
    """
    without = sorted(set(parameters) - set(effective))
    if without:
        raise ConfigError(
            f"the potential of {scheme} does not depend on {', '.join(without)}; remove what has no effect; it depends on "
            f"{', '.join(sorted(effective))}"
        )


def _merged(groups: list[Group]) -> Group:
    """Merge the groups of a task into one."""
    task = groups[0].task_id
    members = [
        replace(m, group_id=task, trajectory_id=f"{n}/{m.trajectory_id}", parent=f"{n}/{m.parent}" if m.parent else "")
        for n, group in enumerate(groups)
        for m in group.trajectories
    ]
    return Group(tuple(members), groups[0].task)


KeyedValues = tuple[tuple[str, ...], NDArray[np.float64]]
PotentialFactory = Callable[[Any], tuple[Callable[[Group], KeyedValues], float]]


def _open_nodes(graph: StateGraph, values: NDArray[np.float64]) -> KeyedValues:
    """Select the values of open nodes; terminal nodes have no potential of their own."""
    is_open = graph.kind == OPEN
    return tuple(key for key, yes in zip(graph.keys, is_open.tolist(), strict=True) if yes), values[is_open]


def _discounted(
    graph: StateGraph, distance: NDArray[np.float64], success_reward: float, discount: float
) -> KeyedValues:
    """The reward of success, discounted by the distance to it; 0 where success cannot be reached."""
    known = np.isfinite(distance)
    return _open_nodes(graph, np.where(known, success_reward * discount ** np.where(known, distance, 0.0), 0.0))


def _rewardflow(scheme: RewardFlow) -> tuple[Callable[[Group], KeyedValues], float]:
    def potential(group: Group) -> KeyedValues:
        graph = StateGraph.from_group(group, key=scheme.key)
        graph = replace(graph, kept=(graph.source != graph.target) & group.arrays.valid)
        return _discounted(graph, graph.distances("hops"), 1.0, scheme.discount)

    return potential, 1.0


def _graphgpo(scheme: GraphGPO) -> tuple[Callable[[Group], KeyedValues], float]:
    def potential(group: Group) -> KeyedValues:
        graph = StateGraph.from_group(group, key=scheme.key)
        return _discounted(graph, graph.distances(), scheme.success_reward, scheme.distance_discount)

    return potential, scheme.success_reward


def _grouptd(scheme: GroupTD) -> tuple[Callable[[Group], KeyedValues], float]:
    def potential(group: Group) -> KeyedValues:
        diagnostics = scheme.assign(group).diagnostics
        visited = np.unique(group.states(scheme.key).state)
        return tuple(diagnostics["node_keys"][i] for i in visited.tolist()), np.asarray(diagnostics["values"][visited])

    return potential, 1.0


POTENTIALS: Mapping[str, PotentialFactory] = MappingProxyType(
    {"rewardflow": _rewardflow, "graphgpo": _graphgpo, "grouptd": _grouptd}
)
# parameters without effect on the potential, some of whose values would restrict others
FIXED: Mapping[str, Mapping[str, Any]] = MappingProxyType({"grouptd": {"divide_by_success": False}})
# parameters of each scheme on which its potential depends; ``form`` and ``merge`` have one permitted value
EFFECTIVE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rewardflow": ("discount", "key", "merge"),
        "graphgpo": ("distance_discount", "key", "merge", "success_reward"),
        "grouptd": ("discount", "form", "key", "merge", "outcome", "pooled_weight", "prior", "prior_weight"),
    }
)

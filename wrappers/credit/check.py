"""``check_credit``: property tests of a credit scheme on random groups.

The contract of all schemes (purity, shapes, finite numbers) is always required. A property that the scheme *declares*
must be true on every sampled group, otherwise ``SchemeContractError`` is raised. For every other property the report
contains the first counterexample found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from creditflow.envs.errors import unknown_name_error
from creditflow.wrappers.credit.base import Scheme, SchemeContractError
from creditflow.wrappers.credit.properties import PROPERTIES, sample_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["PROPERTIES", "CheckReport", "check_credit"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Result of ``check_credit``.

    Attributes:
        scheme: name of the scheme.
        declared: properties that the scheme declares (all of them passed).
        counterexamples: the first counterexample to each property that fails.
    """

    scheme: str
    declared: frozenset[str]
    counterexamples: dict[str, str]

    def holds(self, name: str) -> bool:
        """Return whether no counterexample to the property was found."""
        if name not in PROPERTIES:
            raise unknown_name_error("property", name, PROPERTIES)
        return name not in self.counterexamples

    def __str__(self) -> str:
        lines = [f"check_credit({self.scheme})"]
        for name, check in PROPERTIES.items():
            rule = (check.__doc__ or "").splitlines()[0]
            result = "holds" if self.holds(name) else "fails"
            if name in self.declared:
                result = "declared"
            lines.append(f"  {name:20} {result:9} {rule}")
            if name in self.counterexamples:
                lines.append(f"{'':32} {self.counterexamples[name]}")
        return "\n".join(lines)


def _check_contract(scheme: Scheme, rng: np.random.Generator) -> None:
    group = sample_group(scheme, rng, dense=True, unit_costs=False)
    _check_one(scheme, group)
    # corner cases of real logs: a trajectory that ended before its first turn, a group of one
    first = group.trajectories[0]
    start = first.turns[0].state_key
    empty = Trajectory("empty", first.group_id, first.task_id, (), False, 0.0, "env_error", start)
    _check_one(scheme, Group((*group.trajectories, empty), group.task))
    _check_one(scheme, Group((first,), group.task))
    groups = [group, Group((empty,), group.task), Group((first,), group.task)]
    scheme.assign_batch(groups)


def _check_one(scheme: Scheme, group: Group) -> None:
    """Check that equal groups get equal credit. Types, shapes and numbers are checked wherever a scheme assigns credit."""
    first, second = scheme.assign(group), scheme.assign(group)
    for name in ("outcome_advantages", "flat_step_rewards", "flat_step_advantages", "flat_loss_mask"):
        if not np.array_equal(getattr(first, name), getattr(second, name)):
            raise SchemeContractError(f"{scheme.name}: assign must be pure: {name} differed on a second call")
    [in_batch] = scheme.assign_batch([group])
    if not np.array_equal(in_batch.flat_advantages, first.flat_advantages):
        raise SchemeContractError(f"{scheme.name}: assign_batch of one group must equal assign")


def check_credit(scheme: Scheme, *, draws: int = 60, seed: int = 0) -> CheckReport:
    """Check the contract and all properties on random groups.

    Args:
        scheme: scheme with the parameters to check.
        draws: number of random groups per property.
        seed: random seed of the groups.

    Raises:
        SchemeContractError: the contract or a declared property does not hold. The message contains the counterexample.
    """
    unknown = scheme.checked_properties - set(PROPERTIES)
    if unknown:
        raise unknown_name_error("property", sorted(unknown)[0], PROPERTIES)
    for draw in range(draws):
        _check_contract(scheme, np.random.default_rng([seed, draw]))
    counterexamples: dict[str, str] = {}
    for name, check in PROPERTIES.items():
        for draw in range(draws):
            counterexample = check(scheme, np.random.default_rng([seed, draw]))
            if counterexample:
                counterexamples[name] = counterexample
                break
    broken = sorted(scheme.checked_properties & set(counterexamples))
    if broken:
        raise SchemeContractError(f"{scheme.name} declares {broken[0]!r} but: {counterexamples[broken[0]]}")
    return CheckReport(scheme.name, scheme.checked_properties, counterexamples)

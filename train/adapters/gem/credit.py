"""Credit of episodes that a GEM loop played in our environments: from the records in their infos. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.gem.infos import PREVIOUS
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import FIELD, Played, assign_turns, make_group, read_record
from creditflow.wrappers.records.group import Group

__all__ = ["assign_infos", "groups_of"]


def groups_of(
    infos: Sequence[Mapping[str, Any]], names: Sequence[str] = ()
) -> tuple[list[Group], list[tuple[int, int]]]:
    """The groups of finished episodes, in order of first appearance.

    Args:
        infos: per episode the info of its last step, or that of the reset after it, where a vector environment
            resets by itself (``SAME_STEP``) and keeps only the latter.
        names: the group of each episode; default its task, so that all episodes of a task are one group.

    Returns:
        The groups, and for every info its group and its place in it.

    Raises:
        TrajectoryError: an info without a record, a group of one, episodes of several tasks in one group, or another
            number of names than infos.
    """
    if names and len(names) != len(infos):
        raise TrajectoryError(f"{len(infos)} infos need as many names of groups, got {len(names)}")
    members: dict[str, list[Played]] = {}
    places = []
    for i, info in enumerate(infos):
        record = info.get(FIELD, info.get(PREVIOUS + FIELD))
        played = read_record(record, f"episode {i}")
        name = names[i] if names else played[0].task_id
        places.append((name, len(members.setdefault(name, []))))
        members[name].append(played)
    number = {name: g for g, name in enumerate(members)}
    return [make_group(name, played) for name, played in members.items()], [(number[name], k) for name, k in places]


def assign_infos(
    infos: Sequence[Mapping[str, Any]], scheme: Scheme, names: Sequence[str] = ()
) -> list[NDArray[np.float64]]:
    """For every episode float64 (T_i,), its advantages per turn; arguments and errors of ``groups_of``.

    Raises:
        ConfigError: a scheme that reads annotations, credits tokens or learns a critic.
    """
    groups, places = groups_of(infos, names)
    assigned = assign_turns(groups, scheme)
    return [assigned[group][member] for group, member in places]

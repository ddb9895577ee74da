"""The groups that SkyRL's rows record, for comparison with our own logs of the same episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from creditflow.wrappers.credit.bridge import FIELD, Played, make_group, read_record
from creditflow.wrappers.records.group import Group

__all__ = ["groups_of"]


def groups_of(output: Mapping[str, Any]) -> list[Group]:
    """The groups of a generator's output with trajectory ids, in the order in which they first appear."""
    members: dict[str, list[Played]] = {}
    for identity, metrics in zip(output["trajectory_ids"], output["env_metrics"], strict=True):
        members.setdefault(str(identity.instance_id), []).append(read_record(metrics[FIELD], identity.to_string()))
    return [make_group(name, played) for name, played in members.items()]

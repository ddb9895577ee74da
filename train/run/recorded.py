"""How a log was played, from the identities of its runs: the environment with its arguments, the agent, its options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.registration import default_arguments
from creditflow.train.rollout.running import RUN
from creditflow.wrappers.records.group import Group

__all__ = ["as_recorded", "recorded_run"]

FIELDS: Final[dict[str, type]] = {"env": dict, "agent": dict, "model": dict, "invalid_actions": str}


def recorded_run(groups: Sequence[Group]) -> dict[str, Any]:
    """What all runs of a log have in common of their environment, agent, options of its model, and policy for invalid actions.

    Raises:
        DataError: the identity of a run is none.
    """
    runs = _runs(groups)
    common: dict[str, Any] = {}
    for name, kind in FIELDS.items():
        values = [run.get(name) for run in runs]
        if values and isinstance(values[0], kind) and all(value == values[0] for value in values):
            common[name] = values[0]
    return common


def _runs(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The distinct identities in a log."""
    texts = {member.provenance.get(RUN, "") for group in groups for member in group.trajectories} - {""}
    runs = [parse_json(text, where="the identity of the run in the log") for text in sorted(texts)]
    for run in runs:
        if not isinstance(run, dict):
            raise DataError(f"the identity of the run in the log must be an object, got {short_repr(run)}")
    return runs


def as_recorded(groups: Sequence[Group], env: str, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the environment that a log was recorded with, and those given beside them; files and tasks may be others.

    Raises:
        ConfigError: a given argument contradicts a recorded one, or the log was recorded in another environment, or in several ways:
            values of another problem would not belong to the log.
    """
    runs = [run.get("env") for run in _runs(groups)]
    recorded = {json.dumps(run, sort_keys=True): run for run in runs if isinstance(run, dict) and "options" in run}
    if not recorded:
        return given
    if len(recorded) > 1:
        raise ConfigError(
            f"the log was recorded in {len(recorded)} environments or with different arguments of one, such as "
            f"{', '.join(short_repr(text, 120) for text in list(recorded)[:2])}: annotate the parts by themselves"
        )
    [run] = recorded.values()
    if run.get("id") != env:
        raise ConfigError(f"the log was recorded in {run.get('id')}, and --env names {env}")
    played = {**default_arguments(env), **run["options"]}
    for name, value in given.items():
        other = played.get(name, value)
        elsewhere = isinstance(value, str) and (name == "panel" or Path(value).exists())
        if value != other and not elsewhere:
            raise ConfigError(
                f"the log was recorded with {name}={other}, and --env-set gives {name}={value}: values under another one do not "
                "belong to it; leave it out"
            )
    return {**run["options"], **given}

"""verl-agent's dumps of rollouts: ``trainer.rollout_data_dir``, one row for every step of an environment.

Its own row has ``input``, ``output``, ``score`` and ``step`` (the training step), and nothing that says which rollout it belongs
to. One line in its trainer, before ``_dump_generations``, adds that (read at commit d0b9724)::

    reward_extra_infos_dict |= {k: batch.non_tensor_batch[k].tolist() for k in ("uid", "traj_uid", "anchor_obs", "rewards",
                                                                                "is_action_valid")}

``traj_uid`` is needed; ``uid`` names the group; ``anchor_obs`` is the observation (else the whole prompt is); ``rewards`` the
step's reward; ``turn`` (a number) the order, without which rows stand in the order of time. Rows that the trainer copied to fill
a batch are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from creditflow.envs.errors import short_repr
from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings
from creditflow.train.adapters.logs.messages import split_thought
from creditflow.train.adapters.logs.rows import (
    MISSING,
    Row,
    RowError,
    Rows,
    Tally,
    at_path,
    each_row,
    key_of,
    number,
    own_name,
    text,
)

__all__ = ["verl_agent_episodes"]

_ACTION: Final = re.compile(r"<action>([^<]*)</action>")


def verl_agent_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a dump, in order of first appearance; all rows are read first."""
    rollouts: dict[str, tuple[str, Row]] = {}
    for name, where, row in each_row(rows, tally, lambda where, row: (_rollout(row, settings), where, row)):
        rollouts.setdefault(name, (where, {"rows": []}))[1]["rows"].append(row)
    return each_row(rollouts.values(), tally, lambda where, row: _episode(where, row["rows"], settings, tally))


def _rollout(row: Row, settings: ImportSettings) -> str:
    """What names the rollout of a row; its needed fields are checked."""
    name = row.get("traj_uid", MISSING)
    if not isinstance(name, str | int):
        raise RowError("there is no traj_uid, so its rollout is unknown (one line in the trainer adds it: DATA.md)")
    for field in ("input", "output"):
        text(row, field)
    number(at_path(row, settings.reward or "score"), "score")
    return key_of([row.get("step"), name])


def _episode(where: str, rows: list[Row], settings: ImportSettings, tally: Tally) -> Episode:
    ordered = _ordered(rows, tally)
    scores = [number(at_path(row, settings.reward or "score"), "score") for row in ordered]
    tally.note(
        "rows of a rollout have different scores (the trainer's penalty of invalid actions); the largest is taken",
        int(min(scores) != max(scores)),
    )
    group = ordered[0].get("uid")
    turns = tuple(map(_turn, ordered))
    reward = max(scores)
    # the prompt names the task only as far as it is shown; groups are compared by uid
    task = turns[0].observation if group is None else ["uid", group]
    return Episode(
        where, task, [ordered[0].get("step"), group], turns, reward, ordered[0], id=own_name(ordered[0]["traj_uid"])
    )


def _ordered(rows: list[Row], tally: Tally) -> list[Row]:
    """The rows by ``turn`` if they have it, without copies."""
    numbered = [row.get("turn") for row in rows]
    if all(type(turn) is int for turn in numbered):
        rows = sorted(rows, key=lambda row: row["turn"])
    elif any(turn is not None for turn in numbered):
        raise RowError("not every row of a rollout has a whole number under 'turn'", short_repr(numbered))
    seen, distinct = set[str](), list[Row]()
    for row in rows:
        name = key_of([row])  # a copy is equal in every field; genuine turns may have equal prompts and outputs
        if name not in seen:
            distinct.append(row)
        seen.add(name)
    tally.note("copied rows dropped", len(rows) - len(distinct))
    return distinct


def _turn(row: Row) -> Exchange:
    output = row["output"]
    anchor = row.get("anchor_obs")
    observation = row["input"] if anchor is None else anchor if isinstance(anchor, str) else key_of(anchor)
    thought, rest = split_thought(output)
    recorded = row.get("text_actions")
    tagged = _ACTION.findall(rest)
    action = recorded if isinstance(recorded, str) else tagged[-1].strip() if tagged else rest
    valid: Any = row.get("is_action_valid", True)
    reward = row.get("rewards", 0.0)
    return Exchange(
        observation,
        output,
        action,
        thought,
        parsed=bool(number(valid, "is_action_valid")),
        reward=number(reward, "rewards"),
        fields=row,
    )

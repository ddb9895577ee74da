"""Plain messages: one line an episode, with the messages of OpenAI's API, a reward, and the names that the user gave.

A row has ``messages`` (roles, contents, tool calls), ``reward`` (a number, or a list with one for each message of the model), and
perhaps ``id``, ``task_id``, ``group_id`` and ``done``; ``--messages``, ``--reward``, ``--id``, ``--group`` and ``--done`` name other
fields. Ids are kept as given. Without ``task_id`` the task is the group, and without either the messages before the model's first.

``done`` is true for an episode that ended by itself, and false for one that a limit cut: such an end says nothing about the state in
which it happened. Words that trainers and servers write are understood too (``ENDS``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from creditflow.envs.errors import short_repr
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings, Limit
from creditflow.train.adapters.logs.messages import observed, turns_of
from creditflow.train.adapters.logs.rows import (
    MISSING,
    Row,
    RowError,
    Rows,
    Tally,
    at_path,
    each_row,
    given_name,
    number,
    own_name,
)

__all__ = ["ENDS", "message_episodes"]

ENDS: Final[Mapping[str, Limit]] = {
    **dict.fromkeys(("done", "stop", "success", "failed", "terminated", "completed", "end_turn"), ""),
    **dict.fromkeys(("truncated", "max_turns", "max_steps", "turn_limit", "env_limit", "tool_limit", "timeout"), "env_limit"),
    **dict.fromkeys(("length", "max_tokens", "token_limit", "context_length"), "token_limit"),
    **dict.fromkeys(("error", "env_error"), "env_error"),
}  # fmt: skip
UNKNOWN_ENDS: Final = (
    "rollouts of which the file does not say how they ended count as ended by themselves; if limits cut some, name the "
    "field that says so: --done FIELD"
)


def message_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes of a file of messages."""
    return each_row(rows, tally, lambda where, row: _episode(where, row, settings, tally))


def _episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    messages = _messages(row, settings.messages or "messages")
    turns, after = turns_of(messages)
    reward, turns = _rewarded(row, settings.reward or "reward", turns)
    group, task = at_path(row, settings.group or "group_id"), own_name(row.get("task_id"))
    first = next(i for i, message in enumerate(messages) if message["role"] == "assistant")
    if group is MISSING:
        group = None
    if not task and group is not None:
        task = given_name(group)
    return Episode(
        where, observed(messages[:first]).text, group, tuple(turns), reward, row, None if after is None else after.text,
        _limit(row, settings.done, tally), id=own_name(row.get("id")), task_id=task,
    )  # fmt: skip


def _messages(row: Row, field: str) -> list[Any]:
    messages = at_path(row, field)
    if isinstance(messages, list):
        return messages
    lists = [name for name, value in row.items() if isinstance(value, list) and value and isinstance(value[0], Mapping)]
    way = f"; name the field with --messages {lists[0]}" if lists else ""
    what = "missing" if messages is MISSING else short_repr(messages)
    raise RowError(
        f"there is no list of messages under {field!r}{way}", f"{what}; keys: {short_repr(sorted(row), 200)}"
    )


def _rewarded(row: Row, field: str, turns: list[Exchange]) -> tuple[float, list[Exchange]]:
    """The outcome, and the turns with rewards of their own if the field lists them."""
    value = at_path(row, field)
    if not isinstance(value, list):
        return number(value, field), turns
    if len(value) != len(turns):
        raise RowError(f"{field!r} has not one reward for each message of the model", f"{len(value)} for {len(turns)}")
    rewards = [number(reward, field) for reward in value]
    return sum_in_order(rewards), [
        replace(turn, reward=turn_reward) for turn, turn_reward in zip(turns, rewards, strict=True)
    ]


def _limit(row: Row, field: str, tally: Tally) -> Limit:
    value = at_path(row, field or "done")
    if value is MISSING or value is None:
        if field:
            raise RowError(f"there is no end under {field!r}")
        tally.note(UNKNOWN_ENDS)
        return ""
    if isinstance(value, str) and value.lower() in ENDS:
        return ENDS[value.lower()]
    if value in (True, False):
        return "" if value else "env_limit"
    raise RowError(f"{field or 'done'!r} is neither true, false nor one of {', '.join(ENDS)}", short_repr(value))

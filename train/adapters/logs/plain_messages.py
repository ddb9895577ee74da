"""Conversations: one line an episode, with its messages in any known spelling, a reward, and the names that the user gave.

A row has a list of messages (under ``messages``, or another of ``LISTS``), ``reward`` (a number, or a list with one for each turn or
message of the model), and perhaps ``id``, ``task_id``, ``group_id`` and ``done``; ``--messages``, ``--reward``, ``--id``, ``--group``
and ``--done`` name other fields. Ids are kept as given. Without ``task_id`` the task is the group, and without either the messages
before the model's first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.ends import end_of
from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings
from creditflow.train.adapters.logs.messages import as_messages, turns_of
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

__all__ = ["LISTS", "message_episodes"]

LISTS: Final = ("messages", "conversations", "conversation", "traj", "history", "items", "input")


def message_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes of a file of messages."""
    return each_row(rows, tally, lambda where, row: _episode(where, row, settings, tally))


def _episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    messages = _messages(row, settings.messages)
    turns, after = turns_of(messages)
    reward, turns = _rewarded(row, settings.reward or "reward", turns)
    group, task = at_path(row, settings.group or "group_id"), own_name(row.get("task_id"))
    if group is MISSING:
        group = None
    if not task and group is not None:
        task = given_name(group)
    return Episode(
        where, turns[0].observation, group, tuple(turns), reward, row, None if after is None else after.text,
        end_of(row, settings.done, tally), id=own_name(row.get("id")), task_id=task, messages=as_messages(messages),
    )  # fmt: skip


def _messages(row: Row, field: str) -> list[Any]:
    for name in [field] if field else LISTS:
        messages = at_path(row, name)
        if isinstance(messages, str) and messages.lstrip()[:1] == "[":  # as tables of texts keep lists
            with suppress(DataError):
                messages = parse_json(messages, where=name)
        if isinstance(messages, list):
            return messages
    lists = [name for name, value in row.items() if isinstance(value, list) and value and isinstance(value[0], Mapping)]
    way = f"; name the field with --messages {lists[0]}" if lists else ""
    raise RowError(
        f"there is no list of messages under {field or LISTS[0]!r}{way}", f"keys: {short_repr(sorted(row), 200)}"
    )


def _rewarded(row: Row, field: str, turns: list[Exchange]) -> tuple[float, list[Exchange]]:
    """The outcome, and the turns with rewards of their own if the field lists them."""
    value = at_path(row, field)
    if value is MISSING:
        numbers = [
            name for name, other in row.items() if isinstance(other, int | float) and not isinstance(other, bool)
        ]
        way = f"; name the field with --reward, such as {numbers[0]}" if numbers else ""
        raise RowError(f"there is no reward under {field!r}{way}", f"keys: {short_repr(sorted(row), 200)}")
    if not isinstance(value, list):
        return number(value, field), turns
    rewards = [number(reward, field) for reward in value]
    if len(rewards) == sum(turn.messages for turn in turns):
        remaining = iter(rewards)
        rewards = [sum_in_order(next(remaining) for _ in range(turn.messages)) for turn in turns]
    elif len(rewards) != len(turns):
        raise RowError(f"{field!r} has not one reward for each turn of the model", f"{len(rewards)} for {len(turns)}")
    return sum_in_order(rewards), [
        replace(turn, reward=turn_reward) for turn, turn_reward in zip(turns, rewards, strict=True)
    ]

"""OpenEnv's collected episodes: ``openenv collect`` and ``RolloutSerializer`` write results.jsonl.

A row has ``episode_id``, ``messages``, ``reward``, ``done``, ``tool_trace`` (name, arguments and result of every tool call),
``verify_metrics``, ``task`` and ``extra``. A state key may stand in the results of tools, as ``metadata.state``: that of the
last tool which a turn called names the state after it. Tokens are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings
from creditflow.train.adapters.logs.messages import observed, turns_of
from creditflow.train.adapters.logs.rows import Row, RowError, Rows, Tally, at_path, each_row, number, own_name

__all__ = ["openenv_episodes"]


def openenv_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes of a collection."""
    return each_row(rows, tally, lambda where, row: _episode(where, row, settings))


def _episode(where: str, row: Row, settings: ImportSettings) -> Episode:
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise RowError("there is no list under 'messages'")
    name = settings.reward or "reward"
    reward = number(at_path(row, name), name)
    turns, after = turns_of(messages)
    first = next(i for i, message in enumerate(messages) if message["role"] == "assistant")
    task = row.get("task")
    if task is None:
        task = observed(messages[:first]).text
    return Episode(
        where, task, "", tuple(_with_results(turns, _calls_run(messages), row.get("tool_trace"))), reward, row,
        None if after is None else after.text, "" if row.get("done", True) is True else "env_limit",
        id=own_name(row.get("episode_id")),
    )  # fmt: skip


def _calls_run(messages: Sequence[Any]) -> list[int]:
    """How many tools ran after each message of the model; calls after the end, or beyond a limit, do not run."""
    counts = list[int]()
    for message in messages:
        if message["role"] == "assistant":
            counts.append(0)
        elif message["role"] == "tool" and counts:
            counts[-1] += 1
    return counts


def _with_results(turns: list[Exchange], counts: Sequence[int], trace: Any) -> list[Exchange]:
    """The turns with the result of the last tool that each called, and its reward."""
    entries = trace if isinstance(trace, list) else []
    if sum(counts) != len(entries):  # unknown which result belongs to which turn
        return turns
    out, at = [], 0
    for turn, count in zip(turns, counts, strict=True):
        at += count
        entry = entries[at - 1] if count else {}
        result = entry.get("result") if isinstance(entry, Mapping) else None
        out.append(replace(turn, after=result if isinstance(result, Mapping) else {}, reward=_reward(result)))
    return out


def _reward(result: Any) -> float:
    """The reward in a tool's metadata, else in its data, as OpenEnv looks it up; 0 if there is none."""
    for path in ("metadata.reward", "data.reward"):
        value = at_path(result, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return number(value, "reward")
    return 0.0

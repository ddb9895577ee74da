"""Importing a log: the library's reader, its groups, and the report of what was left out.

The formats of one table each are read here; ``plain_messages`` and ``verifiers`` read theirs. Every reader yields episodes.

**TRL**: ``log_completions=True`` writes completions/completions_STEP.parquet, and W&B's table beside it.
A row has ``step``, ``prompt`` and ``completion`` (texts, or lists of messages), one column for each reward function, columns that
reward functions log, and ``advantage``. Which columns are rewards, and their weights, is not in the file: by default
all columns of numbers count, with weight 1 (``reward="a,b*0.5"`` names them). A rollout without any reward is left out, as TRL's
own baseline does.

**verl**: dumps of rollouts and of validation, ``trainer.rollout_data_dir`` and ``trainer.validation_data_dir``, STEP.jsonl.
A row has ``input`` and ``output`` (decoded without special tokens), ``score``, ``step``, perhaps ``gts``, and what the reward
function returns; the trainer of ``verl/trainer/ppo/v1`` adds ``uid``, "SAMPLE_ROLLOUT_OUTPUT". Messages and tokens are not in
the file: turns are cut out of the text (``text_turns``).

**verl-agent**: dumps of rollouts, ``trainer.rollout_data_dir``, one row for every step of an environment.
Its own row has ``input``, ``output``, ``score`` and ``step`` (the training step), and nothing that says which rollout it belongs
to. One line in its trainer, before ``_dump_generations``, adds that (read at commit d0b9724)::

    reward_extra_infos_dict |= {k: batch.non_tensor_batch[k].tolist() for k in ("uid", "traj_uid", "anchor_obs", "rewards",
                                                                                "is_action_valid")}

``traj_uid`` is needed; ``uid`` names the group; ``anchor_obs`` is the observation (else the whole prompt is); ``rewards`` the
step's reward; ``turn`` (a number) the order, without which rows stand in the order of time. Rows that the trainer copied to fill
a batch are dropped.

**OpenEnv**: ``openenv collect`` and ``RolloutSerializer`` write results.jsonl.
A row has ``episode_id``, ``messages``, ``reward``, ``done``, ``tool_trace`` (name, arguments and result of every tool call),
``verify_metrics``, ``task`` and ``extra``. A state key may stand in the results of tools, as ``metadata.state``: that of the
last tool which a turn called names the state after it. Tokens are not in the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from creditflow.envs.errors import ConfigError, check_name, short_repr, unknown_name_error
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.decoded_text import text_turns
from creditflow.train.adapters.logs.ends import CUTS, end_of, require_known_ends
from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings, group_episodes
from creditflow.train.adapters.logs.messages import as_messages, read_message, shown, split_thought, turns_of, untrained
from creditflow.train.adapters.logs.plain_messages import message_episodes
from creditflow.train.adapters.logs.rows import (
    MISSING,
    ImportReport,
    Row,
    RowError,
    Rows,
    Tally,
    at_path,
    each_row,
    key_of,
    number,
    own_name,
    read_rows,
    require_any,
    text,
)
from creditflow.train.adapters.logs.verifiers import verifiers_episodes

__all__ = ["SOURCES", "read_log"]


def read_log(source: str, path: str | Path, settings: ImportSettings | None = None) -> ImportReport:
    """Read another library's log.

    Args:
        source: one of ``SOURCES``.
        path: its file: JSON Lines, a JSON list, a W&B table or Parquet, gzip or not.
        settings: choices that the format leaves open; None: the defaults.

    Raises:
        ConfigError: an unknown source, or a setting that it cannot use.
        DataError: a damaged file, or one of which nothing can be read; with ``settings.strict``, the first row that cannot.
        MissingExtraError: a Parquet file, and pyarrow is not installed.
    """
    check_name("log format", source, SOURCES)
    settings = settings or ImportSettings()
    tally = Tally(settings.strict)

    def counted() -> Iterator[tuple[str, Row | RowError]]:
        seen = set[str]()
        for where, row in read_rows(path):
            tally.rows += 1
            if isinstance(row, dict) and source != "verl-agent":  # its rows are turns, whose copies it drops itself
                digest = key_of([row])
                if digest in seen:
                    if any(row.get(name) not in (None, "") for name in _OWN_NAMES):
                        tally.note("copies of a row, with the same id, are counted once")
                        continue
                    tally.note("rows stand twice in the file; without an id each counts as a rollout of its own")
                seen.add(digest)
            yield where, row

    log = group_episodes(source, SOURCES[source](counted(), settings, tally), settings, tally)
    require_known_ends(str(path), tally)
    require_any(str(path), log.groups, tally)
    return ImportReport(source, log, tally)


_OWN_NAMES: Final = ("id", "uid", "episode_id", "trajectory_id")

_TRL_COLUMNS: Final = frozenset(
    ("step", "prompt", "completion", "advantage", "image", "images", "done", "id", "uid", "task_id", "group_id", *CUTS)
)


def trl_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a table."""
    weights = _weights(settings.reward)
    columns = set[str]()

    def episode(where: str, row: Row) -> Episode:
        columns.update(name for name in weights if at_path(row, name) is not MISSING)
        columns.update(row)
        return _trl_episode(where, row, weights, settings, tally)

    yield from each_row(rows, tally, episode)
    for name in weights:
        if columns and name not in columns:
            raise unknown_name_error("column of rewards", name, columns)


def _weights(reward: str) -> dict[str, float]:
    """Weights by column; {}: all columns of numbers.

    >>> _weights("accuracy,format*0.5")
    {'accuracy': 1.0, 'format': 0.5}
    """
    weights = dict[str, float]()
    for entry in reward.split(",") if reward else ():
        name, star, factor = entry.rpartition("*")
        name = (name if star else entry).strip()
        try:
            weight = float(factor) if star else 1.0
        except ValueError:
            weight = math.nan
        if not name or not math.isfinite(weight) or name in weights:
            raise ConfigError(
                f"a reward is NAME or NAME*WEIGHT, each name once, got {short_repr(entry)} in {short_repr(reward)}"
            )
        weights[name] = weight
    return weights


def _trl_episode(where: str, row: Row, weights: dict[str, float], settings: ImportSettings, tally: Tally) -> Episode:
    prompt, completion = row.get("prompt", MISSING), row.get("completion", MISSING)
    if not weights:
        weights = {
            name: 1.0
            for name, value in row.items()
            if name
            not in _TRL_COLUMNS | {settings.id, settings.group, settings.done, settings.success, settings.state_key}
            and isinstance(value, int | float)
            and not isinstance(value, bool)
        }
        if weights:
            tally.note(f"the reward is the sum of {', '.join(map(repr, sorted(weights)))} with weight 1")
    scored = {name: value for name in weights if (value := at_path(row, name)) not in (None, MISSING)}
    if not scored:
        raise RowError("no reward function scored it")
    reward = sum_in_order(weights[name] * number(value, name) for name, value in scored.items())
    turns, last = _trl_turns(prompt, completion, settings, tally)
    messages: tuple[str, ...] = ()
    if isinstance(prompt, list) and isinstance(completion, list):
        messages = as_messages([*untrained(prompt), *completion])
    values = {f"reward.{name}": number(value, name) for name, value in scored.items()}
    if (advantage := row.get("advantage")) is not None:
        values["advantage.recorded"] = number(advantage, "advantage")
    end = end_of(row, settings.done, tally)
    return Episode(
        where, prompt, row.get("step", ""), tuple(turns), reward, row, last, end, values=values, messages=messages
    )


def _trl_turns(
    prompt: Any, completion: Any, settings: ImportSettings, tally: Tally
) -> tuple[list[Exchange], str | None]:
    if isinstance(prompt, str) and isinstance(completion, str):
        return text_turns(prompt, completion, settings.turns, tally)
    context = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(context, list) or not isinstance(completion, list):
        raise RowError("prompt and completion are neither texts nor lists of messages", f"{type(completion).__name__}")
    if settings.turns != "roles":
        raise ConfigError(f"--turns {settings.turns} has no effect on messages, which are turns already; leave it out")
    turns, after = turns_of(
        completion, prompt=context
    )  # every message of the prompt is context, also the model's earlier ones
    return turns, None if after is None else after.text


_UID: Final = re.compile(r"(.+)_(\d+)_(\d+)", re.DOTALL)


def verl_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a dump."""
    return each_row(rows, tally, lambda where, row: _verl_episode(where, row, settings, tally))


def _verl_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    prompt, output = text(row, "input"), text(row, "output")
    name = settings.reward or "score"
    reward = number(at_path(row, name), name)
    turns, after = text_turns(prompt, output, settings.turns, tally)
    step = row.get("step", "")
    if not isinstance(step, str | int):
        raise RowError("'step' is not a whole number", repr(type(step).__name__))
    return Episode(
        where, prompt, [step, *_verl_sample(row)], tuple(turns), reward, row, after, end_of(row, settings.done, tally),
        values={} if (recorded := at_path(row, "advantage")) is MISSING else {"advantage.recorded": number(recorded, "advantage")},
        id=own_name(row.get("uid")),
    )  # fmt: skip


def _verl_sample(row: Row) -> list[Any]:
    """Sample name at the start of a ``uid``, or [] if there is none."""
    uid = row.get("uid")
    if not isinstance(uid, str):
        return []
    match = _UID.fullmatch(uid)
    if match is not None and match[3] != "0":
        raise RowError(
            "a further output of a rollout, of which the file does not say how it follows the first", uid[:100]
        )
    return [match[1] if match else uid]


_ACTION: Final = re.compile(r"<action>([^<]*)</action>")


def verl_agent_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a dump, in order of first appearance; all rows are read first."""
    rollouts: dict[str, tuple[str, Row]] = {}
    for name, where, row in each_row(rows, tally, lambda where, row: (_verl_agent_rollout(row, settings), where, row)):
        rollouts.setdefault(name, (where, {"rows": []}))[1]["rows"].append(row)
    return each_row(
        rollouts.values(), tally, lambda where, row: _verl_agent_episode(where, row["rows"], settings, tally)
    )


def _verl_agent_rollout(row: Row, settings: ImportSettings) -> str:
    """What names the rollout of a row; its needed fields are checked."""
    name = row.get("traj_uid", MISSING)
    if not isinstance(name, str | int):
        raise RowError("there is no traj_uid, so its rollout is unknown (one line in the trainer adds it: DATA.md)")
    for field in ("input", "output"):
        text(row, field)
    number(at_path(row, settings.reward or "score"), settings.reward or "score")
    return key_of([row.get("step"), name])


def _verl_agent_episode(where: str, rows: list[Row], settings: ImportSettings, tally: Tally) -> Episode:
    ordered = _verl_agent_ordered(rows, tally)
    scores = [number(at_path(row, settings.reward or "score"), "score") for row in ordered]
    tally.note(
        "rows of a rollout have different scores (the trainer's penalty of invalid actions); the largest is used",
        int(min(scores) != max(scores)),
    )
    group = ordered[0].get("uid")
    turns = tuple(map(_verl_agent_turn, ordered))
    reward = max(scores)
    # the prompt names the task only as far as it is shown; groups are compared by uid
    task = turns[0].observation if group is None else ["uid", group]
    return Episode(
        where, task, [ordered[0].get("step"), group], turns, reward, ordered[0], end=end_of(ordered[-1], settings.done, tally),
        id=own_name(ordered[0]["traj_uid"]),
    )  # fmt: skip


def _verl_agent_ordered(rows: list[Row], tally: Tally) -> list[Row]:
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


def _verl_agent_turn(row: Row) -> Exchange:
    output = row["output"]
    anchor = row.get("anchor_obs")
    observation = row["input"]
    if anchor is not None:
        observation = anchor if isinstance(anchor, str) else key_of(anchor)
    thought, rest = split_thought(output)
    recorded = row.get("text_actions")
    tagged = [recorded] if isinstance(recorded, str) else [text.strip() for text in _ACTION.findall(rest)]
    action = tagged[-1] if tagged else rest
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


def openenv_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the episodes of a collection."""
    return each_row(rows, tally, lambda where, row: _openenv_episode(where, row, settings, tally))


def _openenv_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise RowError("there is no list under 'messages'")
    name = settings.reward or "reward"
    reward = number(at_path(row, name), name)
    turns, after = turns_of(messages)
    task = row.get("task")
    if task is None:
        task = shown([read_message(message) for message in messages[: _first_turn(messages)]]).text
    return Episode(
        where, task, "", tuple(_with_results(turns, row.get("tool_trace"))), reward, row,
        None if after is None else after.text, end_of(row, settings.done, tally), id=own_name(row.get("episode_id")),
        messages=as_messages(messages),
    )  # fmt: skip


def _first_turn(messages: Sequence[Any]) -> int:
    return next(i for i, message in enumerate(messages) if read_message(message).kind == "agent")


def _with_results(turns: list[Exchange], trace: Any) -> list[Exchange]:
    """The turns with the rewards of the tools that each called, added up, and the result of the last of them.

    Calls after the end, or beyond a limit, do not run, and have neither a result among the messages nor an entry.

    Raises:
        RowError: the trace has not one entry for each result.
    """
    if trace in (None, []):
        return turns
    entries = trace if isinstance(trace, list) else []
    results = sum(turn.results for turn in turns)
    if results != len(entries):
        raise RowError("'tool_trace' has not one entry for each result of a tool", f"{len(entries)} for {results}")
    out, at = [], 0
    for turn in turns:
        called = [
            entry.get("result") if isinstance(entry, Mapping) else None for entry in entries[at : at + turn.results]
        ]
        at += turn.results
        after = called[-1] if called and isinstance(called[-1], Mapping) else {}
        out.append(replace(turn, after=after, reward=sum_in_order(map(_reward, called))))
    return out


def _reward(result: Any) -> float:
    """The reward in a tool's metadata, else in its data, as OpenEnv looks it up; 0 if there is none."""
    for path in ("metadata.reward", "data.reward"):
        value = at_path(result, path)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return number(value, f"{path} of a tool")
    return 0.0


Reader = Callable[[Rows, ImportSettings, Tally], Iterator[Episode]]
SOURCES: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        "messages": message_episodes,
        "openenv": openenv_episodes,
        "trl": trl_episodes,
        "verifiers": verifiers_episodes,
        "verl": verl_episodes,
        "verl-agent": verl_agent_episodes,
    }
)

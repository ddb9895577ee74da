"""Importing a log: the library's reader, its groups, and the report of what was left out.

The formats of one table each are read here; ``verifiers`` reads its own. A format reads one row as one episode.

**messages**: one line an episode, with its messages in any known spelling, a reward, and the names that the user gave.
A row has a list of messages (under ``messages``, or another of ``LISTS``), ``reward`` (a number, or a list with one for each turn or
message of the model), and perhaps ``id``, ``task_id``, ``group_id`` and ``done``; ``--messages``, ``--reward``, ``--id``, ``--group``
and ``--done`` name other fields. Ids are kept as given. Without ``task_id`` the task is the group, and without either the messages
before the model's first. ``parent`` is the id of an earlier row of the group of which the row is a branch: the turns that both begin with
are stored once.

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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import ConfigError, DataError, check_name, short_repr, unknown_name_error
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.decoded_text import text_turns
from creditflow.train.adapters.logs.episodes import (
    CUTS,
    Episode,
    Exchange,
    ImportSettings,
    end_of,
    group_episodes,
    require_known_ends,
)
from creditflow.train.adapters.logs.messages import as_messages, split_thought, turns_of, untrained
from creditflow.train.adapters.logs.rows import (
    MISSING,
    ImportReport,
    Row,
    RowError,
    Rows,
    Tally,
    at_path,
    each_row,
    given_name,
    key_of,
    number,
    own_name,
    read_rows,
    require_any,
    text,
)
from creditflow.train.adapters.logs.verifiers import rows_of_traces, verifiers_episode

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

    def counted() -> Rows:
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

    form, rows = SOURCES[source], counted()
    if form.rows is not None:
        rows = form.rows(rows, settings, tally)
    episodes = each_row(rows, tally, lambda where, row: form.read(where, row, settings, tally))
    log = group_episodes(source, episodes, settings, tally)
    require_known_ends(str(path), tally)
    require_any(str(path), log.groups, tally)
    return ImportReport(source, log, tally)


_OWN_NAMES: Final = ("id", "uid", "episode_id", "trajectory_id")

LISTS: Final = ("messages", "conversations", "conversation", "traj", "history", "items", "input")


def _message_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    messages = _listed_messages(row, settings.messages)
    turns, after = turns_of(messages)
    reward, turns = _message_rewards(row, settings.reward or "reward", turns)
    group, task = at_path(row, settings.group or "group_id"), own_name(row.get("task_id"))
    if group is MISSING:
        group = None
    if not task and group is not None:
        task = given_name(group)
    return Episode(
        where,
        turns[0].observation,
        group,
        tuple(turns),
        reward,
        row,
        after,
        end_of(row, settings.done, tally),
        id=own_name(row.get("id")),
        task_id=task,
        messages=as_messages(messages),
        parent=own_name(row.get("parent")),
    )


def _listed_messages(row: Row, field: str) -> list[Any]:
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


def _message_rewards(row: Row, field: str, turns: list[Exchange]) -> tuple[float, list[Exchange]]:
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
        ends = accumulate(turn.messages for turn in turns)
        rewards = [sum_in_order(rewards[end - turn.messages : end]) for turn, end in zip(turns, ends, strict=True)]
    elif len(rewards) != len(turns):
        raise RowError(f"{field!r} has not one reward for each turn of the model", f"{len(rewards)} for {len(turns)}")
    return sum_in_order(rewards), [
        replace(turn, reward=turn_reward) for turn, turn_reward in zip(turns, rewards, strict=True)
    ]


_TRL_COLUMNS: Final = frozenset(
    ("step", "prompt", "completion", "advantage", "image", "images", "done", "id", "uid", "task_id", "group_id", *CUTS)
)


def _trl_rows(rows: Rows, settings: ImportSettings, tally: Tally) -> Rows:  # noqa: ARG001 - of every format
    """The rows of a table; a named column of rewards that none of them has is an error."""
    weights, columns = _weights(settings.reward), set[str]()
    for where, row in rows:
        if isinstance(row, dict):
            columns.update(row, (name for name in weights if at_path(row, name) is not MISSING))
        yield where, row
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


def _trl_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    prompt, completion = row.get("prompt", MISSING), row.get("completion", MISSING)
    weights = _weights(settings.reward)
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
    return turns_of(completion, prompt=context)  # every message of the prompt is context, also the model's earlier ones


_UID: Final = re.compile(r"(.+)_(\d+)_(\d+)", re.DOTALL)


def _verl_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    prompt, output = text(row, "input"), text(row, "output")
    name = settings.reward or "score"
    reward = number(at_path(row, name), name)
    turns, after = text_turns(prompt, output, settings.turns, tally)
    step = row.get("step", "")
    if not isinstance(step, str | int):
        raise RowError("'step' is not a whole number", repr(type(step).__name__))
    return Episode(
        where,
        prompt,
        [step, *_verl_sample(row)],
        tuple(turns),
        reward,
        row,
        after,
        end_of(row, settings.done, tally),
        values={}
        if (recorded := at_path(row, "advantage")) is MISSING
        else {"advantage.recorded": number(recorded, "advantage")},
        id=own_name(row.get("uid")),
    )


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


def _verl_agent_rows(rows: Rows, settings: ImportSettings, tally: Tally) -> Rows:
    """The rows of each rollout of a dump under "rows", in order of first appearance; all rows are read first."""
    rollouts: dict[str, tuple[str, Row]] = {}
    for name, where, row in each_row(rows, tally, lambda where, row: (_verl_agent_rollout(row, settings), where, row)):
        rollouts.setdefault(name, (where, {"rows": []}))[1]["rows"].append(row)
    return rollouts.values()


def _verl_agent_rollout(row: Row, settings: ImportSettings) -> str:
    """What names the rollout of a row; its needed fields are checked."""
    name = row.get("traj_uid", MISSING)
    if not isinstance(name, str | int):
        raise RowError("there is no traj_uid, so its rollout is unknown (one line in the trainer adds it: DATA.md)")
    for field in ("input", "output"):
        text(row, field)
    number(at_path(row, settings.reward or "score"), settings.reward or "score")
    return key_of([row.get("step"), name])


def _verl_agent_episode(where: str, rollout: Row, settings: ImportSettings, tally: Tally) -> Episode:
    ordered = _verl_agent_ordered(rollout["rows"], tally)
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
        where,
        task,
        [ordered[0].get("step"), group],
        turns,
        reward,
        ordered[0],
        end=end_of(ordered[-1], settings.done, tally),
        id=own_name(ordered[0]["traj_uid"]),
    )


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


def _openenv_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    messages = row.get("messages")
    if not isinstance(messages, list):
        raise RowError("there is no list under 'messages'")
    name = settings.reward or "reward"
    reward = number(at_path(row, name), name)
    turns, after = turns_of(messages)
    task = row.get("task")
    if task is None:
        task = turns[0].observation
    return Episode(
        where,
        task,
        "",
        tuple(_with_results(turns, row.get("tool_trace"))),
        reward,
        row,
        after,
        end_of(row, settings.done, tally),
        id=own_name(row.get("episode_id")),
        messages=as_messages(messages),
    )


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


class Format(NamedTuple):
    """How a library's log is read: a row as an episode; first, if they are no episodes, the file's rows as rows that are."""

    read: Callable[[str, Row, ImportSettings, Tally], Episode]
    rows: Callable[[Rows, ImportSettings, Tally], Rows] | None = None


SOURCES: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "messages": Format(_message_episode),
        "openenv": Format(_openenv_episode),
        "trl": Format(_trl_episode, _trl_rows),
        "verifiers": Format(verifiers_episode, rows_of_traces),
        "verl": Format(_verl_episode),
        "verl-agent": Format(_verl_agent_episode, _verl_agent_rows),
    }
)

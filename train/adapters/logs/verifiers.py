"""verifiers' logs: traces.jsonl of its v1 (one episode a line), and results.jsonl of the releases before.

v1: a trace is a graph of messages, each with the tokens that it adds to the sequence before it. Its last branch is read, the
root-to-leaf path that verifiers itself takes as the conversation; tokens, masks and log-probabilities (rounded to four decimals by
its writer) are kept where every message has them. A reward that was not computed leaves the rollout out.

Before v1: ``prompt``, ``completion``, ``reward``, ``example_id`` and, if it was saved, ``trajectory``, whose steps may have rewards
and fields of their own (``state_columns=["trajectory"]``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import short_repr
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.ends import ENDS, End, as_word, end_of
from creditflow.train.adapters.logs.episodes import Episode, Exchange, ImportSettings, require_length
from creditflow.train.adapters.logs.messages import (
    Call,
    Message,
    Shown,
    as_messages,
    read_message,
    shown,
    turns_of,
    untrained,
)
from creditflow.train.adapters.logs.rows import (
    MISSING,
    Row,
    RowError,
    Rows,
    Tally,
    at_path,
    each_row,
    number,
    own_name,
    truth,
)
from creditflow.wrappers.records.tokens import Tokens

__all__ = ["last_branch", "tokens_of", "turns_of_branch", "verifiers_episodes"]


Node = Mapping[str, Any]


def last_branch(nodes: Any) -> list[Node]:
    """The messages from a root to the leaf that was added last.

    Raises:
        RowError: nodes of another form, or a parent that does not come before its child.
    """
    if not isinstance(nodes, list) or not nodes or not all(isinstance(node, Mapping) for node in nodes):
        raise RowError("'nodes' is not a list of messages", short_repr(nodes))
    require_length(len(nodes))
    parents = set()
    for i, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and (type(parent) is not int or not 0 <= parent < i):
            raise RowError("a message's parent does not precede it", f"node {i}: {short_repr(parent)}")
        parents.add(parent)
    at: int | None = max(i for i in range(len(nodes)) if i not in parents)
    path = []
    while at is not None:
        path.append(nodes[at])
        at = nodes[at].get("parent")
    return path[::-1]


def turns_of_branch(branch: Sequence[Node]) -> tuple[list[Exchange], Shown | None]:
    """The turns: each message that a model call produced ("sampled"), with what was shown before it."""
    turns, unanswered = list[Exchange](), list[Message]()
    calls: tuple[Call, ...] = ()
    for node in branch:
        said = read_message(node.get("message"))
        if node.get("sampled") is not True:
            unanswered.append(said)
            continue
        before, calls = shown(unanswered, calls), said.calls
        turns.append(
            Exchange(
                before.text, said.response, said.action, said.thought, images=before.images, fields=node,
                values=_mean_advantage(node.get("advantages")),
            )
        )  # fmt: skip
        unanswered = []
    if not turns:
        raise RowError("no message was written by the model", f"{len(branch)} messages")
    return turns, shown(unanswered, calls) if unanswered else None


def _spelled(branch: Sequence[Node]) -> list[Any]:
    """The messages of a branch; those that were not sampled are not trained on."""
    spelled = list[Any]()
    for node in branch:
        message = node.get("message")
        spelled += [message] if node.get("sampled") is True else untrained([message])
    return spelled


def _mean_advantage(advantages: Any) -> dict[str, float]:
    if not isinstance(advantages, list) or not advantages:
        return {}
    return {"advantage.recorded": sum_in_order(number(value, "advantages") for value in advantages) / len(advantages)}


def tokens_of(branch: Sequence[Node], turns: int) -> Tokens | None:
    """The tokens of a branch up to its last turn; None if a message of it has none, or not one mask entry for each.

    A turn's tokens are those of the messages shown before it and its own.
    """
    ids, mask, logprobs, offsets = list[int](), list[bool](), list[float](), [0]
    for node in branch:
        added, sampled, recorded = (node.get(name) or [] for name in ("token_ids", "mask", "logprobs"))
        if (
            not all(isinstance(column, list) for column in (added, sampled, recorded))
            or not added
            or len(sampled) != len(added)
        ):
            return None
        if not all(type(token) is int and 0 <= token < 2**31 for token in added) or not all(
            type(flag) is bool for flag in sampled
        ):
            raise RowError("token_ids and mask are not lists of ids and flags")
        if sum(sampled) != len(recorded):
            return None
        ids += added
        mask += sampled
        remaining = iter(recorded)
        logprobs += [number(next(remaining), "logprobs") if flag else 0.0 for flag in sampled]
        if node.get("sampled") is True:
            offsets.append(len(ids))
        if len(offsets) > turns:
            break
    end = offsets[-1]
    return Tokens(
        np.array(ids[:end], np.int32),
        np.array(mask[:end], np.bool_),
        _float32(logprobs[:end]),
        np.array(offsets, np.int32),
    )


def _float32(values: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    numbers = np.array(values, np.float64)
    if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise RowError("log-probabilities exceed 32-bit numbers")
    return numbers.astype(np.float32)


_TRACE: Final = "a trace of the episode"


def verifiers_episodes(rows: Rows, settings: ImportSettings, tally: Tally) -> Iterator[Episode]:
    """Yield the rollouts of a log of either form."""
    return each_row(
        _by_trace(rows),
        tally,
        lambda where, row: (
            _trace(where, row, row[_TRACE], settings, tally) if _TRACE in row else _result(where, row, settings, tally)
        ),
    )


def _by_trace(rows: Rows) -> Iterator[tuple[str, Row | RowError]]:
    """The rows, with an episode of v1 once for each of its traces, which stands under ``_TRACE``."""
    for where, row in rows:
        if isinstance(row, RowError) or "traces" not in row:
            yield where, row
            continue
        traces = row.pop("traces")
        if not isinstance(traces, list):
            yield where, RowError("'traces' is no list", short_repr(traces))
        elif not traces:
            yield where, RowError("the episode has no trace", short_repr(at_path(row, "errors.0.type")))
        else:
            for number_, trace in enumerate(traces):
                yield where if len(traces) == 1 else f"{where}, trace {number_}", {**row, _TRACE: trace}


def _trace(where: str, episode: Row, trace: Any, settings: ImportSettings, tally: Tally) -> Episode:
    if not isinstance(trace, Mapping):
        raise RowError("a trace is not an object", short_repr(trace))
    branch = last_branch(trace.get("nodes"))
    sampled = sum(node.get("sampled") is True for node in trace["nodes"])
    turns, after = turns_of_branch(branch)
    tally.note("responses on other branches of a trace (subagents, rewritten histories) left out", sampled - len(turns))
    reward = _trace_reward(trace, settings)
    agent = at_path(trace, "agent.name")
    group = at_path(episode, "group.id")
    task = at_path(trace, "task.key")
    if task in (MISSING, None):
        task = at_path(trace, "task.data")
    if task is MISSING:
        raise RowError("the trace does not identify its task")
    tokens = tokens_of(branch, sum(node.get("sampled") is True for node in branch))
    tally.note("rollouts with tokens", int(tokens is not None))
    model = at_path(trace, "agent.config.model")
    # agents with different parts are not samples of one policy
    names = [name for name in (group, agent) if name not in (MISSING, None, "", "agent")]
    return Episode(
        where, task, names[0] if len(names) == 1 else names or "", tuple(turns), reward, trace, None if after is None else after.text,
        _end(dict(trace), settings, tally, failed=bool(trace.get("errors")), cut=_length_finished(trace)),
        policy=model if isinstance(model, str) else "", values=_metrics(trace.get("metrics")), tokens=tokens,
        id=own_name(trace.get("id")), messages=as_messages(_spelled(branch)),
    )  # fmt: skip


def _trace_reward(trace: Mapping[str, Any], settings: ImportSettings) -> float:
    """The sum of scores times weights, as its own ``Trace.reward``."""
    if settings.reward:
        return number(at_path(trace, settings.reward), settings.reward)
    rewards = trace.get("rewards")
    if rewards is not None and not isinstance(rewards, Mapping):
        raise RowError("'rewards' is not an object", short_repr(rewards))
    scored = [reward for reward in (rewards or {}).values() if reward is not None]
    if not scored:
        raise RowError("it was not scored", short_repr(trace.get("stop_condition")))
    return sum_in_order(_weighted(reward) for reward in scored)


def _weighted(reward: Any) -> float:
    if not isinstance(reward, Mapping):
        raise RowError("a reward is not an object with a score", short_repr(reward))
    return number(reward.get("score", MISSING), "score") * number(reward.get("weight", 1.0), "weight")


def _length_finished(trace: Mapping[str, Any]) -> bool:
    calls = trace.get("calls")
    done = (
        [call for call in calls if isinstance(call, Mapping) and not call.get("error")]
        if isinstance(calls, list)
        else []
    )
    return bool(done) and done[-1].get("finish_reason") == "length"


def _end(row: Row, settings: ImportSettings, tally: Tally, *, failed: bool, cut: bool) -> End:
    """How a rollout ended: by the field that is named, else ``done`` or a flag, else by verifiers' stop condition.

    Conditions are functions of an environment, so any other name may be an end by itself; it is reported.
    """
    condition = row.get("stop_condition")
    name = as_word(condition) if isinstance(condition, str) else ""
    if settings.done or (not name and not cut and not failed):
        return end_of(row, settings.done, tally)
    if cut or "token" in name or name == "compaction_failed":
        return "token_limit"
    if name.endswith("timeout") or name.startswith("timeout"):
        return "env_limit"
    if end := ENDS.get(name, ""):
        return end
    if failed or name.endswith("error"):
        return "env_error"
    tally.note(
        f"stop condition {short_repr(name, 60)} counts as an end by itself",
        int(name not in ENDS and name not in _OWN_ENDS),
    )
    return ""


_OWN_ENDS: Final = frozenset(("no_tools_called", "has_final_env_response", "is_completed", "agent_completed"))


def _metrics(metrics: Any) -> dict[str, float]:
    recorded = metrics if isinstance(metrics, Mapping) else {}
    return {
        f"metric.{name}": number(value, name)
        for name, value in recorded.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _result(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    """A row of results.jsonl."""
    name = settings.reward or "reward"
    value = at_path(row, name)
    if value in (None, MISSING):
        raise RowError("it was not scored", f"no number under {name!r}; keys: {short_repr(sorted(row), 200)}")
    prompt, completion = row.get("prompt"), row.get("completion")
    if isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    context = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(context, list) or not isinstance(completion, list):
        raise RowError("'prompt' and 'completion' are neither texts nor lists of messages")
    turns, after = turns_of(completion, prompt=context)
    task = row.get("example_id", MISSING)
    limited = truth(row.get("is_truncated"), "is_truncated") or False
    end = _end(row, settings, tally, failed=bool(row.get("error")), cut=limited)
    return Episode(
        where, [task] if task is not MISSING else context, "", tuple(_with_steps(turns, row.get("trajectory"))),
        number(value, name), row, None if after is None else after.text,
        end, values=_metrics(row.get("metrics")), messages=as_messages([*untrained(context), *completion]),
    )  # fmt: skip


def _with_steps(turns: list[Exchange], steps: Any) -> list[Exchange]:
    """The turns with the fields of their steps: its own reward and advantage, and ``extras``."""
    if steps in (None, []):
        return turns
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise RowError("'trajectory' is not a list of steps", short_repr(steps))
    if len(steps) != len(turns):
        raise RowError("'trajectory' has not one step for each turn of the model", f"{len(steps)} for {len(turns)}")
    out = []
    for turn, step in zip(turns, steps, strict=True):
        reward, advantage = step.get("reward"), step.get("advantage")
        out.append(
            replace(
                turn,
                fields={**step, **(step["extras"] if isinstance(step.get("extras"), Mapping) else {})},
                reward=0.0 if reward is None else number(reward, "reward of a step"),
                values={} if advantage is None else {"advantage.recorded": number(advantage, "advantage of a step")},
            )
        )
    return out

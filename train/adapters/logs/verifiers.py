"""verifiers' logs: traces.jsonl of its v1 (one episode a line), and results.jsonl of the releases before.

v1: a trace is a tree of messages, each with the tokens that it adds to the sequence before it. Compaction, sub-agents and rewritten
histories begin branches. A trace is one episode all the same: it has one outcome, and its turns are the sampled completions of all
branches in the order of sampling, a summary like any other. Its tokens are not read. A reward that was not computed leaves the rollout out.

Before v1: ``prompt``, ``completion``, ``reward``, ``example_id`` and, if it was saved, ``trajectory``, whose steps may have rewards
and fields of their own (``state_columns=["trajectory"]``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from creditflow.envs.errors import short_repr
from creditflow.envs.sums import sum_in_order
from creditflow.train.adapters.logs.episodes import (
    ENDS,
    End,
    Episode,
    Exchange,
    ImportSettings,
    as_word,
    end_of,
    require_length,
)
from creditflow.train.adapters.logs.messages import (
    Message,
    Shown,
    as_messages,
    read_message,
    shown,
    turns_of,
    untrained,
)
from creditflow.train.adapters.logs.rows import MISSING, Row, RowError, Rows, Tally, at_path, number, own_name, truth
from creditflow.wrappers.records.trajectory import PARENT

__all__ = ["TraceTurns", "rejected_summaries", "rows_of_traces", "turns_of_trace", "verifiers_episode"]


Node = Mapping[str, Any]


@dataclass(frozen=True)
class TraceTurns:
    """A trace as the turns of one episode.

    Attributes:
        turns: the completions, in the order of sampling, with what the model was shown before each.
        after: what was shown after the last one; None: nothing.
        path: the nodes of the only branch, or () if the trace has several.
    """

    turns: tuple[Exchange, ...]
    after: Shown | None
    path: tuple[int, ...]


def turns_of_trace(nodes: Any) -> TraceTurns:
    """Every completion that the model sampled, a rejected attempt at a summary excepted.

    A turn's observation is what its prompt adds to the completion that its branch continues, which may also be one that the prompt
    states anew. A prompt that continues none is shown as a whole. Where a turn continues another one than the turn before it,
    ``PARENT`` of every turn says which.

    Args:
        nodes: a trace's messages, in the order in which they were added.

    Raises:
        RowError: nodes of another form, a parent that does not come before its child, or no completion.
    """
    require_tree(nodes)
    said = [read_message(node.get("message")) for node in nodes]
    rejected = rejected_summaries(nodes)
    sampled = [i for i, node in enumerate(nodes) if node.get("sampled") is True and i not in rejected]
    if not sampled:
        raise RowError("no message was written by the model", f"{len(nodes)} messages")
    turn_of = {node: t for t, node in enumerate(sampled)}
    written: dict[tuple[str, str], int] = {}  # the latest completion with this text and these calls
    turns, parents, systems, read = list[Exchange](), list[int](), set[str](), 0

    def shown_since(at: int | None) -> tuple[list[Message], int | None]:
        """The messages up to node ``at`` that no completion comes after, and that completion."""
        messages = list[Message]()
        while at is not None and at not in turn_of:
            if said[at].kind == "agent" and (restated := written.get(_content(said[at]))) is not None:
                return messages[::-1], restated
            messages.append(said[at])
            at = nodes[at].get("parent")
        return messages[::-1], at

    for t, node in enumerate(sampled):
        messages, continued = shown_since(nodes[node].get("parent"))
        read += len(messages)
        require_length(read)  # branches may share messages, each of which is shown in all of them
        if t == 0:
            systems = {message.text for message in messages if message.kind == "system"}
        elif continued is None:  # another system's message tells this context from others
            messages = [
                replace(message, kind="context")
                if message.kind == "system" and message.text not in systems
                else message
                for message in messages
            ]
        before, wrote = shown(messages, () if continued is None else said[continued].calls), said[node]
        parents.append(-1 if continued is None else turn_of[continued])
        turns.append(
            Exchange(
                before.text,
                wrote.response,
                wrote.action,
                wrote.thought,
                images=before.images,
                fields=nodes[node],
                values=_mean_advantage(nodes[node].get("advantages")),
            )
        )
        written[_content(wrote)] = node
    if parents != list(range(-1, len(turns) - 1)):
        turns = [
            replace(turn, values={**turn.values, PARENT: float(parent)})
            for turn, parent in zip(turns, parents, strict=True)
        ]
    last = len(nodes) - 1  # a leaf, as a parent comes before its child
    messages, continued = shown_since(last)
    answered = messages and continued == sampled[-1] and last not in rejected
    after = shown(messages, said[sampled[-1]].calls) if answered else None
    paths = [_path(nodes, leaf) for leaf in (last, sampled[-1])]
    path = next((path for path in paths if turn_of.keys() <= set(path)), ())
    return TraceTurns(tuple(turns), after, path)


def require_tree(nodes: Any) -> None:
    """Raise RowError unless ``nodes`` are messages with parents before their children."""
    if not isinstance(nodes, list) or not nodes or not all(isinstance(node, Mapping) for node in nodes):
        raise RowError("'nodes' is not a list of messages", short_repr(nodes))
    require_length(len(nodes))
    for i, node in enumerate(nodes):
        parent = node.get("parent")
        if parent is not None and (type(parent) is not int or not 0 <= parent < i):
            raise RowError("a message's parent does not precede it", f"node {i}: {short_repr(parent)}")


def rejected_summaries(nodes: Sequence[Node]) -> set[int]:
    """Nodes that a harness declared attempts at a summary and did not go on from: verifiers trains on none of them."""
    attempts, accepted = set[int](), set[int]()
    for i, node in enumerate(nodes):
        links = node.get("semantic_parents") or ()
        for link in links if isinstance(links, list | tuple) else ():
            kind, source = at_path(link, "type"), at_path(link, "node")
            if kind == "compaction_attempt":
                attempts.add(i)
            elif kind == "compaction" and isinstance(source, int):
                accepted.add(source)
    return attempts - accepted


def _content(message: Message) -> tuple[str, str]:
    """What a completion says and calls. A prompt that states it anew may lack its thought."""
    return message.text, message.action


def _path(nodes: Sequence[Node], leaf: int) -> tuple[int, ...]:
    """The nodes from a root to a node."""
    path = list[int]()
    at: int | None = leaf
    while at is not None:
        path.append(at)
        at = nodes[at].get("parent")
    return tuple(reversed(path))


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


_TRACE: Final = "a trace of the episode"


def verifiers_episode(where: str, row: Row, settings: ImportSettings, tally: Tally) -> Episode:
    """The rollout of a row of either form (``rows_of_traces``)."""
    if _TRACE in row:
        return _trace(where, row, row[_TRACE], settings, tally)
    return _result(where, row, settings, tally)


def rows_of_traces(rows: Rows, settings: ImportSettings, tally: Tally) -> Rows:  # noqa: ARG001 - of every format
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
    nodes: Any = trace.get("nodes")
    found = turns_of_trace(nodes)
    tally.note(
        "rollouts of several contexts (compaction, sub-agents, rewritten histories): their turns are the completions of all of them",
        int(not found.path),
    )
    tally.note("rejected attempts at a summary, which are no turns", len(rejected_summaries(nodes)))
    reward = _trace_reward(trace, settings)
    agent = at_path(trace, "agent.name")
    group = at_path(episode, "group.id")
    task = at_path(trace, "task.key")
    if task in (MISSING, None):
        task = at_path(trace, "task.data")
    if task is MISSING:
        raise RowError("the trace does not identify its task")
    model = at_path(trace, "agent.config.model")
    # agents with different parts are not samples of one policy
    names = [name for name in (group, agent) if name not in (MISSING, None, "", "agent")]
    return Episode(
        where,
        task,
        names[0] if len(names) == 1 else names or "",
        found.turns,
        reward,
        trace,
        None if found.after is None else found.after.text,
        _end(dict(trace), settings, tally, failed=bool(trace.get("errors")), cut=_length_finished(trace)),
        policy=model if isinstance(model, str) else "",
        values=_metrics(trace.get("metrics")),
        id=own_name(trace.get("id")),
        messages=as_messages(_spelled([nodes[i] for i in found.path])),
    )


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
        where,
        [task] if task is not MISSING else context,
        "",
        tuple(_with_steps(turns, row.get("trajectory"))),
        number(value, name),
        row,
        after,
        end,
        values=_metrics(row.get("metrics")),
        messages=as_messages([*untrained(context), *completion]),
    )


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

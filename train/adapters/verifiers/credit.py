"""Credit for verifiers' episodes: one number per turn, on the sampled tokens of its node of the trace.

``MessageNode.advantages`` is verifiers' own field for credit per sampled token, which prime-rl trains on. The numbers per turn
are also in ``trace.info["creditflow_advantages"]``, for traces without token ids (the eval client records none) and for tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.logs.messages import read_message
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import (
    FIELD,
    Played,
    assign_turns,
    make_episode,
    make_group,
    over_tokens,
    per_completion,
    read_record,
    require_plain,
)
from creditflow.wrappers.records.group import Group

__all__ = ["ADVANTAGES", "completion_text", "credit_episodes", "read_messages", "read_recorded", "sampled_nodes"]


def sampled_nodes(trace: Any) -> list[Any]:
    """The nodes of a trace that the model sampled: its turns, in order.

    A renderer may encode an earlier completion anew, which makes another branch of the same conversation; its sampled tokens
    stay where they were sampled.

    Raises:
        TrajectoryError: a completion that does not continue the conversation (compaction, sub-agents).
    """
    before: list[int] = []  # number of completions before each node
    sampled: list[Any] = []
    for node in trace.nodes:
        parent = node.parent
        before.append(0 if parent is None else before[parent] + (trace.nodes[parent].message.role == "assistant"))
        if node.sampled:
            if before[-1] != len(sampled):
                raise TrajectoryError(
                    f"trace {trace.id!r}: completion {len(sampled)} follows {before[-1]} others in its own conversation: "
                    "credit needs one conversation per trace, without compaction or sub-agents"
                )
            sampled.append(node)
    return sampled


def read_recorded(trace: Any) -> Played:
    """The trajectory of a trace that ``CreditEnv`` played.

    Raises:
        TrajectoryError: no record, or one whose completions are not those of the trace.
    """
    played = read_record(trace.info.get(FIELD), trace.id)
    for t, (turn, node) in enumerate(zip(played[0].turns, sampled_nodes(trace), strict=False)):
        if turn.response not in ("", completion_text(node.message)):
            raise TrajectoryError(f"trace {trace.id!r}: turn {t} of its record has another completion than its node")
    return played


def completion_text(message: Any) -> str:
    """A completion as the model wrote it: some servers and renderers take its reasoning apart."""
    thought, content = message.reasoning_content, str(message.content or "")
    return f"<think>{thought}</think>{content}" if thought and "<think>" not in content else content


def read_messages(*, success: Callable[[Any], bool | str]) -> Callable[[Any], Played]:
    """A reader of other environments' traces: a state is what the model was shown since its last completion.

    The trace's reward is the last turn's. Equal texts are equal states, so it suits environments whose messages identify the
    state; an environment that can name its states should record them.

    Args:
        success: whether a trace solved its task, or how it ended: a stop reason, where a limit may have cut it.
    """

    def read(trace: Any) -> Played:
        nodes = sampled_nodes(trace)
        actions = [_action(node.message) for node in nodes]
        played = make_episode(
            trace.id,
            task_id=str(trace.task.key or trace.task.hash),
            states=[_shown(trace, node) for node in nodes],
            actions=actions,
            rewards=[*[0.0] * (len(actions) - 1), trace.reward],
            ended=success(trace),
        )
        return played, {}

    return read


def _action(message: Any) -> str:
    """What a completion does: its tool calls, or else its text without thoughts."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls or ()]
    return read_message({"role": "assistant", "content": completion_text(message), "tool_calls": calls}).action


def _shown(trace: Any, node: Any) -> str:
    """What the model was shown before a completion and after the one before, but for system messages."""
    texts: list[str] = []
    while node.parent is not None and (node := trace.nodes[node.parent]).message.role != "assistant":
        if node.message.role != "system":
            content = node.message.content
            texts.append(content if isinstance(content, str) else json.dumps([item.model_dump() for item in content]))
    return "\n\n".join(reversed(texts))


ADVANTAGES: Final = f"{FIELD}_advantages"  # in a trace's info: the numbers per turn


def credit_episodes(
    episodes: Sequence[Any],
    scheme: Scheme,
    *,
    agent: str = "player",
    read: Callable[[Any], Played] | None = None,
    alone: Literal["refuse", "zero"] = "refuse",
) -> list[Group]:
    """Write the credit of whole groups into their traces; returns the groups.

    Episodes are grouped by ``episode.group``, where a trainer sets it, else by the task's key. Traces that failed in verifiers
    (``ok`` is false) get no credit, as they are not trained on.

    Args:
        episodes: ``verifiers.v1.Episode``, all of a batch.
        scheme: the scheme.
        agent: the seat that is credited; "" credits every trainable one.
        read: the trajectory of a trace; default ``read_recorded``. ``read_messages(…)`` is for other environments.
        alone: a group of which one trace, or none, is left: "refuse" it, or give "zero" credit.

    Raises:
        TrajectoryError: a group of one, a trace without record or with lost turns, a reward that is not finite.
        ConfigError: a scheme that reads annotations, credits tokens or learns a critic.
    """
    require_plain(scheme)
    read = read or read_recorded
    members: dict[str, list[Any]] = {}
    for episode in episodes:
        name = str(episode.group.id if episode.group is not None else episode.task.key)
        for trace in episode.traces:
            if trace.ok and trace.agent.trainable and agent in ("", trace.agent.name):
                members.setdefault(name if agent else f"{name}/{trace.agent.name}", []).append(trace)
    if not members and alone == "refuse":
        raise TrajectoryError(f"no finished trace of the agent {agent!r} among {len(episodes)} episodes")
    incomplete: Literal["refuse", "keep"] = "refuse" if alone == "refuse" else "keep"
    groups = [make_group(name, [read(trace) for trace in traces], alone=incomplete) for name, traces in members.items()]
    spread: list[tuple[Any, list[Any], list[float], list[list[float]]]] = []
    for traces, group, numbers in zip(members.values(), groups, assign_turns(groups, scheme), strict=True):
        for trace, member, advantages in zip(traces, group.trajectories, numbers, strict=True):
            per_turn = advantages if len(group) > 1 else np.zeros(len(advantages))
            nodes = sampled_nodes(trace)
            tokens = over_tokens(member, per_turn, _counts(trace, nodes))
            spread.append((trace, nodes, per_completion(member, per_turn, len(nodes)), tokens))
    for trace, nodes, each, tokens in spread:  # written only when the whole batch fits
        trace.info[ADVANTAGES] = each
        for node, values in zip(nodes, tokens, strict=True):
            node.advantages = values
    return groups


def _counts(trace: Any, nodes: Sequence[Any]) -> list[int]:
    """Number of sampled tokens of each node."""
    for node in trace.nodes:
        if len(node.mask) != len(node.token_ids):
            raise TrajectoryError(
                f"trace {trace.id!r}: a node has {len(node.token_ids)} ids and {len(node.mask)} mask bits"
            )
    return [sum(node.mask) for node in nodes]

"""What a trace of verifiers says about its episode: the sampled completions in order, and the trajectory for credit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.credit.bridge import FIELD, Played, make_episode, read_record

__all__ = ["completion_text", "read_messages", "read_recorded", "sampled_nodes"]


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


def read_messages(*, success: Callable[[Any], bool]) -> Callable[[Any], Played]:
    """A reader of other environments' traces: a state is what the model was shown since its last completion.

    The trace's reward is the last turn's. Equal texts are equal states, so it suits environments whose messages identify the
    state; an environment that can name its states should record them.

    Args:
        success: whether a trace solved its task.
    """

    def read(trace: Any) -> Played:
        nodes = sampled_nodes(trace)
        calls = [[[call.name, call.arguments] for call in node.message.tool_calls or ()] for node in nodes]
        actions = [
            completion_text(node.message) + (json.dumps(one) if one else "")
            for node, one in zip(nodes, calls, strict=True)
        ]
        played = make_episode(
            trace.id,
            task_id=str(trace.task.key or trace.task.hash),
            states=[_shown(trace, node) for node in nodes],
            actions=actions,
            rewards=[*[0.0] * (len(actions) - 1), trace.reward],
            ended=bool(success(trace)),
        )
        return played, {}

    return read


def _shown(trace: Any, node: Any) -> str:
    """What the model was shown before a completion and after the one before, but for system messages."""
    texts: list[str] = []
    while node.parent is not None and (node := trace.nodes[node.parent]).message.role != "assistant":
        if node.message.role != "system":
            content = node.message.content
            texts.append(content if isinstance(content, str) else json.dumps([part.model_dump() for part in content]))
    return "\n\n".join(reversed(texts))

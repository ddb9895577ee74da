"""Traces and episodes of verifiers v1, made by its own graph."""

from __future__ import annotations

from typing import Any

from creditflow.wrappers.records.jsonl_lines import encode_line
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["episodes_of", "trace_of"]


def trace_of(played: Trajectory, spans: list[tuple[int, int]], key: str = "task") -> Any:
    """The trace that verifiers' own graph makes of the episode, turn t with these numbers of prompt and sampled tokens."""
    from verifiers.v1.configs.agent import AgentConfig
    from verifiers.v1.graph import prepare_turn
    from verifiers.v1.task import TaskData
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask
    from verifiers.v1.types import AssistantMessage, Message, Response, TurnTokens, UserMessage

    trace = Trace(
        task=TraceTask(type="CreditTask", data=TaskData(), key=key),
        agent=AgentInfo(config=AgentConfig(runtime={"type": "subprocess"}), name="player"),
        ok=True,
        info={"creditflow": encode_line(played, None)},
    )
    messages: list[Message] = []
    ids: list[int] = []
    for t, (shown, sampled) in enumerate(spans):
        messages.append(UserMessage(content=f"observation {t}"))
        ids = [*ids, *range(len(ids), len(ids) + shown)]
        completion = list(range(1000 + len(ids), 1000 + len(ids) + sampled))
        begins = len(ids) - shown
        known = list(getattr(trace, "_spans", []))
        tokens = TurnTokens(
            prompt_ids=list(ids),
            completion_ids=completion,
            completion_logprobs=[-1.0] * sampled,
            message_spans=[*known, (begins, len(ids))],
        )
        answer = AssistantMessage(content=f"action {t}")
        turn = prepare_turn(trace, list(messages))
        turn.commit(Response(id="", created=0, model="", message=answer, finish_reason="stop", tokens=tokens))
        object.__setattr__(trace, "_spans", [*known, (begins, len(ids)), (len(ids), len(ids) + sampled)])
        messages.append(answer)
        ids += completion
    return trace


def episodes_of(traces: list[Any], key: str = "task") -> list[Any]:
    from verifiers.v1.episode import Episode
    from verifiers.v1.task import TaskData
    from verifiers.v1.trace import TraceTask

    data = TraceTask(type="CreditTask", data=TaskData(), key=key)
    return [Episode(task=data, ok=True, traces=[trace]) for trace in traces]

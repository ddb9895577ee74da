"""verifiers' traces, written by its own trace store, as a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import read_log

pytestmark = pytest.mark.verifiers

TURNS = 3


def verifiers_log(folder: Path) -> Path:
    """Four traces of two tasks, built by its message graph with a renderer's token spans."""
    from verifiers.v1.configs.agent import WireAgentConfig
    from verifiers.v1.episode import EnvInfo, GroupInfo, WireEpisode
    from verifiers.v1.graph import prepare_turn
    from verifiers.v1.task import WireTaskData
    from verifiers.v1.trace import AgentInfo, TraceTask, WireTrace
    from verifiers.v1.types import (
        AssistantMessage,
        Response,
        SystemMessage,
        ToolCall,
        ToolMessage,
        TurnTokens,
        UserMessage,
    )
    from verifiers.v1.utils.trace_store import write_episode

    for i in range(4):
        task = TraceTask(type="Maze", data=WireTaskData.model_validate({"prompt": "find it"}), key=f"maze-{i // 2}")
        trace = WireTrace(task=task, agent=AgentInfo(config=WireAgentConfig(model="m")))
        messages: list[Any] = [SystemMessage(content="You walk."), UserMessage(content="room A")]
        for t in range(TURNS):
            call = ToolCall(id=f"c{t}", name="move", arguments=f'{{"to": {t}}}')
            said = AssistantMessage(content=f"<think>hm</think>go {t}", tool_calls=[call])
            widths = [2 if message.role == "assistant" else 5 for message in messages]
            ends = [sum(widths[: k + 1]) for k in range(len(widths))]
            tokens = TurnTokens(
                prompt_ids=[100 + k if w == 5 else 7 + j for k, w in enumerate(widths) for j in range(w)],
                completion_ids=[7, 8], completion_logprobs=[-0.5, -0.25],
                message_spans=[(end - width, end) for end, width in zip(ends, widths, strict=True)],
            )  # fmt: skip
            turn = prepare_turn(trace, messages)
            turn.commit(Response(id="r", created=0, model="m", message=said, finish_reason="tool_calls", tokens=tokens))
            messages = [*messages, said, ToolMessage(tool_call_id=call.id, content=f"room {'ABC'[(t + i) % 3]}")]
        trace.record_reward("solved", float(i % 2))
        trace.stop("agent_completed")
        trace.ok = True
        write_episode(
            folder,
            WireEpisode(task=task, env=EnvInfo(id="maze"), traces=[trace], ok=True, group=GroupInfo(id=f"g{i // 2}")),
        )
    return folder / "traces.jsonl"


def test_verifiers_traces_are_read_as_verifiers_reads_them(tmp_path: Path) -> None:
    path = verifiers_log(tmp_path)
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import read_episodes

    report = read_log("verifiers", path, ImportSettings(strict=True))
    assert [len(group) for group in report.groups] == [2, 2]
    members = [member for group in report.groups for member in group.trajectories]
    episodes = read_episodes(tmp_path, WireTrace)
    for member, episode in zip(members, episodes, strict=True):
        [trace] = episode.traces
        assert member.episode_return == trace.reward
        said = [
            turn.response.partition("<tool_call>")[0] for turn in member.turns
        ]  # its tags stand on lines of their own
        assert list(map(str.split, said)) == [["<think>", "hm", "</think>", "go", str(t)] for t in range(TURNS)]

"""Logs written by the libraries' own code: verifiers' trace store, and OpenEnv's collector around its own tool loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import read_log

pytestmark = pytest.mark.data

TURNS = 3


def verifiers_log(folder: Path) -> Path:
    """Four traces of two tasks, built by its message graph with a renderer's token spans."""
    pytest.importorskip("verifiers.v1", reason="verifiers is not installed: constraints/data.txt")
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


def test_verifiers_traces_are_read_with_their_tokens_as_verifiers_reads_them(tmp_path: Path) -> None:
    path = verifiers_log(tmp_path)
    from verifiers.v1.trace import WireTrace
    from verifiers.v1.utils.trace_store import read_episodes

    report = read_log("verifiers", path, ImportSettings(strict=True))
    assert [len(group) for group in report.groups] == [2, 2]
    members = [member for group in report.groups for member in group.trajectories]
    episodes = read_episodes(tmp_path, WireTrace)
    for member, episode in zip(members, episodes, strict=True):
        [trace] = episode.traces
        branch = trace.branches[-1]
        assert member.episode_return == trace.reward
        assert [turn.response.partition("\n")[0] for turn in member.turns] == [
            m.content for m in trace.assistant_messages
        ]
        assert member.tokens is not None
        assert member.tokens.ids.tolist() == branch.token_ids
        assert member.tokens.mask.tolist() == branch.sampled_mask
        assert member.tokens.logprobs.tolist() == branch.logprobs
        spans = [
            member.tokens.mask[a:b].sum()
            for a, b in zip(member.tokens.turn_offsets, member.tokens.turn_offsets[1:], strict=False)
        ]
        assert spans == [2] * TURNS


def openenv_log(folder: Path) -> Path:
    """Four episodes of two tasks, played by OpenEnv's own loop over a session with one tool."""
    pytest.importorskip("openenv.core.harness.collect", reason="openenv is not installed: constraints/data.txt")
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.harness.collect import CollectRunner, RolloutSerializer
    from openenv.core.harness.rollout import (
        HarnessRunLimits,
        MCPHarnessAdapter,
        ModelStepResult,
        ResourceSession,
        ResourceSessionFactory,
        ToolResult,
        VerifyResult,
    )
    from openenv.core.llm_client import LLMResponse, ToolCall

    class Corridor(ResourceSession):
        def __init__(self, task: int) -> None:
            self.task, self.at = task, 0

        def initial_messages(self) -> list[dict[str, Any]]:
            return [{"role": "user", "content": f"Corridor {self.task}: go to 2. You are at 0."}]

        def list_tools(self) -> list[Tool]:
            return [Tool(name="move", description="move", input_schema={"type": "object"})]

        def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
            assert name == "move"
            self.at += int(arguments["by"])
            done = self.at == 2
            return ToolResult(
                data={"at": self.at}, done=done, metadata={"state": {"at": self.at}, "reward": float(done)}
            )

        def verify(self, transcript: Any, final_state: Any = None) -> VerifyResult:
            return VerifyResult(env_reward=float(self.at == 2), done=self.at == 2)

        def close(self) -> None:
            """Release nothing."""

    class Factory(ResourceSessionFactory[Corridor]):
        def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> Corridor:
            return Corridor(task)

    moves = iter([0, 0, 0, 1, 1, 1, 0, 1, -1, 1, 1])  # 0+0+0, 1+1, 1+0+1, -1+1+1

    def model(messages: Any, tools: Any, sampling: Any) -> ModelStepResult:
        return ModelStepResult(LLMResponse("<think>so</think>", [ToolCall("c", "move", {"by": next(moves)})]))

    runner = CollectRunner(
        session_factory=Factory(), harness_adapter=MCPHarnessAdapter(), serializer=RolloutSerializer(folder), tasks=[0, 0, 1, 1],
        limits=HarnessRunLimits(max_turns=3),
    )  # fmt: skip
    runner.run(model_step=model, num_episodes=4)
    return folder / "results.jsonl"


def test_openenvs_episodes_are_read_with_the_states_of_its_tools(tmp_path: Path) -> None:
    report = read_log("openenv", openenv_log(tmp_path), ImportSettings(state_key="metadata.state.at", strict=True))
    assert [len(group) for group in report.groups] == [2, 2]
    members = [member for group in report.groups for member in group.trajectories]
    assert [member.stop_reason for member in members] == ["env_limit", "success", "success", "env_limit"]
    assert [[turn.reward for turn in member.turns] for member in members] == [[0, 0, 0], [0, 1], [0, 0, 1], [0, 0, 0]]
    ends = [turn.next_state_key for member in members for turn in member.turns]
    places = [0, 0, 0, 1, 2, 1, 1, 2, -1, 0, 1]
    assert len({*zip(ends, places, strict=True)}) == len({*ends}) == len({*places})
    assert members[0].turns[0].action == 'move({"by": 0})'

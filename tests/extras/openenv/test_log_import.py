"""Episodes of OpenEnv's own collector and tool loop, as a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import read_log

pytestmark = pytest.mark.openenv


def openenv_log(folder: Path) -> Path:
    """Four episodes of two tasks, played by OpenEnv's own loop over a session with one tool."""
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

"""A served model as an agent: its tokenizer is found, its server is queried first, and its ids are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.openai_server import MODEL, openai_server, toy, toy_choice

from creditflow.agents.backends.base import GenerationError, Sampling
from creditflow.agents.language_model.openai_agent import KEY_VARIABLE, make_openai_agent
from creditflow.agents.language_model.pretrained import AGENT_FILE, PromptingConfig, write_agent_file
from creditflow.agents.registry import make_agent
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.policy.network.scratch import ScratchConfig, build_tokenizer
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, panel_tasks
from creditflow.train.settings.schema import EnvConfig

ENV = EnvConfig(name="sokoban", options={"max_steps": 3})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder as the trainer writes it, without weights."""
    tokenizer = build_tokenizer(["up down left right"] * 8, ScratchConfig(vocabulary=300, pattern="[a-z]+"))
    tokenizer.save_pretrained(tmp_path)
    write_agent_file(
        tmp_path / AGENT_FILE, PromptingConfig(prompt="places-v1", dialect="bare"), Sampling(max_new_tokens=3)
    )
    return str(tmp_path)


def roomy(**changes: Any) -> list[dict[str, Any]]:
    return [MODEL | {"max_model_len": 4096} | changes]


def down(folder: str) -> Any:
    """A server whose model always writes "down" and ends."""
    from creditflow.agents.language_model.pretrained import open_tokenizer

    tokenizer = open_tokenizer(folder)
    ids = [*tokenizer.encode("down", add_special_tokens=False), tokenizer.eos_token_id]

    def complete(body: dict[str, Any]) -> Any:
        return {
            "choices": [
                toy_choice(p * body["n"] + k, prompt, ids, 1.0)
                for p, prompt in enumerate(body["prompt"])
                for k in range(body["n"])
            ]
        }

    return complete, ids


def test_the_tokenizer_is_in_the_named_folder_in_the_model_or_in_the_servers_folder(folder: str) -> None:
    for models, written in ((roomy(), f"toy@{folder}"), (roomy(id=folder), folder), (roomy(root=folder), "toy")):
        with openai_server(models=models) as served:
            agent = make_openai_agent(f"{served.url}#{written}")
        assert agent.max_context == 4096
        assert agent.sampling.max_new_tokens == 3
    with openai_server() as served, pytest.raises(ConfigError, match=r"openai:http.*#toy@FOLDER"):
        make_openai_agent(f"{served.url}#toy")
    with openai_server() as served, pytest.raises(DataError, match="tokenizer"):
        make_openai_agent(f"{served.url}#toy@{Path(folder).parent}")


def test_episodes_carry_the_servers_ids(folder: str) -> None:
    complete, ids = down(folder)
    with openai_server(complete, roomy(root=folder)) as served:
        agent = make_openai_agent(f"{served.url}#toy")
        [group] = RolloutEngine(group_env_factory(ENV, 2)).play(agent, panel_tasks(ENV, "small-v1:valid", 1), seed=0)
        first = next(body for body in served.bodies if body["n"] == 2)
    for one in group.trajectories:
        assert [turn.action for turn in one.turns] == ["down"] * 3
        assert one.tokens is not None
        assert one.tokens.ids[one.tokens.mask].tolist() == ids * 3
        assert one.tokens.ids[: len(first["prompt"][0])].tolist() == first["prompt"][0]
        assert np.allclose(one.tokens.logprobs[one.tokens.mask], -0.5)


def test_an_episode_without_room_for_a_completion_stops_without_a_request(folder: str) -> None:
    complete, _ = down(folder)
    with openai_server(complete, roomy(root=folder, max_model_len=8)) as served:
        agent = make_agent(f"openai:{served.url}#toy")
        [group] = RolloutEngine(group_env_factory(ENV, 2)).play(agent, panel_tasks(ENV, "small-v1:valid", 1), seed=0)
        assert not served.bodies
    assert {(t.stop_reason, len(t.turns)) for t in group.trajectories} == {("token_limit", 0)}


def test_episodes_of_a_server_without_ids_are_played_but_carry_no_tokens(folder: str) -> None:
    with_ids, _ = down(folder)

    def complete(body: dict[str, Any]) -> Any:
        bare = {"token_ids": None, "prompt_token_ids": None, "logprobs": None, "text": "down"}
        return {"choices": [one | bare for one in with_ids(body)["choices"]]}

    with openai_server(complete, roomy(root=folder)) as served:
        agent = make_openai_agent(f"{served.url}#toy")
        [group] = RolloutEngine(group_env_factory(ENV, 2)).play(agent, panel_tasks(ENV, "small-v1:valid", 1), seed=0)
    for one in group.trajectories:
        assert [turn.action for turn in one.turns] == ["down"] * 3
        assert one.tokens is None


def test_a_model_that_is_not_served_suggests_the_nearest_name(folder: str) -> None:
    with (
        openai_server(models=roomy(id="qwen-7b")) as served,
        pytest.raises(ConfigError, match="did you mean 'qwen-7b'"),
    ):
        make_openai_agent(f"{served.url}#qwen-8b@{folder}")


def test_a_url_without_a_server_is_an_error_that_names_what_was_expected(folder: str) -> None:
    with openai_server() as served, pytest.raises(GenerationError, match=r"ends in /v1.*404"):
        make_openai_agent(f"{served.url.removesuffix('/v1')}#toy@{folder}")
    with openai_server(models=[{"name": "x"}]) as served, pytest.raises(GenerationError, match="under 'data'"):
        make_openai_agent(f"{served.url}#toy@{folder}")


def test_the_key_is_sent(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "a-key")
    with openai_server(toy, roomy(root=folder)) as served:
        agent = make_openai_agent(f"{served.url}#toy")
        RolloutEngine(group_env_factory(ENV, 1)).play(agent, panel_tasks(ENV, "small-v1:valid", 1), seed=0)
    assert {headers["Authorization"] for headers in served.headers} == {"Bearer a-key"}


def test_eval_and_rollout_play_a_served_model(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from creditflow.train.cli import main
    from creditflow.wrappers.records.jsonl import read_jsonl

    complete, _ = down(folder)
    log = str(tmp_path / "log.jsonl")
    with openai_server(complete, roomy(root=folder)) as served:
        agent = f"openai:{served.url}#toy"
        assert main(["eval", "--agent", agent, "--panel", "small-v1:valid", "--limit", "2", "--samples", "1",
                     "--env-set", "max_steps=2", "--out", log]) == 0  # fmt: skip
        assert "greedy 0.000" in capsys.readouterr().out
        played = list(read_jsonl(log))
        assert len(played) == 4
        assert all(one.policy == agent and one.tokens is not None for one in played)
        assert main(["rollout", "--agent", agent, "--panel", "small-v1:valid", "--limit", "1", "--group-size", "2",
                     "--env-set", "max_steps=2", "--out", log, "--force"]) == 0  # fmt: skip
    assert [turn.action for one in read_jsonl(log) for turn in one.turns] == ["down"] * 4

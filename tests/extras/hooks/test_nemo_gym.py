"""NeMo Gym: its own web server and requests play our environments, and the records they end with are our engine's."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.servers.chat_server import random_player
from helpers.trainers.replayed import assert_same_credit, replayed
from helpers.worlds.sokoban_episodes import LEVELS

from creditflow import credit
from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.credit.bridge import FIELD, make_group, read_record

pytestmark = [pytest.mark.nemo_gym, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # theirs, on import
pytest.importorskip(
    "nemo_gym",
    reason="no NeMo Gym: for Python 3.13; NEMO_GYM_SOURCE names a checkout of github.com/NVIDIA-NeMo/Gym (07d6b0d)",
)
OPTIONS = {"max_steps": 6, "symbols": "ascii"}


def client(play: dict[str, Any] | None = None) -> Any:
    from fastapi.testclient import TestClient
    from nemo_gym.server_utils import ServerClient

    from creditflow.train.adapters.nemo_gym import CreditServer, CreditServerConfig

    play = play or {"env": {"name": "sokoban", "options": OPTIONS}}
    config = CreditServerConfig(host="127.0.0.1", port=1, entrypoint="app.py", name="credit", play=play)
    server = CreditServer(config=config, server_client=ServerClient.model_construct())
    return TestClient(server.setup_webserver())


def response(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    fields = {"id": "r", "created_at": 0, "model": "m", "object": "response", "parallel_tool_calls": False}
    return {**fields, "output": [message], "tool_choice": "auto", "tools": []}


def play_one(model: Any) -> tuple[list[str], dict[str, Any]]:
    """The completions of an episode and the last step's info."""
    http, params = client(), {"responses_create_params": {"input": []}, "task": {"xsb": LEVELS[0]}}
    shown = http.post("/reset", json=params).json()["observation"]
    texts: list[str] = []
    while True:
        texts.append(model([{"role": "user", "content": shown}]))
        reply = http.post("/step", json={**params, "response": response(texts[-1])}).json()
        if reply["terminated"] or reply["truncated"]:
            assert reply["truncated"] == (not reply["info"]["success"])
            return texts, reply["info"]
        shown = reply["observation"]


def test_credit_of_its_episodes_is_that_of_our_engine() -> None:
    model = random_player(0)
    played = [play_one(model) for _ in range(6)]
    group = make_group("g", [read_record(info[FIELD], str(i)) for i, (_, info) in enumerate(played)])
    config = EpisodeConfig(env=EnvConfig(name="sokoban", options=OPTIONS))
    ours = replayed(config, {"xsb": LEVELS[0]}, [texts for texts, _ in played])
    assert_same_credit(ours, group, credit.make("graphgpo"))


def test_a_row_without_a_task_and_a_step_without_an_episode_are_refused() -> None:
    http = client()
    params: dict[str, Any] = {"responses_create_params": {"input": []}}
    for path, body, message in (
        ("/reset", params, "must be the task as JSON text"),
        ("/step", {**params, "response": response("x")}, "call /reset"),
    ):
        with pytest.raises(Exception, match=message):
            http.post(path, json=body)

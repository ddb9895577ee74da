"""Episodes over OpenEnv's clients are those of the environment in this process."""

from __future__ import annotations

import runpy
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from helpers.servers.env_server import env_server
from helpers.shared_data import ROOT

from creditflow.envs.core import AgentEnv
from creditflow.envs.info import INFO_TYPES
from creditflow.envs.registration import bare_env

pytestmark = pytest.mark.openenv

OPTIONS: dict[str, dict[str, str]] = {
    "sokoban": {"panel": "small-v1:train"},
    "alfworld": {"panel": "standard-v1:train"},
    "webshop": {},
    "wikisearch": {},
}


def choose(env: AgentEnv[Any, Any, Any], info: Any, rng: np.random.Generator) -> str:
    """An optimal action, a listed one, or nonsense."""
    best = env.oracle.optimal_actions(env.get_state())
    listed = info["admissible_actions"]
    kind = rng.integers(4)
    return (
        "fly" if kind == 0 else str(rng.choice(listed)) if kind == 1 and listed else str(best[0] if best else listed[0])
    )


def plain(value: Any) -> Any:
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("name", OPTIONS)
def test_an_episode_over_a_socket_is_the_episode_of_the_environment(name: str) -> None:
    from openenv.core import GenericEnvClient

    settings = [part for key, value in OPTIONS[name].items() for part in ("--env-set", f"{key}={value}")]
    env, rng = bare_env(name, dict(OPTIONS[name])), np.random.default_rng(0)
    with env_server(name, *settings) as (url, _), GenericEnvClient(base_url=url).sync() as client:
        for seed in (0, 1, 2):
            text, info = env.reset(seed=seed)
            result, reward, done = client.reset(seed=seed), None, False
            while True:
                seen = result.observation
                assert (seen["text"], result.reward, result.done) == (text, reward, done)
                copied = [key for key in INFO_TYPES if key in seen and key != "admissible_actions"]
                assert {key: seen[key] for key in copied} == {key: info[key] for key in copied}
                listed = () if env.actions_reveal_answer else info["admissible_actions"]
                assert seen["admissible_actions"] == list(listed)
                assert seen["extra"] == {key: plain(value) for key, value in info.items() if key not in INFO_TYPES}
                state = client.state()
                assert (state["snapshot"], state["state_key"], state["done"]) == (
                    env.get_state(),
                    info["state_key"],
                    done,
                )
                if done:
                    break
                action = choose(env, info, rng)
                text, reward, terminated, truncated, info = env.step(action)
                result, done = client.step({"action": action}), terminated or truncated


def test_typed_clients_return_typed_observations_and_states(sokoban: Any) -> None:
    from creditflow.train.adapters.openenv.client import FullObservation, PlayAction, PlayClient, PlayState

    with PlayClient(base_url=sokoban[0]).sync() as client:
        first = client.reset(seed=3, episode_id="mine")
        assert type(first.observation) is FullObservation
        assert client.step(PlayAction(action="up")).observation.elapsed_steps == 1
        assert client.step("up").observation.elapsed_steps == 2
        state = client.state()
        assert type(state) is PlayState
        assert (state.episode_id, state.step_count, state.task_id) == ("mine", 2, first.observation.task_id)


def test_sessions_at_the_same_time_do_not_see_each_other(sokoban: Any) -> None:
    from openenv.core import GenericEnvClient

    rng = np.random.default_rng(1)
    moves = rng.choice(["up", "down", "left", "right"], (4, 12)).tolist()

    def keys(result: Any) -> tuple[str, Any, bool]:
        return result.observation["state_key"], result.reward, result.done

    alone = []
    for seed in range(4):
        env = bare_env("sokoban", {"panel": "standard-v1"})
        env.reset(seed=seed)
        steps = [env.step(move) for move in moves[seed]]
        alone.append([(info["state_key"], reward, end or cut) for _, reward, end, cut, info in steps])
    with ExitStack() as stack:
        clients = [stack.enter_context(GenericEnvClient(base_url=sokoban[0]).sync()) for _ in range(4)]
        for seed, client in enumerate(clients):
            client.reset(seed=seed)
        together = [[keys(client.step({"action": moves[i][t]})) for i, client in enumerate(clients)] for t in range(12)]
    assert [list(column) for column in zip(*together, strict=True)] == alone


def test_a_session_more_than_the_limit_is_refused_until_another_ends(sokoban: Any) -> None:
    from openenv.core import GenericEnvClient

    with ExitStack() as stack:
        clients = [stack.enter_context(GenericEnvClient(base_url=sokoban[0]).sync()) for _ in range(4)]
        for client in clients:
            client.reset(seed=0)
        with (
            GenericEnvClient(base_url=sokoban[0]).sync() as fifth,
            pytest.raises(RuntimeError, match="CAPACITY_REACHED"),
        ):
            fifth.reset(seed=0)
        clients[0].close()
        for _ in range(100):  # the server learns of the end a moment later
            with GenericEnvClient(base_url=sokoban[0]).sync() as again:
                try:
                    assert not again.reset(seed=0).done
                    break
                except RuntimeError as error:
                    assert "CAPACITY_REACHED" in str(error)
        else:
            raise AssertionError("the session was not freed")


def test_a_snapshot_continues_in_another_session(sokoban: Any, client: Any) -> None:
    from openenv.core import GenericEnvClient

    client.reset(seed=5)
    client.step({"action": "up"})
    snapshot = client.state()["snapshot"]
    continued = [client.step({"action": move}).observation for move in ("left", "down")]
    with GenericEnvClient(base_url=sokoban[0]).sync() as other:
        assert other.reset(injected_state=snapshot).observation["elapsed_steps"] == 1
        assert [other.step({"action": move}).observation for move in ("left", "down")] == continued


def test_a_task_is_named_by_its_id(client: Any) -> None:
    task_id = client.reset(seed=5).observation["task_id"]
    assert client.reset(task_id=task_id).observation["task_id"] == task_id


def test_openenvs_own_validation_of_a_running_server_passes(sokoban: Any) -> None:
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(sokoban[0])
    assert report["passed"], report
    assert report["mode"] == "simulation"


def test_a_plain_http_request_has_no_session_and_says_so(sokoban: Any, client: Any) -> None:
    url = sokoban[0]
    started = requests.post(f"{url}/reset", json={"seed": 3}, timeout=10).json()
    assert started["observation"] == client.reset(seed=3).observation
    step = requests.post(f"{url}/step", json={"action": {"action": "up"}}, timeout=10)
    assert (step.status_code, "same WebSocket" in step.json()["detail"]) == (409, True)
    assert requests.get(f"{url}/state", timeout=10).json()["done"] is True


def test_a_session_made_over_http_is_played_over_a_socket_that_attaches(sokoban: Any) -> None:
    from openenv.core import GenericEnvClient

    def call(method: str, **params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return requests.post(f"{sokoban[0]}/mcp", json=body, timeout=10).json()

    session = call("openenv/session/create")["result"]["session_id"]
    attached = GenericEnvClient(base_url=sokoban[0])
    attached._ws_url += f"?session_id={session}"
    with attached.sync() as client:
        assert not client.reset(seed=3).done
    assert call("openenv/session/close", session_id=session)["result"]["closed"]
    assert "Unknown session_id" in call("openenv/session/close", session_id=session)["error"]["message"]


def test_a_server_of_texts_shows_nothing_but_them(levels: Any) -> None:
    from openenv.core import GenericEnvClient

    arguments = ("sokoban", "--env-set", f"levels={levels}", "--observation", "text")
    with env_server(*arguments) as (url, _), GenericEnvClient(base_url=url).sync() as client:
        assert client.reset(seed=0).observation.keys() == {"text", "invalid_reason", "metadata"}
        schema = requests.get(f"{url}/schema", timeout=10).json()
        assert schema["action"]["required"] == ["action"]  # a client may put a model's plain reply there
        assert "state_key" not in schema["observation"]["properties"]
        assert "not an action" in client.step({"action": "fly"}).observation["invalid_reason"]
        assert client.state()["state_key"]


def test_the_example_of_the_page_plays_an_episode(
    sokoban: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "train" / "adapters" / "OPENENV.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    assert "http://127.0.0.1:8000" in code
    script = tmp_path / "example.py"
    script.write_text(code.replace("http://127.0.0.1:8000", sokoban[0]), encoding="utf-8")
    runpy.run_path(str(script))
    assert capsys.readouterr().out.endswith(" 30\n")

"""``openai:URL#MODEL``: its format, and where its key is read."""

from __future__ import annotations

import traceback

import pytest
from helpers.servers.openai_server import MODEL, openai_server

from creditflow.agents.language_model.openai_agent import KEY_VARIABLE, parse_served
from creditflow.agents.registry import check_agent, make_agent
from creditflow.envs.errors import ConfigError, ServiceError
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"{URL}#qwen", (URL, "qwen", "")),
        (f"{URL}#/models/my model", (URL, "/models/my model", "")),
        (f"{URL}#org/name@models/x", (URL, "org/name", "models/x")),
        (f"{URL}#a@b@models/x", (URL, "a@b", "models/x")),
    ],
)
def test_url_model_and_folder(text, parts):
    assert parse_served(text) == parts


@pytest.mark.parametrize("text", ["", URL, f"{URL}#", "#qwen", f"{URL}#qwen@", f"{URL}#@models"])
def test_any_other_argument_is_an_error_that_shows_the_format(text):
    with pytest.raises(ConfigError, match="openai:URL#MODEL"):
        parse_served(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hunter2@host/v1",
        "http://hunter2@host/v1",
        "http://me:se/hunter2@host/v1",
        "http://me%3Ahunter2%40host/v1",
        "https://host/v1?api_key=hunter2",
        "https://host/v1?hunter2",
        "https://host/v1;key=hunter2",
        "https://host/v1&key=hunter2",
        "http://host:80:hunter2@x/v1",
        "http://[hunter2@host/v1",
    ],
)
@pytest.mark.parametrize("rest", ["#qwen", "#qwen@models/x", "", "#"])
def test_secrets_in_the_url_are_rejected_without_showing_them(url, rest):
    for spec in (f"openai:{url}{rest}", f"react:openai:{url}{rest}"):
        for ask in (check_agent, make_agent):
            with pytest.raises(ConfigError) as caught:
                ask(spec)
            assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_the_key_comes_from_its_variable_and_may_not_break_the_header(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert ApiKey.from_environment(KEY_VARIABLE) is None
    monkeypatch.setenv(KEY_VARIABLE, "abc\n")
    key = ApiKey.from_environment(KEY_VARIABLE)
    assert key is not None
    assert key.headers() == {"Authorization": "Bearer abc"}
    for wrong in ("abc\r\nX-Other: 1", "ab c", "ключ"):
        monkeypatch.setenv(KEY_VARIABLE, wrong)
        with pytest.raises(ConfigError, match=KEY_VARIABLE) as caught:
            ApiKey.from_environment(KEY_VARIABLE)
        assert wrong not in str(caught.value)


def test_a_misspelt_agent_suggests_the_nearest_name_and_opens_nothing():
    with pytest.raises(ConfigError, match="did you mean 'openai'"):
        make_agent(f"opneai:{URL}#qwen")
    check_agent(f"react:openai:{URL}#qwen")
    check_agent("reflexion:vllm:models/x")


def test_the_shared_client_sends_get_requests_without_a_body():
    with openai_server() as served:
        client = JsonClient([served.url], max_attempts=1)
        assert client.get("/models")["data"] == [MODEL]
        with pytest.raises(ServiceError, match="status 404"):
            client.get("/nothing")

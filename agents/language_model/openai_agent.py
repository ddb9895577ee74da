"""A served model as an agent: ``openai:URL#MODEL``, or ``openai:URL#MODEL@FOLDER``.

The server samples; prompts are encoded here, so the model's tokenizer must be available: in FOLDER, in MODEL itself if it
is a folder (as with ``vllm serve DIR``), or in the folder that the server reports. An API key is read from the
environment variable CREDITFLOW_API_KEY only.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from creditflow.agents.backends.base import GenerationError, Sampling
from creditflow.agents.backends.openai_backend import JsonPoster, OpenAIBackend
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.pretrained import (
    ModelOptions,
    PromptingConfig,
    folder_end_ids,
    folder_prompting,
    open_tokenizer,
)
from creditflow.envs.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    ServiceError,
    short_repr,
    unknown_name_error,
)
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey, check_url, redacted_repr

__all__ = ["KEY_VARIABLE", "make_openai_agent", "parse_served"]

KEY_VARIABLE: Final = "CREDITFLOW_API_KEY"
TIMEOUT: Final = 300.0  # seconds for one request: a long completion on a busy server
MAX_RESPONSE: Final = 16 * 2**20  # bytes


class Client(JsonPoster, Protocol):
    """The part of ``JsonClient`` that is needed here."""

    def get(self, path: str) -> Any:
        """Get a path; returns the JSON response."""
        ...


def parse_served(argument: str) -> tuple[str, str, str]:
    """Split the argument of ``openai:`` into URL, model and folder ("" if none).

    >>> parse_served("http://127.0.0.1:8000/v1#qwen@models/qwen")
    ('http://127.0.0.1:8000/v1', 'qwen', 'models/qwen')

    Raises:
        ConfigError: it is malformed, or the URL contains anything that could be a password or key.
    """
    url, _, rest = argument.partition("#")
    model, sign, folder = rest.rpartition("@") if "@" in rest else (rest, "", "")
    if not url or not model or (sign and not folder):
        raise ConfigError(
            "a served model is written openai:URL#MODEL or openai:URL#MODEL@FOLDER, as in "
            f"openai:http://127.0.0.1:8000/v1#qwen@models/qwen; got {redacted_repr(argument)}"
        )
    try:
        return check_url(url), model, folder
    except ConfigError as error:
        raise ConfigError(f"openai: {error} ({KEY_VARIABLE})") from None


def make_openai_agent(
    argument: str,
    *,
    sampling: Sampling | None = None,
    prompting: PromptingConfig | None = None,
    device: str = "auto",
    client: Client | None = None,
    options: ModelOptions | None = None,
) -> LanguageModelAgent:
    """The agent ``openai:URL#MODEL``.

    Args:
        argument: the text after ``openai:``.
        sampling, prompting: see ``make_hf_agent``.
        device: only "auto": the server chooses its own.
        client: replaces the HTTP client, in tests.
        options: of a command.

    Raises:
        ConfigError: a malformed argument, a device, a model that the server does not have, or no tokenizer.
        GenerationError: the server does not respond.
        MissingExtraError: transformers, which opens tokenizers, is not installed.
    """
    url, model, named_folder = parse_served(argument)
    if device != "auto":
        raise ConfigError(
            f"the device of a served model is chosen by its server: do not set it, got {short_repr(device)}"
        )
    (options or ModelOptions()).require_elsewhere(f"openai:{url}#{model}")
    if find_spec("transformers") is None:
        raise MissingExtraError("transformers", "train")
    if client is None:
        client = JsonClient(
            [url], timeout=TIMEOUT, max_attempts=5, max_bytes=MAX_RESPONSE, key=ApiKey.from_environment(KEY_VARIABLE)
        )
    served = _served(client, url, model)
    folder = named_folder or next((name for name in (model, str(served.get("root"))) if Path(name).is_dir()), "")
    if not folder:
        raise ConfigError(
            f"the tokenizer of {model!r} was not found: write openai:{url}#{model}@FOLDER with a folder that contains it"
        )
    try:
        tokenizer = open_tokenizer(folder)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot open the tokenizer in {folder!r}: {error}") from error
    prompting, sampling, ends = *folder_prompting(folder, prompting, sampling, options), folder_end_ids(folder)
    context = served.get("max_model_len")
    backend = OpenAIBackend(
        client,
        model,
        prompting.conversations(tokenizer, ends).chat.encode_completion,
        version=f"served:{model}",
        context=context if isinstance(context, int) else 0,
    )
    return prompting.agent(backend, tokenizer, sampling, name=f"openai:{model}", end_ids=ends)


def _served(client: Client, url: str, model: str) -> dict[str, Any]:
    """The server's entry for the model."""
    try:
        response = client.get("/models")
    except ServiceError as error:
        raise GenerationError(
            f"{url}: expected an OpenAI-compatible server (its base URL ends in /v1): {error}"
        ) from error
    try:
        models = {str(entry["id"]): dict(entry) for entry in response["data"]}
    except (KeyError, TypeError, ValueError) as error:
        raise GenerationError(
            f"{url}/models: expected a list of models under 'data', got {short_repr(response, 120)}"
        ) from error
    if model not in models:
        raise unknown_name_error(f"model at {url}", model, models)
    return models[model]

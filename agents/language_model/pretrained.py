"""Open a Hugging Face model as an agent: ``hf:PATH``. torch and transformers are imported only then.

A model that the trainer wrote has ``creditflow_agent.json`` next to its weights: the prompting and sampling settings it was
trained with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.agent import Conversations, LanguageModelAgent
from creditflow.agents.language_model.chat import make_chat
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.text_ids import added_tokens
from creditflow.agents.models.lora import adapter_base, load_adapter, merge_adapter
from creditflow.agents.models.pictures import attach_pictures, find_pictures, open_pictures, pictures_of
from creditflow.agents.models.vision import VISION_FAMILIES
from creditflow.agents.prompts import make_prompt
from creditflow.envs.errors import ConfigError, DataError, MissingExtraError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import loading, naming
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.reading.limits import SETTINGS
from creditflow.envs.reading.model_folders import check_model_files, model_settings, saved_tokenizer

__all__ = [
    "AGENT_FILE",
    "DTYPES",
    "ModelOptions",
    "PromptingConfig",
    "folder_end_ids",
    "folder_prompting",
    "generation_ends",
    "make_hf_agent",
    "open_pretrained",
    "open_tokenizer",
    "read_agent_file",
    "require_torch",
    "write_agent_file",
]

# written beside a trained model: its prompting and sampling settings, so that hf:PATH prompts it in the same way
AGENT_FILE = "creditflow_agent.json"
VERSION = 2
DTYPES = ("float32", "bfloat16", "float16")


def require_torch() -> None:
    """Raise MissingExtraError unless torch and transformers are installed."""
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "train")


@dataclass(frozen=True, kw_only=True)
class PromptingConfig:
    """How the model is prompted.

    Attributes:
        prompt: name of a prompt template ("think-v1", "action-v1", "terse-v1").
        dialect: output format of completions ("think", "action", "bare", "verl_agent:ENV").
        chat: "template" (the tokenizer's own chat template) or "plain" (running text, for base models).
        chat_options: options of the chat template, such as {"enable_thinking": false}.
        history: "append" (one growing conversation) or "window" (only the last turns).
        window: number of past turns in a windowed prompt.
        max_context: maximum length of prompt and completion together, in tokens; 0 for the model's own limit.
    """

    prompt: str = "think-v1"
    dialect: str = "think"
    chat: Literal["template", "plain"] = "template"
    chat_options: dict[str, Any] | None = None
    history: Literal["append", "window"] = "append"
    window: int = 2
    max_context: int = 0

    def __post_init__(self) -> None:
        if min(self.window, self.max_context) < 0:
            raise ConfigError(f"window and max_context must not be negative, got {self.window} and {self.max_context}")

    def conversations(self, tokenizer: Any, end_ids: tuple[int, ...] = ()) -> Conversations:
        """Conversations with these prompting settings."""
        chat = make_chat(self.chat, tokenizer, self.chat_options, end_ids)
        return Conversations(make_prompt(self.prompt), chat, self.history, self.window, encoder=pictures_of(tokenizer))

    def agent(
        self,
        backend: Any,
        tokenizer: Any,
        sampling: Sampling,
        *,
        name: str = "lm",
        end_ids: tuple[int, ...] | None = None,
    ) -> LanguageModelAgent:
        """A language-model agent with these prompting settings.

        Args:
            backend: samples completions.
            tokenizer: the model's tokenizer.
            sampling: sampling settings.
            name: agent name in logs.
            end_ids: end tokens of the model beside the tokenizer's; None takes those of the backend's model.
        """
        ends = generation_ends(getattr(backend, "model", None)) if end_ids is None else end_ids
        return LanguageModelAgent(
            backend,
            self.conversations(tokenizer, ends),
            make_dialect(self.dialect),
            sampling,
            name=name,
            max_context=self.max_context,
        )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What the options of a command change in the settings of a model's folder; None keeps them.

    Attributes:
        prompt, dialect, chat, history, window: see ``PromptingConfig``; a window alone also sets the history to it.
        max_new_tokens, temperature: see ``Sampling``.
        dtype: type of the weights; "" for the agent's own default.
        threads: of the processor, for a model in this process; 0 for torch's default.
    """

    prompt: str | None = None
    dialect: str | None = None
    chat: str | None = None
    history: Literal["append", "window"] | None = None
    window: int | None = None
    max_new_tokens: int | None = None
    temperature: float | None = None
    dtype: str = ""
    threads: int = 0

    def given(self) -> dict[str, Any]:
        """The options that are set."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    def settings(self, prompting: PromptingConfig, sampling: Sampling) -> tuple[PromptingConfig, Sampling]:
        """The settings with these options."""
        changes = {name: value for name, value in asdict(self).items() if value is not None}
        if "window" in changes:
            changes.setdefault("history", "window")
        prompting = replace(prompting, **{f.name: changes[f.name] for f in fields(prompting) if f.name in changes})
        return prompting, replace(sampling, **{f.name: changes[f.name] for f in fields(sampling) if f.name in changes})

    def require_elsewhere(self, agent: str) -> None:
        """Raise ConfigError for options of a model in this process, for one that is not."""
        for name, value in (("--dtype", self.dtype), ("--threads", self.threads)):
            if value:
                raise ConfigError(f"{name} is for a model in this process (hf:PATH), not for {agent}; leave it out")


def write_agent_file(path: Path, prompting: PromptingConfig, sampling: Sampling) -> None:
    """Write the prompting and sampling settings of a trained model."""
    data = {"format_version": VERSION, "prompting": asdict(prompting), "sampling": asdict(sampling)}
    with atomic_writer(path) as stream:
        stream.write(json.dumps(data, indent=1) + "\n")


def read_agent_file(path: Path) -> tuple[PromptingConfig, Sampling]:
    """Read the prompting and sampling settings of a trained model.

    Raises:
        DataError: the file is malformed, or of another version.
    """
    data: Any = read_json(path, SETTINGS)
    try:
        if data["format_version"] != VERSION:
            raise DataError(f"{path}: format_version {data['format_version']!r}, expected {VERSION}")
        for section, kind in (("prompting", PromptingConfig), ("sampling", Sampling)):
            _check(section, data[section], kind())
        return PromptingConfig(**data["prompting"]), Sampling(**data["sampling"])
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ConfigError,
    ) as error:  # raised by the dataclasses for wrong values
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not the prompting and sampling settings of a model: {error}") from error


def _check(part: str, given: Mapping[str, Any], defaults: Sampling | PromptingConfig) -> None:
    """Raise ConfigError unless the given settings have the names and types of the defaults."""
    names = [field.name for field in fields(defaults)]
    for name, value in given.items():
        if name not in names:
            raise unknown_name_error(f"field of {part}", name, names)
        default = getattr(defaults, name)
        kinds: tuple[type, ...] = (type(default),)
        if default is None or type(default) is float:
            kinds = (dict, type(None)) if default is None else (int, float)
        if type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise ConfigError(f"{part}.{name} must be of type {expected}, got {short_repr(value)}")


def folder_prompting(
    folder: str, prompting: PromptingConfig | None, sampling: Sampling | None, options: ModelOptions | None = None
) -> tuple[PromptingConfig, Sampling]:
    """Prompting and sampling settings: those given, else those the trainer saved in the folder, else the defaults.

    Options of a command change them.
    """
    saved = Path(folder) / AGENT_FILE
    saved_settings = read_agent_file(saved) if saved.is_file() else (PromptingConfig(), Sampling())
    return (options or ModelOptions()).settings(prompting or saved_settings[0], sampling or saved_settings[1])


def generation_ends(model: Any) -> tuple[int, ...]:
    """End tokens in a model's generation config.

    Raises:
        DataError: they are not token ids.
    """
    eos = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = () if eos is None else (eos,)
    if isinstance(eos, list | tuple):
        ends = tuple(eos)
    if not all(type(end) is int for end in ends):
        raise DataError(f"eos_token_id of the generation config must be token ids, got {short_repr(eos)}")
    return ends


def folder_end_ids(folder: str) -> tuple[int, ...]:
    """End tokens in the folder's generation configuration.

    Raises:
        DataError: the file is malformed.
    """
    path = Path(folder) / "generation_config.json"
    if not path.is_file():
        return ()
    ends = model_settings(path).get("eos_token_id")
    ids = [] if ends is None else [ends]
    if isinstance(ends, list):
        ids = ends
    if not all(type(number) is int for number in ids):
        raise DataError(f"{path}: expected token ids under eos_token_id, got {str(ends)[:60]}")
    return tuple(ids)


def open_pretrained(path: str, *, device: str = "auto", dtype: str = "float32") -> tuple[Any, Any]:
    """Model and tokenizer of a Hugging Face folder or name, or of a LoRA adapter's folder, put into its base.

    Nothing in the folder is executed: remote code stays off, and weights are read from safetensors only.

    Of a vision-language model the tokenizer carries the encoder of its pictures (``pictures_of``).

    Raises:
        MissingExtraError: torch or transformers is not installed.
        DataError: the folder is not a causal language model with a tokenizer, or lacks weights; or an adapter does not fit.
        ConfigError: model, tokenizer and image processor do not belong together.
    """
    require_torch()
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device)
    if base := adapter_base(path):
        with naming(path):
            model, tokenizer = open_pretrained(base, device=device, dtype=dtype)
            load_adapter(model, path)
        return model, tokenizer
    check_model_files(path)
    tokenizer = open_tokenizer(path)
    with loading(f"cannot open {path!r} as a causal language model"):
        vision = AutoConfig.from_pretrained(path, trust_remote_code=False).model_type in VISION_FAMILIES
        model, report = (AutoModelForImageTextToText if vision else AutoModelForCausalLM).from_pretrained(
            path,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    if missing := sorted(report["missing_keys"]):  # transformers would initialise them at random
        raise DataError(f"{path}: its weights lack {len(missing)} tensors, such as {missing[0]}; get the model again")
    if vision:
        encoder = pictures_of(tokenizer) or open_pictures(path, tokenizer)
        encoder.check_model(model)
        attach_pictures(tokenizer, encoder)
    _require_rows(path, model, tokenizer)
    return model.to(where), tokenizer


def _require_rows(path: str, model: Any, tokenizer: Any) -> None:
    """Check that the embedding has a row for every token that a conversation can contain.

    An added token may lie beyond: tokenizers of text models keep, for instance, the one that stands for pictures.

    Raises:
        ConfigError: it has too few rows.
    """
    rows = model.get_input_embeddings().weight.shape[0]
    added, template = added_tokens(tokenizer), str(getattr(tokenizer, "chat_template", "") or "")
    used = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}
    used |= {number for token, number in added.items() if token in template}
    beyond = [
        token
        for token, number in tokenizer.get_vocab().items()
        if number >= rows and (number in used or token not in added)
    ]
    if beyond:
        raise ConfigError(
            f"{path}: the model's embedding has {rows} rows, and {len(beyond)} tokens of its tokenizer lie beyond, such as "
            f"{short_repr(min(beyond))}: take the tokenizer that belongs to the model, or give the model more rows "
            "(model.resize_token_embeddings(len(tokenizer)); model.save_pretrained(…)) and train them"
        )


def open_tokenizer(path: str | Path, *, pictures: bool = False) -> Any:
    """The tokenizer of a folder or name, exactly as it was saved; of a vision-language model with the encoder of its pictures.

    Args:
        path: a folder, or a name on the Hub.
        pictures: whether the encoder must be there; otherwise it is only looked for in a folder.

    Raises:
        DataError: there is none, or it is damaged.
    """
    tokenizer = saved_tokenizer(path)
    encoder = (open_pictures if pictures else find_pictures)(path, tokenizer)
    return tokenizer if encoder is None else attach_pictures(tokenizer, encoder)


def make_hf_agent(
    argument: str,
    *,
    sampling: Sampling | None = None,
    prompting: PromptingConfig | None = None,
    device: str = "auto",
    options: ModelOptions | None = None,
) -> LanguageModelAgent:
    """The agent ``hf:PATH``.

    A folder written by the trainer contains the prompting settings of its model; for any other they are ``PromptingConfig()``.

    Args:
        argument: folder or name of a model.
        sampling: replaces the folder's sampling settings (default: temperature 1, at most 256 new tokens).
        prompting: replaces the folder's prompting settings.
        device: "auto", "cpu", "cuda", …
        options: of a command.
    """
    if not argument:
        raise ConfigError("missing model path; write hf:PATH")
    options = options or ModelOptions()
    if options.dtype not in ("", *DTYPES):
        raise unknown_name_error("--dtype", options.dtype, DTYPES)
    saved_prompting, saved_sampling = folder_prompting(argument, prompting, sampling, options)
    model, tokenizer = open_pretrained(argument, device=device, dtype=options.dtype or "float32")
    import torch

    from creditflow.agents.backends.transformers_backend import TransformersBackend

    if options.threads:
        torch.set_num_threads(options.threads)
    merge_adapter(model)  # its weights do not change any more, and a layer with an adapter takes several times as long
    with naming(argument):
        return saved_prompting.agent(
            TransformersBackend(model, version=argument), tokenizer, saved_sampling, name=f"hf:{argument}"
        )

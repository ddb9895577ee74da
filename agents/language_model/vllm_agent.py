"""A model folder opened by vLLM in this process, as an agent: ``vllm:PATH``."""

from __future__ import annotations

from dataclasses import replace

from creditflow.agents.backends.base import Sampling
from creditflow.agents.backends.vllm.backend import VllmBackend
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.release import vllm_release
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.pretrained import (
    ModelOptions,
    PromptingConfig,
    folder_end_ids,
    folder_prompting,
    open_tokenizer,
    require_torch,
)
from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.model_folders import check_model_files

__all__ = ["make_vllm_agent"]


def make_vllm_agent(
    argument: str,
    *,
    sampling: Sampling | None = None,
    prompting: PromptingConfig | None = None,
    device: str = "auto",
    config: VllmConfig | None = None,
    seed: int = 0,
    options: ModelOptions | None = None,
) -> LanguageModelAgent:
    """The agent ``vllm:PATH``: float32 on a CPU, bfloat16 on a GPU.

    Args:
        argument: a model folder.
        sampling, prompting: see ``make_hf_agent``.
        device: "auto", or the device type that the installed vLLM was built for.
        config: engine settings; the default takes 90 % of a GPU's memory, since nothing else uses it.
        seed: seed of the engine.
        options: of a command.

    Raises:
        ConfigError: no folder, an unsupported release, or one built for another device.
        DataError: not a model folder.
        MissingExtraError: vLLM, torch or transformers is not installed.
    """
    if not argument:
        raise ConfigError("missing model path; write vllm:PATH")
    require_torch()
    release = vllm_release()
    kind = "cpu" if release.cpu else "cuda"
    if device != "auto" and device.partition(":")[0] != kind:
        raise ConfigError(f"{release.distribution} {release.version} runs on {kind}, got device {device!r}")
    check_model_files(argument)
    from creditflow.agents.backends.vllm.engine import VllmEngine

    try:
        tokenizer = open_tokenizer(argument)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot open the tokenizer in {argument!r}: {error}") from error
    options = options or ModelOptions()
    replace(options, dtype="").require_elsewhere(f"vllm:{argument}")
    dtype = options.dtype or ("float32" if release.cpu else "bfloat16")
    prompting, sampling = folder_prompting(argument, prompting, sampling, options)
    engine = VllmEngine(argument, dtype=dtype, config=config or VllmConfig(memory=0.9), seed=seed)
    return prompting.agent(
        VllmBackend(engine, version=argument),
        tokenizer,
        sampling,
        name=f"vllm:{argument}",
        end_ids=folder_end_ids(argument),
    )

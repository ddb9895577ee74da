"""What vLLM is asked and what it answers: options, sampling parameters, completions, and an unchanged host process."""

from __future__ import annotations

import os
import random  # noqa: TID251 - vLLM seeds the global state, which is restored
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.agents.backends.base import Completion, GenerationError, Sampling
from creditflow.agents.backends.engine import NO_PICTURES, ProbeResult
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.release import Release
from creditflow.envs.errors import ConfigError
from creditflow.envs.reading.model_folders import model_settings

__all__ = [
    "completion_of",
    "completion_parameters",
    "completions_of",
    "engine_options",
    "probe_parameters",
    "probe_result",
    "starting",
    "unchanged_host",
]

# read by vLLM when it is imported; the user's own settings are kept
ENVIRONMENT: Final = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
CPU_BLOCK: Final = 32
PROBE_LOGPROBS: Final = 20  # log-probabilities per position; the engine's own limit


def engine_options(
    folder: str, dtype: str, config: VllmConfig, seed: int, *, empty: bool, on_cpu: bool
) -> dict[str, Any]:
    """Arguments of vLLM's engine.

    Raises:
        ConfigError: the folder's model is a vision-language model.
    """
    if "image_token_id" in model_settings(Path(folder) / "config.json"):
        raise ConfigError(
            f"{folder}: vLLM samples from language models here, and this one reads pictures: {NO_PICTURES}"
        )
    kv_gib = config.kv_gib or (1.0 if on_cpu else 0.0)
    chosen = {
        "block_size": config.block_size or (CPU_BLOCK if on_cpu else None),
        "kv_cache_memory_bytes": int(kv_gib * 2**30) or None,
        "max_model_len": config.max_context or None,
    }
    return {
        "model": folder,
        "skip_tokenizer_init": True,  # ids in, ids out
        "generation_config": "vllm",  # the model's own sampling defaults must not apply
        "dtype": dtype,
        "seed": seed,
        "load_format": "dummy" if empty else "auto",
        "use_tqdm_on_load": False,
        "logprobs_mode": "processed_logprobs",  # at the temperature that was sampled at
        "enable_prefix_caching": True,
        "gpu_memory_utilization": config.memory,
        "max_num_seqs": config.max_sequences,
        "enforce_eager": config.eager or on_cpu,
        "enable_sleep_mode": config.sleep and not on_cpu,  # vLLM cannot sleep on a CPU
        "distributed_executor_backend": "uni",
        "worker_extension_cls": "creditflow.agents.backends.vllm.worker.WeightReceiver",
        **{name: value for name, value in chosen.items() if value is not None},
    }


def completion_parameters(sampling: Sampling, end_ids: frozenset[int]) -> dict[str, Any]:
    """Sampling parameters of completions."""
    return {
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_new_tokens,
        "stop_token_ids": sorted(end_ids),
        "ignore_eos": True,  # only ``end_ids`` end a completion
        "logprobs": 0,  # of the sampled token
        "detokenize": False,
    }


def probe_parameters(tokens: int) -> dict[str, Any]:
    """Sampling parameters of the probe."""
    return {
        "temperature": 0.0,
        "max_tokens": tokens,
        "logprobs": PROBE_LOGPROBS,
        "ignore_eos": True,
        "detokenize": False,
    }


def probe_result(output: Any) -> ProbeResult:
    """The probe's continuation in one of vLLM's outputs."""
    [continuation] = output.outputs
    return ProbeResult(np.asarray(continuation.token_ids, np.int32), tuple(map(_by_token, continuation.logprobs)))


def _by_token(row: Mapping[int, Any]) -> dict[int, float]:
    return {int(token): float(entry.logprob) for token, entry in row.items()}


def completions_of(output: Any) -> list[Completion]:
    """The completions in vLLM's output for one prompt."""
    return [completion_of(completion) for completion in output.outputs]


def completion_of(output: Any) -> Completion:
    """The completion in one of vLLM's outputs."""
    ids = np.asarray(output.token_ids, np.int32)
    logprobs = [row[token].logprob for token, row in zip(output.token_ids, output.logprobs, strict=True)]
    if not len(ids) or not np.isfinite(logprobs).all():
        raise GenerationError(
            f"vLLM returned a completion of {len(ids)} tokens with log-probabilities {logprobs[:8]}; expected at least one "
            "token, and finite numbers: are the weights finite?"
        )
    return Completion(ids, np.asarray(logprobs, np.float32))


@contextmanager
def starting(release: Release, **environment: str) -> Iterator[None]:
    """Start an engine in the block: with these environment variables, which stay set, and else an unchanged host.

    Raises:
        ConfigError: a model or setting that vLLM rejects.
        GenerationError: any other failure to start.
    """
    for name, value in {**ENVIRONMENT, **environment}.items():
        os.environ.setdefault(name, value)
    with unchanged_host(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of deprecated calls of its own
        try:
            yield
        except ValueError as error:
            raise ConfigError(f"vLLM {release.version} rejects the model or its settings: {error}") from error
        except Exception as error:  # a library, memory, a device
            raise GenerationError(f"vLLM {release.version} did not start: {type(error).__name__}: {error}") from error


@contextmanager
def unchanged_host() -> Iterator[None]:
    """Undo what vLLM changes in its host process: the global random states and torch's thread setter.

    Its newer model runner draws seeds from NumPy's global state, and starting seeds Python's, NumPy's and torch's.
    """
    import torch

    setter, threads = torch.set_num_threads, torch.get_num_threads()
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 - vLLM draws from the global state
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002 - the host's global state is as before vLLM drew from it
            torch.set_num_threads = setter
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)

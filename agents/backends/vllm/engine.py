"""vLLM in this process, behind the interface ``Engine``.

One process with one worker starts fastest and has the fewest parts that can hang. vLLM changes its host process when it
starts (torch's thread setter, the global random state); these changes are undone.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationError, Sampling
from creditflow.agents.backends.engine import ProbeResult, UniquePrompt
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.release import vllm_release
from creditflow.envs.errors import ConfigError

__all__ = ["VllmEngine"]

# read by vLLM when it is imported; the user's own settings are kept
ENVIRONMENT: Final = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
CPU_BLOCK: Final = 32
PROBE_LOGPROBS: Final = 20  # log-probabilities per position; the engine's own limit


class VllmEngine:
    """One ``vllm.LLM``.

    Args:
        folder: a model folder: configuration, and weights unless ``empty``.
        dtype: type that the sampler computes in: "float32", "bfloat16", …
        config: engine settings.
        seed: seed of the engine.
        empty: start with dummy weights, which the first ``load`` replaces.

    Attributes:
        release: the installed vLLM release.
        context, block_size, exact: see ``Engine``.

    Raises:
        MissingExtraError: vLLM is not installed.
        ConfigError: an unsupported release, or a model or setting that vLLM rejects.
        GenerationError: the engine did not start.
    """

    def __init__(
        self, folder: str, *, dtype: str, config: VllmConfig | None = None, seed: int = 0, empty: bool = False
    ) -> None:
        self.release = vllm_release()
        config = config or VllmConfig()
        self.exact = dtype == "float32"
        on_cpu = self.release.cpu
        kv_gib = config.kv_gib or (1.0 if on_cpu else 0.0)
        options: dict[str, Any] = {
            "block_size": config.block_size or (CPU_BLOCK if on_cpu else None),
            "kv_cache_memory_bytes": int(kv_gib * 2**30) or None,
            "max_model_len": config.max_context or None,
        }
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        gc.collect()  # so that an unreferenced engine shuts down now, not while this one is running
        with _unchanged_host(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of deprecated calls of its own
            try:
                import vllm

                self._parameters = vllm.SamplingParams
                self._llm = vllm.LLM(
                    model=folder,
                    skip_tokenizer_init=True,  # ids in, ids out
                    generation_config="vllm",  # the model's own sampling defaults must not apply
                    dtype=dtype,
                    seed=seed,
                    load_format="dummy" if empty else "auto",
                    use_tqdm_on_load=False,
                    logprobs_mode="processed_logprobs",  # at the temperature that was sampled at
                    enable_prefix_caching=True,
                    gpu_memory_utilization=config.memory,
                    max_num_seqs=config.max_sequences,
                    enforce_eager=config.eager or on_cpu,
                    enable_sleep_mode=config.sleep and not on_cpu,
                    distributed_executor_backend="uni",
                    worker_extension_cls="creditflow.agents.backends.vllm.worker.WeightReceiver",
                    **{name: value for name, value in options.items() if value is not None},
                )
            except ValueError as error:
                raise ConfigError(f"vLLM {self.release.version} rejects the model or its settings: {error}") from error
            except Exception as error:  # any other failure to start: a library, memory, a device
                raise GenerationError(
                    f"vLLM {self.release.version} did not start: {type(error).__name__}: {error}"
                ) from error
        self.context = int(self._llm.model_config.max_model_len)
        self.block_size = int(self._llm.llm_engine.vllm_config.cache_config.block_size)
        self._sleeps = config.sleep and not on_cpu  # vLLM cannot sleep on a CPU
        self._broken: BaseException | None = None
        _keep_alive_together(self)

    def complete(
        self, prompts: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int], seed: int
    ) -> list[list[Completion]]:
        """Generate the completions of every prompt.

        No request has a seed of its own: a seeded request crashes a CPU engine when its prompt is split over two steps.

        Raises:
            GenerationError: the engine failed.
        """
        parameters = [
            self._parameters(
                n=len(one.places),
                temperature=sampling.temperature,
                max_tokens=sampling.max_new_tokens,
                stop_token_ids=sorted(end_ids),
                ignore_eos=True,  # only ``end_ids`` end a completion
                logprobs=0,  # of the sampled token
                detokenize=False,
            )
            for one in prompts
        ]
        outputs = self._generate([one.ids for one in prompts], parameters, seed)
        return [[_completion(output) for output in one.outputs] for one in outputs]

    def probe(self, ids: NDArray[np.int32], tokens: int) -> ProbeResult:
        """Continue a fixed prompt on the same path as completions, cached blocks included."""
        parameters = self._parameters(
            temperature=0.0, max_tokens=tokens, logprobs=PROBE_LOGPROBS, ignore_eos=True, detokenize=False
        )
        [output] = self._generate([ids], [parameters], 0)
        [continuation] = output.outputs
        table = tuple({int(token): float(one.logprob) for token, one in row.items()} for row in continuation.logprobs)
        return ProbeResult(np.asarray(continuation.token_ids, np.int32), table)

    def load(self, folder: str) -> int:
        """Load the weights in a folder; returns how many tensors every worker read, the minimum if they differ.

        Raises:
            GenerationError: the worker failed.
        """
        return min(int(read) for read in self._call("collective_rpc", "creditflow_load", args=(folder,)))

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache; returns whether it was emptied."""
        return bool(self._call("reset_prefix_cache"))

    def sleep(self) -> None:
        """Drop weights and cache (weights are pushed again); does nothing if the engine cannot sleep."""
        if self._sleeps:
            self._call("sleep", level=2)

    def wake(self, part: Literal["weights", "kv_cache"]) -> None:
        """Allocate the memory of a part again."""
        if self._sleeps:
            self._call("wake_up", tags=[part])

    def _generate(self, prompts: Sequence[NDArray[np.int32]], parameters: list[Any], seed: int) -> list[Any]:
        import torch

        with _unchanged_host():
            torch.manual_seed(seed)
            inputs = [{"prompt_token_ids": ids.tolist()} for ids in prompts]
            outputs: list[Any] = self._call("generate", inputs, parameters, use_tqdm=False)
        return outputs

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self._broken is not None:
            raise GenerationError(f"vLLM's engine failed in an earlier call: {self._broken}") from self._broken
        try:
            return getattr(self._llm, name)(*arguments, **options)
        except Exception as error:  # after any error the engine is dead; the next call must not wait for it
            self._broken = error
            raise GenerationError(f"vLLM's engine failed in {name}: {type(error).__name__}: {error}") from error


_open: WeakSet[VllmEngine] = WeakSet()
_kept_alive: list[VllmEngine] = []


def _keep_alive_together(engine: VllmEngine) -> None:
    """Keep engines alive that existed at the same time.

    When an engine is collected, it shuts down process groups that all engines of the process share.
    """
    if others := list(_open):
        _kept_alive.extend([*others, engine])
    _open.add(engine)


def _completion(output: Any) -> Completion:
    ids = np.asarray(output.token_ids, np.int32)
    logprobs = [row[token].logprob for token, row in zip(output.token_ids, output.logprobs, strict=True)]
    if not len(ids) or not np.isfinite(logprobs).all():
        raise GenerationError(
            f"vLLM returned a completion of {len(ids)} tokens with log-probabilities {logprobs[:8]}; expected at least one "
            "token, and finite numbers: are the weights finite?"
        )
    return Completion(ids, np.asarray(logprobs, np.float32))


@contextmanager
def _unchanged_host() -> Iterator[None]:
    """Undo what vLLM changes in its host process: the global random state and torch's thread setter."""
    import torch

    setter, threads = torch.set_num_threads, torch.get_num_threads()
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            torch.set_num_threads = setter
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)

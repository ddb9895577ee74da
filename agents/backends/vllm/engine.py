"""vLLM in this process.

One process with one worker starts fastest and has the fewest parts that can hang. vLLM changes its host process when it
starts (torch's thread setter, the global random state); these changes are undone.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationError, Sampling
from creditflow.agents.backends.engine import ProbeResult, UniquePrompt
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.parts import (
    completion_parameters,
    completions_of,
    engine_options,
    probe_parameters,
    probe_result,
    starting,
    unchanged_host,
)
from creditflow.agents.backends.vllm.release import vllm_release

__all__ = ["VllmEngine"]


class VllmEngine:
    """One ``vllm.LLM``.

    Args:
        folder: a model folder: configuration, and weights unless ``empty``.
        dtype: type that the sampler computes in: "float32", "bfloat16", …
        config: engine settings.
        seed: seed of the engine.
        empty: start with dummy weights, which the first ``receive`` replaces.

    Attributes:
        release: the installed vLLM release.
        context: maximum sequence length.
        block_size: tokens in a block of its prefix cache.
        exact: whether it computes in float32.

    Raises:
        MissingExtraError: vLLM is not installed.
        ConfigError: an unsupported release, or a model or setting that vLLM rejects.
        GenerationError: the engine did not start.
    """

    def __init__(
        self, folder: str, *, dtype: str, config: VllmConfig | None = None, seed: int = 0, empty: bool = False
    ) -> None:
        self.release = vllm_release()
        self.exact = dtype == "float32"
        options = engine_options(folder, dtype, config or VllmConfig(), seed, empty=empty, on_cpu=self.release.cpu)
        self._sleeps = bool(options["enable_sleep_mode"])
        self._broken: BaseException | None = None
        self._llm = self._start(options)
        self.context = int(self._llm.model_config.max_model_len)

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

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call vLLM; after a failure the engine counts as dead, and no later call waits for it."""
        if self._broken is not None:
            raise GenerationError(f"vLLM's engine failed in an earlier call: {self._broken}") from self._broken
        try:
            return getattr(self._llm, name)(*arguments, **options)
        except Exception as error:
            self._broken = error
            raise GenerationError(f"vLLM's engine failed in {name}: {type(error).__name__}: {error}") from error

    def _start(self, options: dict[str, Any]) -> Any:
        gc.collect()  # so that an unreferenced engine shuts down now, not while this one is running
        with starting(self.release, VLLM_ENABLE_V1_MULTIPROCESSING="0"):
            import vllm

            self._parameters = vllm.SamplingParams
            llm = vllm.LLM(**options)
        self.block_size = int(llm.llm_engine.vllm_config.cache_config.block_size)
        _keep_alive_together(self)
        return llm

    def complete(
        self, prompts: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int], seed: int
    ) -> list[list[Completion]]:
        """Generate the completions of every prompt.

        No request has a seed of its own: a seeded request crashes a CPU engine when its prompt is split over two steps.

        Raises:
            GenerationError: the engine failed.
        """
        parameters = [
            self._parameters(n=len(prompt.places), **completion_parameters(sampling, end_ids)) for prompt in prompts
        ]
        outputs = self._generate([prompt.ids for prompt in prompts], parameters, seed)
        return [completions_of(output) for output in outputs]

    def probe(self, ids: NDArray[np.int32], tokens: int) -> ProbeResult:
        """Continue a fixed prompt on the same path as completions, cached blocks included."""
        [output] = self._generate([ids], [self._parameters(**probe_parameters(tokens))], 0)
        return probe_result(output)

    def receive(self, tensors: Mapping[str, Any]) -> int:
        """Load these tensors, by their names in a checkpoint; nothing is written. Returns how many the worker read.

        Raises:
            GenerationError: the worker failed.
        """
        return min(int(read) for read in self._call("collective_rpc", "creditflow_receive", args=(tensors,)))

    def _generate(self, prompts: Sequence[NDArray[np.int32]], parameters: list[Any], seed: int) -> list[Any]:
        import torch

        with unchanged_host():  # the newer model runner draws from NumPy's global state, the older one from torch's
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002, TID251 - vLLM reads this state
            token_prompts = [{"prompt_token_ids": ids.tolist()} for ids in prompts]
            outputs: list[Any] = self._call("generate", token_prompts, parameters, use_tqdm=False)
        return outputs


_open: WeakSet[VllmEngine] = WeakSet()
_kept_alive: list[VllmEngine] = []


def _keep_alive_together(engine: VllmEngine) -> None:
    """Keep engines alive that existed at the same time.

    When an engine is collected, it shuts down process groups that all engines of the process share.
    """
    if running := list(_open):
        _kept_alive.extend([*running, engine])
    _open.add(engine)

"""vLLM sampling from a model that is being trained: weights are pushed in place, and every push is checked.

A failed push is silent: unread weights, cached prefixes of the old ones, an output layer that is not updated. So the
workers must have read every tensor, the prefix cache must report that it was emptied, and then both sides compute
log-probabilities of the same probe prompt: a difference ends the run. The probe alone could miss the small step of one
update in a coarser number format.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling, WeightPushError
from creditflow.agents.backends.engine import ProbeResult
from creditflow.agents.backends.vllm.backend import VllmBackend
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.engine import VllmEngine
from creditflow.agents.backends.vllm.release import vllm_release
from creditflow.agents.models.lora import has_adapter, merged_weights
from creditflow.agents.models.vision import text_config

__all__ = ["VllmTrainedBackend", "checkpoint_tensors", "probe_differences"]

PROBE_TOKENS: Final = 4
# allowed differences of log-probabilities: the largest in float32, the mean in coarser formats, where single unlikely
# tokens differ by 0.3 with the right weights (bfloat16: mean 0.02 to 0.06 in small models, and about 1 with other weights);
# a deeper model rounds more often, so there the tolerance is a multiple of what rounding does to the model itself
FLOAT32_TOLERANCE, COARSE_TOLERANCE, LARGEST_TOLERANCE = 1e-3, 0.1, 0.5
ROUNDINGS: Final = 3.0


class VllmTrainedBackend:
    """A sampler with weights of its own, which follow a trained model.

    Args:
        model: the trained model, on its device.
        dtype: type that the sampler computes in ("float32", "bfloat16").
        config: engine settings.
        seed: seed of the engine.
        make_engine: replaces the engine, in tests; takes the folder with the model's configuration.

    Attributes:
        model: the trained model.
        context: maximum sequence length of the sampler.
        version: names the weights in logs.
        sync_numbers: "push_seconds" and "push_difference" of the last ``sync``: the largest difference of log-probabilities on
            the probe (the mean if the sampler is coarser than float32).

    Raises:
        MissingExtraError: vLLM is not installed.
        ConfigError: its release is not supported, or it does not support the model.
    """

    def __init__(
        self,
        model: Any,
        *,
        dtype: str,
        config: VllmConfig | None = None,
        seed: int = 0,
        make_engine: Callable[[str], Any] | None = None,
    ) -> None:
        config = config or VllmConfig()
        self.model, self.device = model, next(model.parameters()).device
        self._dtype = getattr(torch, dtype)
        self.sync_numbers: dict[str, float] = {}
        with tempfile.TemporaryDirectory(prefix="creditflow-model-") as folder:
            _write_config(model, folder)
            self.engine = (make_engine or _engine_maker(dtype, config, seed))(folder)
        self._sampler, self.context, self.version = VllmBackend(self.engine), self.engine.context, "0"
        self._tolerance = config.tolerance
        self._probe = _probe_ids(self.engine, text_config(model).vocab_size)
        self._state = "empty"

    def generate(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion]:
        """Generate one completion per request; see ``VllmBackend``.

        Raises:
            GenerationError: called before the first ``sync``, or while asleep.
        """
        self._check_ready()
        return self._sampler.generate(requests, sampling, end_ids)

    def _check_ready(self) -> None:
        if self._state != "ready":
            raise GenerationError(
                f"the sampler is {self._state}: call sync() first, which pushes the trained model's weights"
            )

    def sleep(self) -> None:
        """Free the GPU memory of weights and cache, if the engine can; the next ``sync`` wakes it."""
        if self._state == "ready":
            self.engine.sleep()
            self._state = "asleep"

    def sync(self, version: str = "") -> None:
        """Push the trained model's weights, empty the prefix cache, and compare both sides on the probes.

        Raises:
            WeightPushError: they differ, not every tensor was read, or the prefix cache was not emptied.
        """
        began = time.perf_counter()
        asleep, self._state = self._state == "asleep", "between two versions"
        if asleep:
            self._wake("weights")
        tensors = checkpoint_tensors(self.model)
        read = self.engine.receive(tensors)
        if asleep:
            self._wake("kv_cache")
        named = version or "the trained model"
        if read != len(tensors):
            raise WeightPushError(f"of the {len(tensors)} tensors of {named}'s weights the sampler read {read}")
        if not self.engine.reset_prefix_cache():
            raise WeightPushError(
                f"after pushing the weights of {named} the sampler's prefix cache could not be emptied: completions "
                "would continue from states of older weights. Is a generation call still running?"
            )
        seconds = time.perf_counter() - began
        probed = self.engine.probe(self._probe, PROBE_TOKENS)
        differences = probe_differences(self.model, self._probe, probed)
        difference = (
            float(differences.max() if self.engine.exact else differences.mean()) if len(differences) else float("nan")
        )
        self.sync_numbers = {"push_seconds": seconds, "push_difference": difference}
        allowed = self._tolerance or self._allowed(probed)
        if not difference <= allowed:  # NaN too
            raise WeightPushError(
                f"after pushing the weights of {named} the sampler's log-probabilities differ "
                f"by {difference:.2g} from the trained model's on the probe prompt, {allowed:.2g} is allowed: "
                "it samples from other weights or from "
                "old cached prefixes. Use generation.backend: transformers, or, if the sampler is merely coarser, a "
                "larger generation.vllm.tolerance"
            )
        self.version = version or self.version
        self._state = "ready"

    def _wake(self, part: Literal["weights", "kv_cache"]) -> None:
        """Wake a part of the engine, which cannot take blocks that torch only caches."""
        torch.cuda.empty_cache()
        self.engine.wake(part)

    def _allowed(self, probed: ProbeResult) -> float:
        """The largest difference that rounding explains: for a coarser format a multiple of what it does to the model itself."""
        if self.engine.exact:
            return FLOAT32_TOLERANCE
        with torch.autocast(self.device.type, self._dtype):
            rounded = _own_logprobs(self.model, self._probe, probed)
        rounding = np.abs(rounded - _own_logprobs(self.model, self._probe, probed)).mean() if len(rounded) else 0.0
        return float(min(max(COARSE_TOLERANCE, ROUNDINGS * rounding), LARGEST_TOLERANCE))


def _engine_maker(dtype: str, config: VllmConfig, seed: int) -> Callable[[str], VllmEngine]:
    """A function that opens the engine; checks first that vLLM is installed, before anything is written."""
    vllm_release()

    def make(folder: str) -> VllmEngine:
        return VllmEngine(folder, dtype=dtype, config=config, seed=seed, empty=True)

    return make


def _write_config(model: Any, folder: str) -> None:
    """Write the model's configuration as in a checkpoint, with its class name, which a model made from scratch lacks."""
    config = copy.deepcopy(model.config)
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)


def checkpoint_tensors(model: Any) -> dict[str, Any]:
    """The weights under the names of a checkpoint; no copies, except of an adapter's sums."""
    from transformers.core_model_loading import revert_weight_conversion
    from transformers.modeling_utils import remove_tied_weights_from_state_dict

    state = merged_weights(model) if has_adapter(model) else model.state_dict()
    tensors = revert_weight_conversion(model, remove_tied_weights_from_state_dict(dict(state), model))
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _probe_ids(engine: VllmEngine, vocabulary: int) -> NDArray[np.int32]:
    """A fixed prompt of slightly more than two full blocks, so that the prefix cache takes part."""
    longest = engine.context - PROBE_TOKENS
    length = max(1, min(2 * engine.block_size + 8, longest))
    return np.random.default_rng(0).integers(0, vocabulary, length).astype(np.int32)


def probe_differences(model: Any, prompt: NDArray[np.int32], probed: ProbeResult) -> NDArray[np.float64]:
    """Absolute differences, float64 (n,), of a sampler's log-probabilities from those of the model's own forward pass."""
    sampled = np.array([value for row in probed.logprobs for value in row.values()], np.float64)
    return np.abs(_own_logprobs(model, prompt, probed) - sampled)


def _own_logprobs(model: Any, prompt: NDArray[np.int32], probed: ProbeResult) -> NDArray[np.float64]:
    """The model's own log-probabilities, float64 (n,), of the tokens of a probe."""
    ids = np.concatenate([prompt, probed.ids]).astype(np.int64)
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            device = next(model.parameters()).device
            logits = model(input_ids=torch.from_numpy(ids)[None].to(device)).logits[0]
            table = torch.log_softmax(logits[len(prompt) - 1 : -1].float(), -1).cpu().numpy()
    finally:
        model.train(training)
    return np.array(
        [table[position, token] for position, row in enumerate(probed.logprobs) for token in row], np.float64
    )

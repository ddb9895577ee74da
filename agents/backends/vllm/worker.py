"""The part that runs inside vLLM's worker: it loads the trainer's tensors, which are in the same process.

vLLM mixes the class into its own worker by name. ``reload_weights`` is the one call that works on CPUs and GPUs: plain
``load_weights`` fails on matrices that a CPU worker has repacked for its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["WeightReceiver"]


class WeightReceiver:
    """Methods that the engine calls by name on every worker.

    The worker's own attributes are only annotated: vLLM rejects a mixed-in class that defines them.
    """

    model_runner: Any
    reload_weights: Callable[..., None]

    def creditflow_receive(self, tensors: Mapping[str, Any]) -> int:
        """Load tensors by their names in a checkpoint; returns how many were read."""
        read = 0

        def counting() -> Iterator[tuple[str, Any]]:
            nonlocal read
            for pair in tensors.items():
                read += 1
                yield pair

        self.reload_weights(weights_iterator=counting())
        _repack_tied_head(self.model_runner.get_model())
        return read


def _repack_tied_head(model: Any) -> None:
    """Update an output layer that shares the input embedding.

    A CPU worker keeps a repacked copy of the output layer, which a reload does not update: without this the sampler would
    silently keep the old output matrix.
    """
    from vllm.platforms import current_platform

    head = getattr(model, "lm_head", None)
    embedding = getattr(getattr(model, "model", None), "embed_tokens", None)
    if not current_platform.is_cpu() or not getattr(model.config, "tie_word_embeddings", False):
        return
    if head is None or embedding is None or head is embedding:
        return  # another layout; the probe after the push detects whether this is a problem
    head.weight.data = embedding.weight.data
    head.quant_method.process_weights_after_loading(head)

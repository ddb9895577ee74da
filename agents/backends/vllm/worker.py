"""What runs inside vLLM's worker: taking over weights that were written to a folder.

vLLM mixes the class into its own worker by name. ``reload_weights`` is the one call that works on CPUs and GPUs: plain
``load_weights`` meets matrices that a CPU worker has repacked for its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["WeightReceiver"]


class WeightReceiver:
    """Methods that the engine calls by name on every worker.

    Only annotations for what the worker itself has: vLLM refuses a mixed-in class with names of its own.
    """

    model_runner: Any
    reload_weights: Callable[..., None]

    def creditflow_load(self, folder: str) -> int:
        """Replace the weights by those in a folder's safetensors files; returns how many tensors there were."""
        read = 0

        def counted() -> Iterator[tuple[str, Any]]:
            nonlocal read
            for pair in _tensors(Path(folder)):
                read += 1
                yield pair

        self.reload_weights(weights_iterator=counted())
        _repack_tied_head(self.model_runner.get_model())
        return read


def _tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = file.keys()  # the file itself is no mapping
            for name in names:
                yield name, file.get_tensor(name)


def _repack_tied_head(model: Any) -> None:
    """Let an output layer that shares the input embedding follow it.

    A CPU worker packs the output layer apart, and a reload leaves that copy as it was: without this the sampler goes on
    with the old output matrix, and says nothing.
    """
    from vllm.platforms import current_platform

    head = getattr(model, "lm_head", None)
    embedding = getattr(getattr(model, "model", None), "embed_tokens", None)
    if not current_platform.is_cpu() or not getattr(model.config, "tie_word_embeddings", False):
        return
    if head is None or embedding is None or head is embedding:
        return  # another layout; the probe after the push tells whether it is a problem
    head.weight.data = embedding.weight.data
    head.quant_method.process_weights_after_loading(head)

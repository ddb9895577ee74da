"""Gradients summed over the ranks.

Every rank's loss is its part of one sum with weights of the whole minibatch, so the sum of the gradients is the gradient
of one process, whatever rows each rank has. ``DistributedDataParallel`` averages over ranks and wants every rank to take
the same number of forward passes; summing once after the micro-batches needs neither, and less traffic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch
import torch.distributed as dist

from creditflow.train.distributed.world import World

__all__ = ["sum_gradients"]

BUCKET_ELEMENTS: Final = 25_000_000  # of one all-reduce: 100 MB in float32


def sum_gradients(optimizer: Any, world: World) -> None:
    """Sum the gradients of an optimiser's parameters over the ranks, in place.

    A parameter without gradient in every rank keeps none. FSDP has summed those of sharded parameters already.
    """
    if world.alone:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"] if not hasattr(p, "full_tensor")]
    if not parameters:
        return
    present = torch.tensor([p.grad is not None for p in parameters], dtype=torch.uint8)
    dist.all_reduce(present, dist.ReduceOp.MAX)
    used = [p for p, wanted in zip(parameters, present.tolist(), strict=True) if wanted]
    for parameter in used:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    for bucket in _buckets([p.grad for p in used]):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        dist.all_reduce(flat)
        for gradient, summed in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
            gradient.copy_(summed.view_as(gradient))


def _buckets(gradients: Iterable[Any]) -> Iterator[list[Any]]:
    """Gradients of one type and device, at most ``BUCKET_ELEMENTS`` together unless one is larger."""
    bucket: list[Any] = []
    size = 0
    for gradient in gradients:
        full = bucket and size + gradient.numel() > BUCKET_ELEMENTS
        if full or (bucket and (gradient.dtype, gradient.device) != (bucket[0].dtype, bucket[0].device)):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.numel()
    if bucket:
        yield bucket

"""Weights, gradients and moments divided over the ranks (FSDP2, ``torch.distributed.fsdp.fully_shard``).

Every layer gathers its weights before its forward and its backward pass, so all ranks must take the same number of passes: a
rank with fewer micro-batches takes empty ones. A policy's layers are called one by one (the output layer only at target
tokens), so a whole pass is announced by ``run_whole``. Sampling, the reference policy's start, a separate critic and files
read ``plain_copy``, which gathers the weights; so checkpoints have one format, whatever the number of ranks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np
import torch

from creditflow.envs.errors import ConfigError
from creditflow.train.distributed.world import World
from creditflow.train.policy.batching import MicroBatch, Packing, plan_rows, to_batch
from creditflow.train.policy.samples import Row

__all__ = ["divided_like", "equal_passes", "full", "layers_of", "plain_copy", "run_whole", "shard"]

T = TypeVar("T")
_SKELETON: Final = "_creditflow_skeleton"
_WHOLE: Final = "_creditflow_whole"


def shard(model: Any, layers: Sequence[Any]) -> None:
    """Divide a model's weights over all ranks, in place.

    Args:
        model: a causal language model or a critic, equal in all ranks.
        layers: modules that gather their weights one after the other.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    skeleton = _skeleton(model)
    mesh = init_device_mesh(next(model.parameters()).device.type, (torch.distributed.get_world_size(),))
    for module in (*layers, model):
        fully_shard(module, mesh=mesh)
        module.set_gradient_divide_factor(1.0)  # losses are parts of one sum: their gradients are added
        module.set_force_sum_reduction_for_comms(True)
    object.__setattr__(model, _SKELETON, skeleton)  # not a submodule
    setattr(type(model), _WHOLE, _call)  # the class is FSDP's own
    register_fsdp_forward_method(model, _WHOLE)


def layers_of(model: Any) -> list[Any]:
    """The layers of a causal language model, or of a critic's own network.

    Raises:
        ConfigError: a family of models that names its layers otherwise.
    """
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model.decoder
    layers = getattr(decoder, "layers", None)
    if layers is None:
        raise ConfigError(f"{type(decoder).__name__} has no 'layers' to divide: use distributed.shard=false")
    return list(layers)


def _call(_model: Any, compute: Callable[[], T]) -> T:
    return compute()


def _skeleton(model: Any) -> Any:
    """A copy of a model without weights; buffers are kept, and shared weights stay shared."""
    empty = {
        id(p): torch.nn.Parameter(torch.empty_like(p, device="meta"), requires_grad=p.requires_grad)
        for p in model.parameters()
    }
    return copy.deepcopy(model, empty)


def full(tensor: Any) -> Any:
    """A tensor with the parts of all ranks; the same tensor if it is not divided."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def divided_like(tensor: Any, like: Any) -> Any:
    """This rank's part of a full tensor that all ranks have, divided as another is; the same tensor if that is not."""
    if not hasattr(like, "full_tensor"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def plain_copy(model: Any) -> Any:
    """A copy of a model with all its weights in this rank."""
    skeleton = getattr(model, _SKELETON, None)
    if skeleton is None:
        return copy.deepcopy(model)
    weights = {
        id(empty): torch.nn.Parameter(full(p.detach()).clone(), requires_grad=empty.requires_grad)
        for empty, p in zip(skeleton.parameters(), model.parameters(), strict=True)
    }
    return copy.deepcopy(skeleton, weights)


def run_whole(model: Any, compute: Callable[[], T]) -> T:
    """Run a computation that calls parts of a model; tensors of its result may need gradients."""
    whole: Callable[[Callable[[], T]], T] | None = getattr(model, _WHOLE, None)
    return compute() if whole is None else whole(compute)


@contextmanager
def equal_passes(model: Any, rows: Sequence[Row], budget: int, packing: Packing, world: World) -> Iterator[None]:
    """After the block, take the passes that other ranks take and this one has no rows for; backward too with gradients.

    Args:
        model: a causal language model or a critic.
        rows: the rows whose micro-batches the block computes, all of them.
        budget, packing: of the micro-batches.
        world: the ranks.
    """
    if not world.shard:
        yield
        return
    own = len(plan_rows(rows, budget, packing))
    most = max(world.gather(own))
    yield
    for _ in range(own, most):
        output = run_whole(model, lambda: _empty_output(model))
        if torch.is_grad_enabled():
            (0.0 * output).backward()


def _empty_output(model: Any) -> Any:
    """The sum of a model's outputs on two tokens: log-probabilities of a policy, values of a critic."""
    from creditflow.train.policy.logprobs import token_logprobs

    batch = _empty_batch(next(model.parameters()).device)
    return token_logprobs(model, batch).logprob.sum() if hasattr(model, "get_decoder") else model(batch).sum()


def _empty_batch(device: Any) -> MicroBatch:
    one = np.ones(1)
    row = Row(np.zeros(2, np.int32), one.astype(np.int64), 0 * one, one.astype(np.float32), one.astype(np.int32), 0)
    return to_batch([row], [0], device)

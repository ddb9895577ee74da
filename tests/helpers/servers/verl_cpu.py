"""verl without a GPU: a platform "cpu", FSDP's engine on it, and a sampler of transformers, by verl's own registries.

verl imports this module in every process where VERL_PLATFORM=cpu and VERL_USE_EXTERNAL_MODULES=helpers.servers.verl_cpu, with the
folder ``tests`` on PYTHONPATH; no file of verl is changed. Nothing here is fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.agents.models.pictures import pictures_of
from creditflow.agents.models.vision import picture_tensors
from creditflow.train.adapters.verl.credit import VERL

VERL.require()

import psutil
import ray
import torch
from torch.distributed.fsdp import CPUOffloadPolicy
from verl.plugin.platform import PlatformBase, PlatformRegistry

__all__ = ["CpuPlatform", "SamplerAdapter", "SamplerReplica", "SamplerServer"]

_ZEROS: Final = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
_SERVER: Final = "transformers_server_{}_0"

torch.set_num_threads(1)


class _CpuDevice(types.ModuleType):
    """``torch.cpu``, with zeros for what only accelerators count."""

    def __getattr__(self, name: str) -> Any:
        if name in _ZEROS:
            return lambda *_: 0
        if name in ("empty_cache", "ipc_collect"):
            return lambda *_: None
        if name == "get_device_name":
            return lambda *_: "CPU"
        if name == "mem_get_info":
            memory = psutil.virtual_memory()
            return lambda *_: (memory.available, memory.total)
        if name in ("get_rng_state", "set_rng_state"):
            return getattr(torch, name)
        return getattr(torch.cpu, name)


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """A CPU as verl's device."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _CpuDevice("torch_cpu")

    def is_available(self) -> bool:
        """A CPU is always there."""
        return True

    def current_device(self) -> str:
        """The name that ``tensor.to`` takes; verl's GPUs are numbers."""
        return "cpu"

    def device_count(self) -> int:
        """One."""
        return 1

    def manual_seed(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def set_device(self, *_: Any) -> None:
        """Do nothing: there is one device, which computes in order."""

    manual_seed_all = manual_seed
    synchronize = set_allocator_settings = empty_cache = profiler_start = profiler_stop = cudart = set_device

    def get_device_capability(self, *_: Any) -> tuple[None, None]:
        """None, which only CUDA has."""
        return None, None

    def communication_backend_name(self) -> str:
        """gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """The variable that Ray sets for a slot."""
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, *_: Any) -> Iterator[None]:
        """A range of no profiler."""
        yield

    def ray_resource_name(self) -> str:
        """A slot of ``ray.init(num_gpus=…)``: verl counts only GPUs and NPUs."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """None."""
        return []

    def is_ipc_supported(self) -> bool:
        """No: weights pass through memory of the host."""
        return False


_init_process_group = torch.distributed.init_process_group


def _init_once(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """verl asks for "cpu:gloo,DEVICE:BACKEND", which is here "cpu:gloo,cpu:gloo"; torch refuses the repeated device."""
    return _init_process_group("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)


torch.distributed.init_process_group = _init_once

from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")(FSDPEngineWithLMHead)
# the reference model is offloaded to pinned memory, which only an accelerator has
transformer_impl.CPUOffloadPolicy = lambda **_: CPUOffloadPolicy(pin_memory=False)


class SamplerServer:
    """What vLLM's server is to verl, by transformers' ``generate``, one request at a time."""

    def __init__(self, path: str, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        model, tokenizer = open_pretrained(path, device="cpu")
        self.model, self.encoder = model.eval(), pictures_of(tokenizer)
        self.global_steps: int | None = None

    async def generate(
        self, *_: Any, prompt_ids: Any, sampling_params: dict[str, Any], image_data: Any = None, **__: Any
    ) -> Any:
        """One completion with the log-probability of each token at the sampling temperature."""
        temperature = sampling_params.get("temperature", 1.0)
        pictures = [] if self.encoder is None else [self.encoder.encode(np.asarray(one)) for one in image_data or ()]
        ids = torch.tensor([list(prompt_ids)])
        how: dict[str, Any] = {"do_sample": False}
        if temperature:
            how = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        with torch.inference_mode():
            out = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=sampling_params["max_tokens"],
                eos_token_id=sampling_params.get("stop_token_ids") or None, pad_token_id=0, output_logits=True,
                return_dict_in_generate=True, suppress_tokens=list(sampling_params.get("logit_bias", ())) or None, **how,
                **picture_tensors(pictures, "cpu"),
            )  # fmt: skip
        completion = out.sequences[0, ids.shape[1] :]
        logits = torch.cat(out.logits) / (temperature or 1.0)
        logprobs = torch.log_softmax(logits, -1).gather(1, completion[:, None])[:, 0]
        await asyncio.sleep(0)  # other episodes go on between two completions
        return TokenOutput(
            token_ids=completion.tolist(), log_probs=logprobs.tolist(), stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )  # fmt: skip

    async def load(self, weights: dict[str, Any], global_steps: int | None) -> None:
        """Replace the weights.

        Raises:
            RuntimeError: the trainer sent other names than the model has.
        """
        missing, unexpected = self.model.load_state_dict(weights, strict=False)
        tied = set(self.model.all_tied_weights_keys or ())
        if unexpected or set(missing) - tied:
            raise RuntimeError(
                f"the trainer's weights lack {sorted(missing)} and have {sorted(unexpected)} compared with the sampler's"
            )
        self.model.tie_weights()
        self.global_steps = global_steps

    async def nothing(self, *_: Any, **__: Any) -> None:
        """Answer what only an engine on a GPU does."""

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class SamplerReplica(RolloutReplica):
    """Starts a server as an actor of Ray's."""

    async def launch_servers(self) -> None:
        """Start it."""
        name = _SERVER.format(self.replica_rank)
        path = getattr(self.model_config, "path", None) or self.model_config["path"]
        actor = ray.remote(SamplerServer).options(name=name, max_concurrency=self.max_concurrency)
        self.servers = [actor.remote(path, int(self.config.seed) + self.replica_rank)]
        self._server_handle, self._server_address = self.servers[0], name


class SamplerAdapter(BaseRollout):
    """In the trainer's process: passes its weights to the server."""

    async def resume(self, tags: Any) -> None:
        """Do nothing: the server's memory stays."""

    async def release(self) -> None:
        """Do nothing: the server's memory stays."""

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        """Send copies of all weights."""
        copies = {name: tensor.detach().clone() for name, tensor in weights}
        await ray.get_actor(_SERVER.format(os.environ["RANK"])).load.remote(copies, global_steps)


RolloutReplicaRegistry.register("transformers", lambda: SamplerReplica)
_ROLLOUT_REGISTRY["transformers", "async"] = f"{__name__}.{SamplerAdapter.__name__}"

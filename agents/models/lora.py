"""LoRA adapters in a model of ``transformers``: without them, merged into its weights, and as a folder in peft's format.

Hu et al. 2021 (arXiv 2106.09685): W x + (alpha / rank) · B A x, of which only A and B are trained. The layers are peft's; the
model keeps its class, so everything that takes a model takes one with adapters.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from copy import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import ConfigError, DataError, MissingExtraError, short_repr, unknown_name_error
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import model_settings

__all__ = [
    "ADAPTER_FILE",
    "ADAPTER_WEIGHTS",
    "adapter_base",
    "adapter_disabled",
    "has_adapter",
    "inject_adapter",
    "load_adapter",
    "lora_layers",
    "merge_adapter",
    "merged_weights",
    "require_peft",
    "save_adapter",
]

ADAPTER_FILE: Final = "adapter_config.json"
ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
NAME: Final = "default"  # of the only adapter, as peft names it
PREFIX: Final = "base_model.model."  # of every tensor in a folder, as peft names it
PLAIN_OPTIONS: Final = frozenset(  # of peft's LoraConfig that may differ from its defaults
    (
        "task_type",
        "auto_mapping",
        "peft_version",
        "base_model_name_or_path",
        "revision",
        "inference_mode",
        "r",
        "target_modules",
        "exclude_modules",
        "lora_alpha",
        "lora_dropout",
        "fan_in_fan_out",
        "use_rslora",
        "init_lora_weights",
        "layers_to_transform",
        "layers_pattern",
    )
)


def require_peft() -> None:
    """Raise MissingExtraError unless peft is installed."""
    if find_spec("peft") is None:
        raise MissingExtraError("peft", "lora")


def lora_layers(model: Any) -> list[tuple[str, Any]]:
    """The layers with an adapter, by the name of the layer."""
    if "peft" not in sys.modules:
        return []  # no layer of peft exists, and importing it takes seconds
    from peft.tuners.lora import LoraLayer

    return [(name, module) for name, module in model.named_modules() if isinstance(module, LoraLayer)]


def has_adapter(model: Any) -> bool:
    """Whether a model has a LoRA adapter."""
    return bool(lora_layers(model))


def inject_adapter(model: Any, config: Any) -> None:
    """Put an untrained adapter of float32 into a model, in place; its other weights are frozen.

    Args:
        model: a model without adapter.
        config: peft's ``LoraConfig``.

    Raises:
        ConfigError: a target module is not a linear layer of the model.
    """
    import torch
    from peft import inject_adapter_in_model

    linear = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    linear -= {
        name.rpartition(".")[2] for name, module in model.named_modules() if module is model.get_output_embeddings()
    }
    for target in sorted(config.target_modules):
        if target not in linear:
            raise unknown_name_error(f"linear layer of {type(model).__name__}", target, sorted(linear))
    inject_adapter_in_model(config, model, adapter_name=NAME)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if "lora_" in name:  # peft makes them of the base's type, in which small updates are lost
            parameter.data = parameter.data.float()


@contextlib.contextmanager
def adapter_disabled(model: Any) -> Iterator[None]:
    """Within it the model is its base: no layer adds its adapter."""
    layers = [layer for _, layer in lora_layers(model)]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        for parameter in trained:  # peft makes all of the adapter trainable, whether it was or not
            parameter.requires_grad_(True)


def merged_weights(model: Any) -> dict[str, Any]:
    """The state of the model without adapter that computes the same: W + (alpha / rank) · B A, in the type of W.

    Weights without an adapter are those of the model, not copies. Products B A, which are float32, exist one at a time.
    """
    import torch

    layers = dict(lora_layers(model))
    state = {}
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if ".lora_" in name:
                continue
            layer, _, rest = name.rpartition(".base_layer.")
            if layer and rest == "weight":
                tensor = (tensor.float() + layers[layer].get_delta_weight(NAME).float()).to(tensor.dtype)
            state[f"{layer}.{rest}" if layer else name] = tensor
    return state


def merge_adapter(model: Any) -> None:
    """Put the adapter of a model into its weights, in place, where it has one; no layer has one then."""
    import torch

    with torch.no_grad():
        for name, layer in lora_layers(model):
            weight = layer.base_layer.weight
            weight.copy_((weight.float() + layer.get_delta_weight(NAME).float()).to(weight.dtype))
            model.set_submodule(name, layer.base_layer)


def save_adapter(model: Any, folder: Path, base: str) -> None:
    """Write the adapter as a folder that peft, vLLM and ``hf:PATH`` open.

    Args:
        model: a model with an adapter.
        folder: an existing folder.
        base: folder or name of the base model.
    """
    from safetensors.torch import save_file

    config = copy(model.peft_config[NAME])
    config.base_model_name_or_path, config.task_type = base, "CAUSAL_LM"
    config.target_modules = sorted(config.target_modules)  # a set, whose order differs between processes
    config.save_pretrained(str(folder))
    tensors = {name: parameter.detach().contiguous() for name, parameter in _tensors(model).items()}
    save_file(tensors, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})


def adapter_base(folder: str | Path) -> str:
    """The base model that an adapter's folder names; "" for a folder or name that is not an adapter.

    Raises:
        DataError: not a LoRA adapter, or it names no base, or another adapter.
    """
    path = Path(folder) / ADAPTER_FILE
    if not path.is_file() or (Path(folder) / "config.json").is_file():
        return ""
    config = model_settings(path)
    if config.get("peft_type") != "LORA":
        raise DataError(
            f"{path}: expected a LoRA adapter, got peft_type {short_repr(config.get('peft_type'))}; merge it with peft and open the merged model"
        )
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise DataError(
            f"{path} does not specify a base model (base_model_name_or_path is {short_repr(base)}); set it to the folder or name of the base"
        )
    if (Path(base) / ADAPTER_FILE).is_file() and not (Path(base) / "config.json").is_file():
        raise DataError(
            f"{path}: its base {short_repr(base, 200)} is an adapter too; merge that adapter and set the merged model as the base"
        )
    return base


def load_adapter(model: Any, folder: str | Path) -> None:
    """Put the adapter of a folder into its base model, in place.

    Raises:
        MissingExtraError: peft is not installed.
        DataError: damaged, or of another model.
    """
    require_peft()
    from peft import LoraConfig
    from safetensors.torch import load_file

    path = Path(folder)
    model_settings(path / ADAPTER_FILE)  # within limits
    with loading(f"{path}: not a readable LoRA adapter"):
        config = LoraConfig.from_pretrained(str(path))
        tensors = load_file(path / ADAPTER_WEIGHTS)
        _require_plain(config, {tensor.shape[0] for name, tensor in tensors.items() if ".lora_A." in name}, path)
        try:
            inject_adapter(model, config)
        except ConfigError as error:
            raise DataError(f"{path}: does not fit {type(model).__name__}: {error}") from error
    expected = _tensors(model)
    for name in sorted(expected.keys() | tensors.keys()):
        expected_shape, stored_shape = (_shape(side, name) for side in (expected, tensors))
        if expected_shape != stored_shape:
            raise DataError(
                f"{path}: does not fit {type(model).__name__}: {short_repr(name, 200)} has shape {stored_shape}, the model's is {expected_shape}; "
                "set base_model_name_or_path to the base that the adapter was trained on"
            )
    for name, parameter in expected.items():
        parameter.data.copy_(tensors[name])


def _tensors(model: Any) -> dict[str, Any]:
    """The adapter's parameters by their names in a folder."""
    named = ((name, parameter) for name, parameter in model.named_parameters() if ".lora_" in name)
    return {PREFIX + name.replace(f".{NAME}.", "."): parameter for name, parameter in named}


def _shape(tensors: Mapping[str, Any], name: str) -> str:
    """The shape of a tensor, for a message."""
    return str(tuple(tensors[name].shape)) if name in tensors else "none"


def _require_plain(config: Any, ranks: set[int], place: Path) -> None:
    """Raise DataError unless an adapter has one rank, that of its tensors, on layers named by strings, and nothing else.

    Other options add layers, replicate them or change the base's weights, and releases of peft add more of them.
    """
    targets, plain = config.target_modules, type(config)()
    named = isinstance(targets, set) and all(isinstance(name, str) for name in targets)
    unsupported = [
        name
        for name, value in vars(config).items()
        if name not in PLAIN_OPTIONS and value != getattr(plain, name, None) and (value or getattr(plain, name, None))
    ]
    if config.init_lora_weights not in (True, False, "gaussian", "orthogonal"):
        unsupported.append("init_lora_weights")
    if not named or unsupported:
        raise DataError(
            f"{place}: only plain LoRA on named linear layers is read, this adapter has {', '.join(unsupported) or 'other layers'}; "
            "merge it with peft and open the merged model"
        )
    if ranks != {config.r}:  # before layers of a damaged rank are made
        raise DataError(
            f"{place}: its tensors have ranks {sorted(ranks)}, but its configuration has {short_repr(config.r)}; get the adapter again"
        )

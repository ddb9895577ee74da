"""Iterations of a recipe with a randomly initialised model of the size and vocabulary of Qwen2.5-1.5B.

The recipe is GiGPO on Sokoban in text with vLLM as the sampler: weights are pushed into the engine, which sleeps during the update of
packed rows. What such a model writes is noise, so the piece measures memory and time, not learning.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from creditflow.train.policy.network.scratch import ScratchConfig, build_tokenizer
from creditflow.train.run.estimate import ModelSizes, memory_gb
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.schema import TrainConfig, load_settings

__all__ = ["SIZES", "recipe_iterations"]

RECIPE: Final = Path(__file__).resolve().parents[2] / "train/configs/gigpo_sokoban.yaml"
COMMON: Final = ("evaluation.panel=", "evaluation.final_panel=", "update.packing=packed", "checkpoint.every=1000")
ON_A_GPU: Final = ("update.iterations=3", "rollout.max_new_tokens=128", "generation.backend=vllm",
                   "generation.vllm={memory: 0.3, sleep: true}")  # fmt: skip
TOY: Final = (
    "update.iterations=2", "rollout.max_new_tokens=4", "rollout.tasks=2", "rollout.group_size=2", "env.options.max_steps=2",
    "update.minibatch_size=8", "device=cpu", "threads=1",
)  # fmt: skip
# of config.json of Qwen2.5-1.5B, and a toy
SIZES: Final = {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
                "num_key_value_heads": 2, "vocab_size": 151_936}  # fmt: skip
TOY_SIZES: Final = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
                    "num_key_value_heads": 1, "vocab_size": 8192}  # fmt: skip


def recipe_iterations(folder: Path, toy: bool, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Medians over the iterations after the first, and the peak of the GPU's memory beside the estimate of ``--dry-run``.

    Args:
        folder: folder of the model and the run, which are replaced.
        toy: whether to use toy sizes and the sampler of transformers, on a CPU.
        overrides: ``a.b=c`` overrides of the settings.

    Returns:
        ``seconds_…``, ``speed_…`` and ``push_…`` of the run's log (``speed_mfu`` on a known GPU), ``table_gb``, and on a GPU ``allocated_gb``,
        the peak of torch's allocator, and ``used_gb``, what the device says after the last update.
    """
    from creditflow.train.trainer import Trainer

    shutil.rmtree(folder, ignore_errors=True)
    sizes = write_model(folder / "model", TOY_SIZES if toy else SIZES)
    own = (f"out={folder / 'run'}", f"model.path={folder / 'model'}", *COMMON, *(TOY if toy else ON_A_GPU))
    given = {setting.partition("=")[0] for setting in overrides}
    more = (*(setting for setting in own if setting.partition("=")[0] not in given), *overrides)
    settings: TrainConfig = load_settings(RECIPE, more)
    total = 0 if toy else torch.cuda.get_device_properties(0).total_memory
    found: dict[str, Any] = {"parameters": sizes.parameters, "table_gb": memory_gb(sizes, settings, gpu_gb=total / 1e9)}
    if not toy:
        torch.cuda.reset_peak_memory_stats()  # other pieces may have taken more
    Trainer(settings).run()
    if not toy:
        free, _ = torch.cuda.mem_get_info()
        found |= {"allocated_gb": torch.cuda.max_memory_allocated() / 1e9, "used_gb": (total - free) / 1e9}
    records = [r for r in read_metrics(folder / "run" / "metrics.jsonl") if r["kind"] == "iteration"][1:]
    for name in records[0]:
        if name.startswith(("seconds_", "speed_", "push_")):
            found[name] = float(np.median([record[name] or 0.0 for record in records]))
    return found


def write_model(folder: Path, sizes: dict[str, int]) -> ModelSizes:
    """Write the model with random weights and a small tokenizer, and return its sizes."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = build_tokenizer(["up down left right"] * 4, ScratchConfig(vocabulary=640))
    config = Qwen2Config(
        **sizes, max_position_embeddings=4096, tie_word_embeddings=True, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    found = ModelSizes.of(model)
    assert found is not None
    return found

"""Small vision-language models with random weights: a Qwen2.5-VL or Qwen3-VL of ``transformers``, and its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from creditflow.agents.models.pictures import VISION_TOKENS, PictureEncoder, attach_pictures, save_tokenizer
from creditflow.train.policy.network.scratch import build_tokenizer
from creditflow.train.settings.model import ScratchConfig
from creditflow.wrappers.records.pictures import MAX_PIXELS

__all__ = ["VisionSizes", "picture_encoder", "vision_policy", "write_vision_policy"]

VIDEO = "<|video_pad|>"  # no prompt has videos, but processors of the families look it up
TEMPORAL = 2  # frames per patch in both families; a still picture counts twice


@dataclass(frozen=True, kw_only=True)
class VisionSizes:
    """The vision tower: a token covers ``patch · merge`` pixels per side."""

    hidden: int = 64
    layers: int = 2
    heads: int = 2
    intermediate: int = 128
    patch: int = 14
    merge: int = 2


def picture_encoder(vision: VisionSizes, tokenizer: Any) -> PictureEncoder:
    """The encoder of pictures for a tokenizer with their tokens; it enlarges none, so that a tile is whole tokens."""
    from transformers import Qwen2VLImageProcessorPil

    side = vision.patch * vision.merge
    processor = Qwen2VLImageProcessorPil(
        patch_size=vision.patch,
        merge_size=vision.merge,
        temporal_patch_size=TEMPORAL,
        size={"shortest_edge": side * side, "longest_edge": MAX_PIXELS},
    )
    return PictureEncoder(processor, tokenizer)


def _model(architecture: str, config: ScratchConfig, vision: VisionSizes, tokenizer: Any) -> Any:
    import transformers as library

    family = {"qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL"}[architecture]
    half = config.hidden // config.heads // 2
    rows = (half - half // 4) // 2
    start, image, end = tokenizer.convert_tokens_to_ids(list(VISION_TOKENS))
    text: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "max_position_embeddings": config.positions,
        "tie_word_embeddings": config.tied,
        "initializer_range": config.init,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [half - 2 * rows, rows, rows],
        },
    }  # fmt: skip
    tower: dict[str, Any] = {
        "depth": vision.layers,
        "hidden_size": vision.hidden,
        "num_heads": vision.heads,
        "intermediate_size": vision.intermediate,
        "patch_size": vision.patch,
        "spatial_merge_size": vision.merge,
        "temporal_patch_size": TEMPORAL,
        "out_hidden_size": config.hidden,
        "initializer_range": config.init,
    }
    every_block = list(range(vision.layers))
    if architecture == "qwen2_5_vl":
        tower |= {"fullatt_block_indexes": every_block}
    else:
        text |= {"head_dim": config.hidden // config.heads}
        text["rope_parameters"]["mrope_interleaved"] = (
            True  # as in the family's models; vLLM reads it, transformers assumes it
        )
        tower |= {"deepstack_visual_indexes": every_block[: config.layers - 1], "num_position_embeddings": 256}
    settings = getattr(library, f"{family}Config")(
        text_config=text,
        vision_config=tower,
        vision_start_token_id=start,
        vision_end_token_id=end,
        image_token_id=image,
        video_token_id=tokenizer.convert_tokens_to_ids(VIDEO),
        tie_word_embeddings=config.tied,
    )
    settings._attn_implementation = "sdpa"
    return getattr(library, f"{family}ForConditionalGeneration")(settings)


def vision_policy(architecture: str, config: ScratchConfig, vision: VisionSizes, *, seed: int) -> tuple[Any, Any]:
    """A model and its tokenizer, which has the tokens for pictures and carries their encoder."""
    tokenizer = build_tokenizer(["up down left right"] * 4, config)
    tokenizer.add_tokens([*VISION_TOKENS, VIDEO], special_tokens=True)
    attach_pictures(tokenizer, picture_encoder(vision, tokenizer))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _model(architecture, config, vision, tokenizer), tokenizer


def write_vision_policy(folder: Path, architecture: str, config: ScratchConfig, vision: VisionSizes) -> None:
    """Write such a policy as a model folder."""
    model, tokenizer = vision_policy(architecture, config, vision, seed=8)
    model.save_pretrained(folder)
    save_tokenizer(tokenizer, folder)

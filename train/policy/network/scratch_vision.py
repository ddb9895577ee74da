"""A small vision-language model trained from scratch: a Qwen2.5-VL or Qwen3-VL of ``transformers`` with shrunk sizes."""

from __future__ import annotations

from typing import Any

from creditflow.agents.language_model.pictures import VISION_TOKENS, PictureEncoder
from creditflow.train.settings.model import ScratchConfig
from creditflow.wrappers.records.pictures import MAX_PIXELS

__all__ = ["VIDEO", "picture_encoder", "vision_language_model"]

VIDEO = "<|video_pad|>"  # no prompt has videos, but processors of the families look it up
TEMPORAL = 2  # frames per patch in both families; a still picture counts twice


def picture_encoder(config: ScratchConfig, tokenizer: Any) -> PictureEncoder:
    """The encoder of pictures for a tokenizer with their tokens; it enlarges none, so that a tile is whole tokens."""
    from transformers import Qwen2VLImageProcessorPil

    side = config.vision.patch * config.vision.merge
    processor = Qwen2VLImageProcessorPil(
        patch_size=config.vision.patch,
        merge_size=config.vision.merge,
        temporal_patch_size=TEMPORAL,
        size={"shortest_edge": side * side, "longest_edge": MAX_PIXELS},
    )
    return PictureEncoder(processor, tokenizer)


def vision_language_model(config: ScratchConfig, tokenizer: Any) -> Any:
    """A freshly initialised model; torch's global generator decides its weights."""
    import transformers as library

    family = {"qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL"}[config.architecture]
    half = config.hidden // config.heads // 2
    rows = (half - half // 4) // 2
    ids = tokenizer.convert_tokens_to_ids(list(VISION_TOKENS))
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
    vision: dict[str, Any] = {
        "depth": config.vision.layers,
        "hidden_size": config.vision.hidden,
        "num_heads": config.vision.heads,
        "intermediate_size": config.vision.intermediate,
        "patch_size": config.vision.patch,
        "spatial_merge_size": config.vision.merge,
        "temporal_patch_size": TEMPORAL,
        "out_hidden_size": config.hidden,
        "initializer_range": config.init,
    }
    every_block = list(range(config.vision.layers))
    if config.architecture == "qwen2_5_vl":
        vision |= {"fullatt_block_indexes": every_block}
    else:
        text |= {"head_dim": config.hidden // config.heads}
        text["rope_parameters"]["mrope_interleaved"] = (
            True  # as in the family's models; vLLM reads it, transformers assumes it
        )
        vision |= {"deepstack_visual_indexes": every_block[: config.layers - 1], "num_position_embeddings": 256}
    settings = getattr(library, f"{family}Config")(
        text_config=text,
        vision_config=vision,
        vision_start_token_id=ids[0],
        vision_end_token_id=ids[1],
        image_token_id=ids[2],
        video_token_id=tokenizer.convert_tokens_to_ids(VIDEO),
        tie_word_embeddings=config.tied,
    )
    settings._attn_implementation = "sdpa"
    return getattr(library, f"{family}ForConditionalGeneration")(settings)

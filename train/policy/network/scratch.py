"""A small language model and its tokenizer, trained from scratch: no hub, no download.

The model is a Qwen2 or Qwen3 of ``transformers``, or a Qwen2.5-VL or Qwen3-VL, so everything that opens those opens it; the
tokenizer is a byte-level BPE trained on the texts of the task, with a chat template of one token per role.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch

from creditflow.agents.models.pictures import VISION_TOKENS, PictureEncoder, attach_pictures
from creditflow.envs.errors import ConfigError
from creditflow.train.settings.model import SPECIAL, ScratchConfig
from creditflow.wrappers.records.pictures import MAX_PIXELS

__all__ = [
    "VIDEO",
    "ScratchConfig",
    "build_model",
    "build_tokenizer",
    "parameter_count",
    "picture_encoder",
    "vision_language_model",
]

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
        vision_start_token_id=start,
        vision_end_token_id=end,
        image_token_id=image,
        video_token_id=tokenizer.convert_tokens_to_ids(VIDEO),
        tie_word_embeddings=config.tied,
    )
    settings._attn_implementation = "sdpa"
    return getattr(library, f"{family}ForConditionalGeneration")(settings)


TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
LIMITS = (50_000, 100_000_000)


def build_tokenizer(texts: Iterable[str], config: ScratchConfig) -> Any:
    """A byte-level BPE tokenizer trained on ``texts``; the same texts in the same order give the same tokenizer.

    With a vision tower it has the tokens for pictures, which no text is merged with, and carries their encoder.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    if config.pattern:
        core.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(config.pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    else:
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = [*SPECIAL, *((*VISION_TOKENS, VIDEO) if config.reads_pictures else ())]
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        additional_special_tokens=special[2:],
        chat_template=TEMPLATE,
        model_max_length=config.positions,
        clean_up_tokenization_spaces=False,
    )
    return attach_pictures(tokenizer, picture_encoder(config, tokenizer)) if config.reads_pictures else tokenizer


def build_model(config: ScratchConfig, tokenizer: Any, *, seed: int, device: Any = "cpu") -> Any:
    """A freshly initialised model that fits the tokenizer; the seed decides its weights.

    Raises:
        ConfigError: fewer than 50 thousand or more than 100 million parameters.
    """
    make = vision_language_model if config.reads_pictures else _language_model
    with _seeded(seed):
        model = make(config, tokenizer)
    count = parameter_count(model)
    if not LIMITS[0] <= count <= LIMITS[1]:
        raise ConfigError(f"model.scratch has {count:,} parameters; models from scratch have 0.05 to 100 million")
    return model.to(device)


def _language_model(config: ScratchConfig, tokenizer: Any) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

    kinds = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
    make_config, make_model = kinds[config.architecture]
    sizes: dict[str, Any] = {"head_dim": config.hidden // config.heads} if config.architecture == "qwen3" else {}
    settings = make_config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.positions,
        tie_word_embeddings=config.tied,
        initializer_range=config.init,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        attn_implementation="sdpa",
        **sizes,
    )
    return make_model(settings)


def parameter_count(model: Any) -> int:
    """Number of parameters; tied parameters are counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


@contextlib.contextmanager
def _seeded(seed: int) -> Any:
    """Seed torch's global generator temporarily: ``transformers`` initialises weights from no other."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield

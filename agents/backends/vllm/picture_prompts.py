"""Prompts with pictures as vLLM takes them: one image token per picture, and the pixels beside the ids.

vLLM repeats the token itself, by the image processor in the model's folder (``PromptReplacement`` of its Qwen2-VL processor), so
ids are sent with one token per picture, and the prompt that the engine reports must be the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import GenerationError
from creditflow.agents.models.vision import check_picture_tokens
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = ["check_prompt", "collapsed", "vllm_prompt"]


def collapsed(ids: NDArray[np.int32], pictures: Sequence[EncodedPicture]) -> NDArray[np.int32]:
    """The ids with one image token per picture, the inverse of ``PictureEncoder.expand``.

    Raises:
        DataError: another number of image tokens than the pictures' grids ask for.
    """
    check_picture_tokens(ids, pictures)
    if not pictures:
        return ids
    chosen = ids != pictures[0].token
    lengths = np.array([picture.length for picture in pictures])
    chosen[np.flatnonzero(~chosen)[np.cumsum(lengths) - lengths]] = True
    short: NDArray[np.int32] = ids[chosen]
    return short


def vllm_prompt(ids: NDArray[np.int32], pictures: Sequence[EncodedPicture]) -> dict[str, Any]:
    """One prompt as vLLM's ``generate`` takes it."""
    prompt: dict[str, Any] = {"prompt_token_ids": collapsed(ids, pictures).tolist()}
    if pictures:
        from PIL import Image

        prompt["multi_modal_data"] = {"image": [Image.fromarray(picture.picture.pixels) for picture in pictures]}
    return prompt


def check_prompt(output: Any, ids: NDArray[np.int32], pictures: Sequence[EncodedPicture]) -> None:
    """Check that the engine read a prompt with pictures as it was built here.

    Raises:
        GenerationError: it read another number of image tokens, or other ids.
    """
    if pictures and list(output.prompt_token_ids) != ids.tolist():
        raise GenerationError(
            f"vLLM read a prompt of {len(output.prompt_token_ids)} tokens instead of the {len(ids)} that were built: its image "
            "processor enlarges or divides pictures otherwise (preprocessor_config.json of the model)"
        )

"""Vision-language models of ``transformers``: which ones are, the network below their output layer, and token positions.

Qwen2.5-VL and Qwen3-VL place a picture's tokens on a grid: a token's position is a triple (time, row, column), and text after a
picture goes on from the largest number so far. The triples are computed here, in one function for sampler and update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = [
    "VISION_FAMILIES",
    "check_picture_tokens",
    "completion_logits",
    "decoder_of",
    "has_vision",
    "picture_tensors",
    "rope_positions",
    "text_config",
    "unseen_pictures",
]

NEVER: Final = -1e4  # its exponential is 0, and 0 · NEVER too, which −∞ would make nan
VISION_FAMILIES: Final = ("qwen2_5_vl", "qwen3_vl")


def has_vision(model: Any) -> bool:
    """Whether a model, or its network without output layer, reads pictures."""
    return getattr(model.config, "model_type", "") in VISION_FAMILIES


def text_config(model: Any) -> Any:
    """The configuration of a model's language part: sizes, vocabulary and longest sequence."""
    return model.config.get_text_config()


def decoder_of(model: Any) -> Any:
    """The network below the output layer; with vision it takes pictures too, which ``get_decoder`` of some families does not."""
    return model.model if has_vision(model) and hasattr(model, "lm_head") else model.get_decoder()


def completion_logits(model: Any, logits: Any) -> Any:
    """Logits (…, V) of a completion's token: a vision-language model never writes the token that stands for pictures.

    A completion with it would be read as a picture that is not there. Sampler, update and exact evaluation all leave it out, so
    that the policy is the same distribution everywhere.
    """
    if not has_vision(model):
        return logits
    import torch

    token = torch.tensor([model.config.image_token_id], device=logits.device)
    return logits.index_fill(-1, token, NEVER)


def check_picture_tokens(ids: NDArray[np.int32], pictures: Sequence[EncodedPicture]) -> None:
    """Check that ids have the image tokens of these pictures, no more and no fewer.

    Raises:
        DataError: another number of image tokens than the pictures' grids ask for.
    """
    if not pictures:
        return
    tokens, expected = int(np.count_nonzero(ids == pictures[0].token)), sum(picture.length for picture in pictures)
    if tokens != expected:
        raise DataError(
            f"a sequence has {tokens} image tokens, but the grids of its {len(pictures)} pictures stand for {expected}"
        )


def rope_positions(ids: NDArray[np.int32], pictures: Sequence[EncodedPicture]) -> NDArray[np.int64]:
    """Positions of tokens, int64 (3, L): time, row and column; of a text's tokens all three are equal.

    Args:
        ids: int32 (L,), with one image token per merged patch.
        pictures: the pictures in the ids, in order.

    Raises:
        DataError: another number of image tokens than the pictures' grids ask for.
    """
    check_picture_tokens(ids, pictures)
    positions = np.empty((3, len(ids)), np.int64)
    done, following = 0, 0  # tokens placed; the next position of text
    for picture in pictures:
        start = done + int(np.argmax(ids[done:] == picture.token))
        positions[:, done:start] = following + np.arange(start - done)
        following += start - done
        t, h, w = picture.grid[0], picture.grid[1] // picture.merge, picture.grid[2] // picture.merge
        done = start + picture.length
        positions[:, start:done] = following + np.indices((t, h, w)).reshape(3, -1)
        following += max(h, w)
    positions[:, done:] = following + np.arange(len(ids) - done)
    return positions


def unseen_pictures(
    ids: NDArray[np.int32], pictures: Sequence[EncodedPicture], seen: int
) -> tuple[EncodedPicture, ...]:
    """The pictures whose tokens come after the first ``seen`` ids."""
    if not pictures:
        return ()
    before = int(np.count_nonzero(ids[:seen] == pictures[0].token))
    lengths = np.cumsum([0, *(picture.length for picture in pictures)])
    return tuple(pictures[int(np.searchsorted(lengths, before)) :])


def picture_tensors(pictures: Sequence[EncodedPicture], device: Any) -> dict[str, Any]:
    """The pictures as a model takes them; {} for none.

    Returns:
        pixel_values: float32 (patches, D); image_grid_thw: int64 (pictures, 3).
    """
    if not pictures:
        return {}
    import torch

    patches = np.concatenate([picture.patches for picture in pictures])
    grids = np.array([picture.grid for picture in pictures], np.int64)
    return {"pixel_values": torch.from_numpy(patches).to(device), "image_grid_thw": torch.from_numpy(grids).to(device)}

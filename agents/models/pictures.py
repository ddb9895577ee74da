"""Pictures in prompts: from pixels to patches and image tokens, by the image processor of the model's own folder.

A prompt contains one marker per picture, ``<|vision_start|><|image_pad|><|vision_end|>``; its middle token is repeated once for
every merged patch. Patches are computed once per distinct picture, here; backends and training rows pass them on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.model_folders import model_settings
from creditflow.wrappers.records.pictures import EncodedPicture, Picture, picture_of

__all__ = [
    "PROCESSOR_FILE",
    "VISION_TOKENS",
    "PictureEncoder",
    "attach_pictures",
    "find_pictures",
    "open_pictures",
    "pictures_of",
    "save_tokenizer",
]

VISION_TOKENS: Final = (
    "<|vision_start|>",
    "<|image_pad|>",
    "<|vision_end|>",
)  # of the Qwen-VL families, in the order of a text
PROCESSOR_FILE: Final = "preprocessor_config.json"
FAMILY: Final = "Qwen2VLImageProcessor"  # also Qwen2.5-VL's and Qwen3-VL's; releases append Fast or Pil
KEPT_BYTES: Final = 256 * 2**20  # of encoded pictures; a group visits some tens of states, of less than a megabyte each
_ATTRIBUTE: Final = "creditflow_pictures"


class PictureEncoder:
    """Encodes pictures for one model.

    Args:
        processor: an image processor of the Qwen2-VL family, which works with NumPy and Pillow alone.
        tokenizer: the model's tokenizer, which has the tokens around and for pictures.

    Attributes:
        token: id of the token that is repeated for each merged patch.

    Raises:
        ConfigError: the tokenizer has no such tokens.
    """

    def __init__(self, processor: Any, tokenizer: Any) -> None:
        vocabulary = tokenizer.get_vocab()
        if missing := [name for name in VISION_TOKENS if name not in vocabulary]:
            raise ConfigError(
                f"the tokenizer has no token {missing[0]}, which stands for pictures in the Qwen-VL families"
            )
        self.processor = processor
        self.token = int(vocabulary["<|image_pad|>"])
        self._cache: OrderedDict[str, EncodedPicture] = OrderedDict()
        self._bytes = 0

    def encode(self, pixels: Any) -> EncodedPicture:
        """Encode pixels, uint8 (H, W, 3).

        Raises:
            DataError: not a picture, or larger than the limits of ``picture_of``.
        """
        picture = picture_of(pixels)
        encoded = self._cache.pop(picture.name, None)
        if encoded is None:
            encoded = self._encode(picture)
            self._bytes += _size(encoded)
        self._cache[picture.name] = encoded
        while self._bytes > KEPT_BYTES and len(self._cache) > 1:
            self._bytes -= _size(self._cache.popitem(last=False)[1])
        return encoded

    def _encode(self, picture: Picture) -> EncodedPicture:
        with loading("the model's image processor cannot read a picture"):
            out = self.processor(images=[picture.pixels], return_tensors="np", input_data_format="channels_last")
            patches = np.ascontiguousarray(out["pixel_values"], np.float32)
            t, h, w = (int(side) for side in out["image_grid_thw"][0])
        patches.flags.writeable = False
        return EncodedPicture(picture, patches, (t, h, w), int(self.processor.merge_size), self.token)

    def expand(self, ids: NDArray[np.int32], pictures: Sequence[EncodedPicture]) -> NDArray[np.int32]:
        """Repeat the image token of every marker in ids of a prompt, in order, for its picture.

        Raises:
            DataError: the prompt has another number of markers than pictures, as when a text contains one.
        """
        at = np.flatnonzero(ids == self.token)
        if len(at) != len(pictures):
            raise DataError(
                f"a prompt has {len(at)} markers of pictures for {len(pictures)} pictures: a text of the environment contains "
                "<|image_pad|>, which stands for pictures"
            )
        counts = np.ones(len(ids), np.int64)
        counts[at] = [picture.length for picture in pictures]
        return np.repeat(ids, counts)

    def check_model(self, model: Any) -> None:
        """Check that processor, tokenizer and model belong together.

        Raises:
            ConfigError: they do not.
        """
        config = model.config
        vision = config.vision_config
        settings = {
            "image_token_id": (config.image_token_id, self.token),
            "patch_size": (vision.patch_size, self.processor.patch_size),
            "spatial_merge_size": (vision.spatial_merge_size, self.processor.merge_size),
            "temporal_patch_size": (vision.temporal_patch_size, self.processor.temporal_patch_size),
        }
        for name, (expected, got) in settings.items():
            if expected != got:
                raise ConfigError(
                    f"the model's {name} is {expected}, that of its image processor or tokenizer {got}: get the model again"
                )


def _size(picture: EncodedPicture) -> int:
    return picture.patches.nbytes + picture.picture.pixels.nbytes


def attach_pictures(tokenizer: Any, encoder: PictureEncoder) -> Any:
    """Let a tokenizer carry the encoder of its model's pictures, as a processor of ``transformers`` does; returns it."""
    setattr(tokenizer, _ATTRIBUTE, encoder)
    return tokenizer


def pictures_of(tokenizer: Any) -> PictureEncoder | None:
    """The encoder of a tokenizer's model; None if the model reads text only."""
    encoder: PictureEncoder | None = getattr(tokenizer, _ATTRIBUTE, None)
    return encoder


def find_pictures(folder: str | Path, tokenizer: Any) -> PictureEncoder | None:
    """The encoder in a model folder; None if it has no image processor, or is no folder.

    Raises:
        DataError, ConfigError: as ``open_pictures``.
    """
    path = Path(folder) / PROCESSOR_FILE
    if not path.is_file():
        return None
    model_settings(path)  # within limits
    return open_pictures(folder, tokenizer)


def open_pictures(place: str | Path, tokenizer: Any) -> PictureEncoder:
    """The encoder of a vision-language model, by its folder or name.

    The processor that needs only NumPy and Pillow is taken whatever class the folder names: torchvision is not needed.

    Args:
        place: folder or name of the model.
        tokenizer: the model's tokenizer.

    Raises:
        DataError: the image processor is missing, damaged, or not of a family that is supported.
        ConfigError: the tokenizer has no tokens for pictures.
    """
    from transformers import Qwen2VLImageProcessorPil

    with loading(f"{place}: no readable image processor"):
        settings, _ = Qwen2VLImageProcessorPil.get_image_processor_dict(str(place))
        kind = str(settings.get("image_processor_type", ""))
        if not kind.startswith(FAMILY):
            raise DataError(
                f"{place}: image_processor_type is {kind[:60]!r}; the families Qwen2.5-VL and Qwen3-VL are supported, which "
                f"name {FAMILY}"
            )
        processor = Qwen2VLImageProcessorPil.from_pretrained(str(place))
    return PictureEncoder(processor, tokenizer)


def save_tokenizer(tokenizer: Any, folder: str | Path) -> None:
    """Write a tokenizer, and its model's image processor if it has one."""
    tokenizer.save_pretrained(folder)
    if (encoder := pictures_of(tokenizer)) is not None:
        encoder.processor.save_pretrained(folder)

"""Where the tokens of a picture are: the same positions and patches as the model's own code and processor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.vision_model import VisionSizes, picture_encoder, vision_policy
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2VLImageProcessorPil

from creditflow.agents.backends.base import GenerationRequest
from creditflow.agents.backends.transformers_backend import Cohort, TransformersBackend
from creditflow.agents.models import pictures as encoding
from creditflow.agents.models.pictures import PictureEncoder, find_pictures, pictures_of, save_tokenizer
from creditflow.agents.models.vision import rope_positions, unseen_pictures
from creditflow.envs.errors import DataError
from creditflow.train.settings.model import ScratchConfig

SIZES = ScratchConfig(hidden=64, layers=1, heads=2, kv_heads=1)
VISION = VisionSizes(hidden=32, layers=1, patch=4)
MODEL, TOKENIZER = vision_policy("qwen2_5_vl", SIZES, VISION, seed=0)
ENCODER = picture_encoder(VISION, TOKENIZER)
sides = st.integers(1, 40)


def drawn(height: int, width: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), sides, sides), max_size=4), st.integers(0, 5))
def test_positions_are_those_of_the_models_own_code(shown: list[tuple[int, int, int]], after: int) -> None:
    pictures = [ENCODER.encode(drawn(height, width, i)) for i, (_, height, width) in enumerate(shown)]
    ids = [part for before, _, _ in shown for part in (*[9] * before, 5, ENCODER.token)] + [9] * after
    expanded = ENCODER.expand(np.array(ids, np.int32), pictures)
    found = rope_positions(expanded, pictures)
    if not len(expanded):
        return
    batch = torch.from_numpy(expanded.astype(np.int64))[None]
    grids = torch.tensor([picture.grid for picture in pictures]) if pictures else None
    wanted, _ = MODEL.model.get_rope_index(
        batch, mm_token_type_ids=(batch == ENCODER.token).int(), image_grid_thw=grids
    )
    np.testing.assert_array_equal(found, wanted[:, 0])
    for seen in range(len(expanded) + 1):
        if not (0 < seen < len(expanded) and expanded[seen - 1] == expanded[seen] == ENCODER.token):
            skipped = len(pictures) - len(unseen_pictures(expanded, pictures, seen))
            assert sum(picture.length for picture in pictures[:skipped]) == (expanded[:seen] == ENCODER.token).sum()


@pytest.mark.parametrize(("patch", "tile", "tokens"), [(14, 28, 36), (16, 32, 36), (14, 56, 144)])
def test_a_cell_of_a_tile_is_a_whole_number_of_tokens(patch: int, tile: int, tokens: int) -> None:
    encoder = PictureEncoder(Qwen2VLImageProcessorPil(patch_size=patch), TOKENIZER)
    assert encoder.encode(drawn(6 * tile, 6 * tile, 0)).length == tokens


def test_patches_are_normalised_pixels_of_their_place() -> None:
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[8:16, 16:24, 0] = 255  # the last merged patch of 2 × 3, red
    one = ENCODER.encode(pixels)
    assert (one.grid, one.length) == ((1, 4, 6), 6)
    red = one.patches.reshape(6, 4, 3, 2, 4, 4)[:, :, 0]  # token, patch of the token, channel, frame, row, column
    mean, std = (np.array(getattr(ENCODER.processor, name)[0]) for name in ("image_mean", "image_std"))
    np.testing.assert_allclose(red[:5], (0.0 - mean) / std, rtol=1e-5)
    np.testing.assert_allclose(red[5], (1.0 - mean) / std, rtol=1e-5)
    assert ENCODER.encode(pixels.copy()) is one  # equal pixels are one picture


def test_encoded_pictures_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was longest not asked for is dropped first."""
    encoder = picture_encoder(VISION, TOKENIZER)
    one, other, third = (drawn(16, 16, seed) for seed in range(3))
    first = encoder.encode(one)
    size = first.patches.nbytes + first.picture.pixels.nbytes
    monkeypatch.setattr(encoding, "KEPT_BYTES", 2 * size)
    second = encoder.encode(other)
    assert encoder.encode(one) is first
    encoder.encode(third)
    assert encoder.encode(one) is first
    assert encoder.encode(other) is not second
    monkeypatch.setattr(encoding, "KEPT_BYTES", 0)
    assert encoder.encode(third) is encoder.encode(third)  # the last one, whatever its size


def test_the_processor_is_saved_with_the_tokenizer_and_opened_again(tmp_path: Path) -> None:
    save_tokenizer(TOKENIZER, tmp_path)
    opened = find_pictures(tmp_path, TOKENIZER)
    assert opened is not None
    assert pictures_of(TOKENIZER) is not None
    assert find_pictures(tmp_path / "elsewhere", TOKENIZER) is None
    pixels = drawn(24, 32, 1)
    np.testing.assert_array_equal(opened.encode(pixels).patches, ENCODER.encode(pixels).patches)


def test_new_pictures_are_given_in_the_order_of_the_rows() -> None:
    """What a row's cache holds is not given again."""
    one, other, third = (ENCODER.encode(drawn(16, 16, seed)) for seed in range(3))
    first = ENCODER.expand(np.array([9, ENCODER.token, 9], np.int32), [one])
    longer = np.concatenate([first, ENCODER.expand(np.array([9, ENCODER.token, 9], np.int32), [other])])
    requests = [
        GenerationRequest("a", longer, np.zeros(1), (one, other)), GenerationRequest("b", first, np.zeros(1), (third,)),
    ]  # fmt: skip
    held: list[Any] = [first, np.zeros(0, np.int32)]
    cohort = Cohort(["a", "b"], np.array([len(first), 0]), held, [(one.name,), ()], mask=None, used=0, cache=None)
    backend: Any = SimpleNamespace(device="cpu")
    found = TransformersBackend._pictures(backend, cohort, requests)
    wanted = np.concatenate([other.patches, third.patches])
    np.testing.assert_array_equal(found["pixel_values"].numpy(), wanted)
    assert found["image_grid_thw"].tolist() == [list(other.grid), list(third.grid)]


def test_another_number_of_image_tokens_than_the_grid_is_an_error() -> None:
    one = ENCODER.encode(drawn(16, 16, 2))
    ids = np.full(one.length + 1, ENCODER.token, np.int32)
    with pytest.raises(DataError, match=f"{one.length + 1} image tokens.*stand for {one.length}"):
        rope_positions(ids, [one])


def test_a_text_that_contains_the_token_of_pictures_is_an_error() -> None:
    ids = np.array([1, ENCODER.token, 2], np.int32)
    with pytest.raises(DataError, match="1 markers of pictures for 0"):
        ENCODER.expand(ids, [])


def test_a_model_with_another_processor_is_an_error() -> None:
    other = PictureEncoder(Qwen2VLImageProcessorPil(patch_size=14), TOKENIZER)
    with pytest.raises(ValueError, match="patch_size is 4, that of its image processor or tokenizer 14"):
        other.check_model(MODEL)


def broken(folder: Path, text: str) -> Callable[[], Any]:
    (folder / "preprocessor_config.json").write_text(text)
    return lambda: find_pictures(folder, TOKENIZER)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"image_processor_type": "CLIPImageProcessor"}', "{}", '{"image_processor_type": 3}']
)
def test_a_damaged_or_other_image_processor_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        broken(tmp_path, text)()

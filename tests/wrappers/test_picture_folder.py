"""Pictures beside a log: stored once, read back equal, bounded, and hostile names and files are errors."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

import creditflow
from creditflow.envs.errors import DataError
from creditflow.wrappers import Recorder
from creditflow.wrappers.records import picture_folder
from creditflow.wrappers.records.picture_folder import PictureFolder, pictures_beside
from creditflow.wrappers.records.pictures import MAX_SIDE, picture_in, picture_of

LEVEL = "######\n#@ $.#\n#    #\n######"
frames = st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(lambda size: arrays(np.uint8, (*size, 3)))


@settings(deadline=None, max_examples=40)
@given(frames)
def test_a_picture_is_read_back_as_it_was_written(pixels: Any) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        one = picture_of(pixels)
        PictureFolder(place).write(one)
        again = PictureFolder(place).read(one.name)
        assert again.name == one.name
        np.testing.assert_array_equal(again.pixels, pixels)


@given(frames, frames)
def test_names_are_equal_if_and_only_if_pictures_are(one: Any, other: Any) -> None:
    assert (picture_of(one).name == picture_of(other).name) == np.array_equal(one, other)
    assert picture_of(one).name == picture_of(np.asfortranarray(one)).name


def test_only_bytes_of_three_colours_are_a_picture() -> None:
    """Other arrays are observations that no model is shown, and that are not stored."""
    pixels = np.zeros((2, 4, 3), np.uint8)
    assert picture_in(pixels) is pixels
    assert picture_in({"rgb": pixels, "text": "#"}) is pixels
    for other in (pixels.astype(np.float32), pixels[..., :2], pixels[0], "text", {"text": "#"}, {"rgb": pixels / 255}):
        assert picture_in(other) is None


def test_equal_pixels_of_another_shape_are_another_picture() -> None:
    pixels = np.arange(36, dtype=np.uint8)
    assert picture_of(pixels.reshape(3, 4, 3)).name != picture_of(pixels.reshape(4, 3, 3)).name


def test_a_state_is_stored_once_however_often_it_recurs(tmp_path: Path) -> None:
    env = Recorder(
        creditflow.make("sokoban", level=LEVEL, obs_mode="rgb", tile_size=4), pictures=str(tmp_path / "pictures")
    )
    names: dict[str, set[str]] = {}
    for _ in range(3):
        env.reset(seed=0)
        for action in ("down", "up", "down", "right", "left", "up", "right", "right"):
            env.step(action)
        for turn in env.trajectory.turns:
            [name] = turn.images
            names.setdefault(turn.state_key, set()).add(name)
            assert turn.observation == ""
    assert all(len(of_state) == 1 for of_state in names.values())
    files = sorted(file.stem for file in (tmp_path / "pictures").iterdir())
    shown = {name for of_state in names.values() for name in of_state}
    assert shown <= set(files)
    assert len(files) == len(shown) + 1  # and the last observation of an episode
    env.reset(seed=0)
    start = picture_in(env.base._observe())
    assert (
        PictureFolder(tmp_path / "pictures").read(picture_of(start).name).pixels.tolist() == np.asarray(start).tolist()
    )


def test_without_a_folder_no_picture_is_named(tmp_path: Path) -> None:
    env = Recorder(creditflow.make("sokoban", level=LEVEL, obs_mode="rgb"))
    env.reset(seed=0)
    env.step("right")
    env.stop("env_limit")
    assert env.trajectory.turns[0].images == ()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("log", ["a/log.jsonl", "a/log.jsonl.gz", "a/log"])
def test_the_folder_of_a_log_is_beside_it(log: str) -> None:
    assert pictures_beside(log) == Path("a/log.pictures")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "", "x" * 32, "0" * 31, "0" * 33, "0" * 31 + "\n", "A" * 32, "/" + "0" * 31, None, 3]
)
def test_a_name_that_is_no_digest_never_becomes_a_path(tmp_path: Path, name: Any) -> None:
    with pytest.raises(DataError, match="32 hexadecimal digits"):
        PictureFolder(tmp_path).read(name)


def png(width: int, height: int, *, colour: int = 2) -> bytes:
    """A PNG file that says so about its size, with almost no data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 64)) + chunk(b"IEND", b"")
    )


HOSTILE = {
    "a bomb": (png(60_000, 60_000), "60000"),
    "beyond the side": (png(MAX_SIDE + 1, 1), "at most"),
    "grey": (png(4, 4, colour=0), "expected RGB"),
    "cut": (png(4, 4)[:40], "not a readable PNG"),
    "too little data": (png(40, 40), "not a readable PNG|does not contain the picture"),
    "another format": (b"GIF89a" + b"\0" * 40, "not a readable PNG"),
    "empty": (b"", "not a readable PNG"),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_a_hostile_file_is_an_error_that_names_it(tmp_path: Path, case: str) -> None:
    data, message = HOSTILE[case]
    name = "0" * 32
    (tmp_path / f"{name}.png").write_bytes(data)
    with pytest.raises(DataError, match=message) as found:
        PictureFolder(tmp_path).read(name)
    assert name in str(found.value)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_damaged_bytes_are_an_error_or_the_same_picture(data: st.DataObject) -> None:
    from tempfile import TemporaryDirectory

    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    with TemporaryDirectory() as place:
        folder, one = PictureFolder(place), picture_of(pixels)
        folder.write(one)
        file = Path(place) / f"{one.name}.png"
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        file.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
        try:
            assert PictureFolder(place).read(one.name).name == one.name
        except DataError as error:
            assert one.name in str(error)


def test_a_missing_or_exchanged_file_is_an_error(tmp_path: Path) -> None:
    folder = PictureFolder(tmp_path)
    one, other = (picture_of(np.full((2, 2, 3), value, np.uint8)) for value in (1, 2))
    with pytest.raises(DataError, match="the picture is missing"):
        folder.read(one.name)
    folder.write(one)
    (tmp_path / f"{one.name}.png").rename(tmp_path / f"{other.name}.png")
    with pytest.raises(DataError, match="does not contain the picture that its name identifies"):
        folder.read(other.name)


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM"])
def test_the_same_pixels_in_another_format_are_refused(tmp_path: Path, kind: str) -> None:
    """Fewer decoders are reached by what comes from elsewhere."""
    one = picture_of(np.full((2, 2, 3), 1, np.uint8))
    Image.fromarray(one.pixels).save(tmp_path / f"{one.name}.png", format=kind)
    with pytest.raises(DataError, match="not a readable PNG"):
        PictureFolder(tmp_path).read(one.name)


def test_a_picture_stays_when_the_environment_draws_into_its_frame_again() -> None:
    frame = np.full((2, 2, 3), 1, np.uint8)
    one = picture_of(frame)
    frame[...] = 7
    assert (one.pixels == 1).all()
    assert not one.pixels.flags.writeable


def test_a_file_is_bounded_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = picture_of(np.full((2, 2, 3), 1, np.uint8))
    PictureFolder(tmp_path).write(one)
    size = (tmp_path / f"{one.name}.png").stat().st_size
    monkeypatch.setattr(picture_folder, "MAX_FILE", size)
    assert PictureFolder(tmp_path).read(one.name).name == one.name
    monkeypatch.setattr(picture_folder, "MAX_FILE", size - 1)
    with pytest.raises(DataError, match=f"has {size} bytes; the limit is {size - 1}"):
        PictureFolder(tmp_path).read(one.name)


def test_a_folder_is_bounded_in_number_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [picture_of(np.full((2, 2, 3), value, np.uint8)) for value in range(4)]
    monkeypatch.setattr(picture_folder, "MAX_PICTURES", 2)
    folder = PictureFolder(tmp_path)
    for one in (*pictures[:2], *pictures[:2]):
        folder.write(one)
    with pytest.raises(DataError, match="contains 2 pictures"):
        folder.write(pictures[2])
    monkeypatch.setattr(picture_folder, "MAX_PICTURES", 9)
    monkeypatch.setattr(picture_folder, "MAX_BYTES", 10)
    with pytest.raises(DataError, match="limits of a log are 9 and 10"):
        PictureFolder(tmp_path).write(pictures[2])


@pytest.mark.parametrize(
    "pixels",
    [np.zeros((2, 2), np.uint8), np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2, 3)), np.zeros((0, 2, 3), np.uint8),
     np.zeros((1, MAX_SIDE + 1, 3), np.uint8), np.zeros((MAX_SIDE, MAX_SIDE, 3), np.uint8)],
)  # fmt: skip
def test_what_is_no_picture_or_too_large_is_an_error(pixels: Any) -> None:
    with pytest.raises(DataError, match="a picture"):
        picture_of(pixels)

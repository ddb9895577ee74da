"""The pictures of a log: a folder of PNG files, one per distinct picture, named by content.

Turns name their picture (``Turn.images``), so a state that recurs is stored once. Folders come from elsewhere too: names are
checked before they become paths, and files are decoded within limits and compared with their names.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Final

import numpy as np

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.reading.failures import loading
from creditflow.wrappers.records.pictures import MAX_PIXELS, MAX_SIDE, Picture, picture_of

__all__ = ["MAX_BYTES", "MAX_FILE", "MAX_PICTURES", "PictureFolder", "pictures_beside"]

MAX_PICTURES: Final = 100_000  # in one folder
MAX_BYTES: Final = 4 * 2**30  # in one folder
MAX_FILE: Final = 32 * 2**20  # bytes of one file
_NAME: Final = re.compile(r"[0-9a-f]{32}")


def pictures_beside(log: str | Path) -> Path:
    """The folder for the pictures of a log: "runs/log.jsonl.gz" has "runs/log.pictures"."""
    path = Path(log)
    return path.with_name(re.sub(r"(\.jsonl)?(\.gz)?$", "", path.name) + ".pictures")


class PictureFolder:
    """Reads and writes the pictures of a log.

    Args:
        path: the folder; it is made with the first picture.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: set[str] | None = None
        self._bytes = 0

    def write(self, picture: Picture) -> None:
        """Store a picture, unless the folder has it.

        Raises:
            DataError: the folder would have more than ``MAX_PICTURES`` files or ``MAX_BYTES``.
        """
        stored = self._stored()
        if picture.name in stored:
            return
        if len(stored) >= MAX_PICTURES or self._bytes >= MAX_BYTES:
            raise DataError(
                f"{self.path}: contains {len(stored):,} pictures of {self._bytes:,} bytes, but the limits of a log are {MAX_PICTURES:,} and "
                f"{MAX_BYTES:,}; record fewer tasks in one log"
            )
        from PIL import Image

        file = self._file(picture.name)
        with atomic_path(file) as temporary:
            Image.fromarray(picture.pixels).save(temporary, format="PNG")
        stored.add(picture.name)
        self._bytes += file.stat().st_size

    def read(self, name: str) -> Picture:
        """Read a picture by its name.

        Raises:
            DataError: not a name of a picture, or a file that is missing, damaged, too large, or another picture.
        """
        file = self._file(name)
        if not file.is_file():
            raise DataError(f"{file}: the picture is missing, but the log refers to it")
        if (size := file.stat().st_size) > MAX_FILE:
            raise DataError(f"{file} has {size:,} bytes; the limit is {MAX_FILE:,}")
        from PIL import Image

        with loading(f"{file}: not a readable PNG picture"), warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=("PNG",)) as image:
                width, height = image.size
                if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
                    raise DataError(f"{file}: {height} x {width} pixels, at most {MAX_PIXELS:,} are decoded")
                if image.mode != "RGB":
                    raise DataError(f"{file}: has mode {short_repr(image.mode)}, expected RGB as it is written here")
                picture = picture_of(np.asarray(image))
        if picture.name != name:
            raise DataError(f"{file}: does not contain the picture that its name identifies; it was changed or renamed")
        return picture

    def _file(self, name: str) -> Path:
        """The file of a picture: names that are paths never get here."""
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DataError(f"the name of a picture has 32 hexadecimal digits, got {short_repr(name)}")
        return self.path / f"{name}.png"

    def names(self) -> frozenset[str]:
        """The names of the pictures in the folder; none if it does not exist."""
        return frozenset(self._stored())

    def _stored(self) -> set[str]:
        if self._known is None:
            files = list(self.path.glob("*.png")) if self.path.is_dir() else []
            self._known, self._bytes = {file.stem for file in files}, sum(file.stat().st_size for file in files)
        return self._known

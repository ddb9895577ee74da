"""The pictures of a log: copied into an exported folder, and back beside the log that is imported from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.picture_folder import PictureFolder

__all__ = ["PICTURES", "CopiedPictures", "copy_pictures"]

PICTURES: Final = "pictures"  # folder of an export


@dataclass(frozen=True)
class CopiedPictures:
    """Distinct pictures that a log names.

    Attributes:
        copied: written to the new folder.
        missing: without a file; the log names them all the same.
    """

    copied: int
    missing: int

    def to_json(self) -> dict[str, int]:
        """The counts by name."""
        return {"pictures": self.copied, "pictures_missing": self.missing}

    def to_text(self) -> str:
        """The counts as the end of a sentence; "" for a log without pictures."""
        copied = f", {self.copied} pictures" if self.copied else ""
        return copied + (f" ({self.missing} pictures are named but have no file)" if self.missing else "")


def copy_pictures(groups: Sequence[Group], source: Path, target: Path) -> CopiedPictures:
    """Copy the pictures that turns name from one folder to another; each is compared with its name.

    Raises:
        DataError: a picture is damaged or another than its name says, or the target would hold too many.
    """
    names = dict.fromkeys(name for group in groups for turn in group.turns for name in turn.images)
    reading, writing = PictureFolder(source), PictureFolder(target)
    stored = reading.names()
    for name in names:
        if name in stored:
            writing.write(reading.read(name))
    copied = sum(name in stored for name in names)
    return CopiedPictures(copied, len(names) - copied)

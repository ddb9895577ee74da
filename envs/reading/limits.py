"""Every limit on what is read from outside, in one place.

They are far above what honest files hold, and low enough that a file made to hurt ends in an error instead of taking
the machine's memory. Parsed JSON takes up to some 25 times its text, which is what the limits on text go by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ALLOWANCE",
    "JSON",
    "MAX_ARCHIVE_BYTES",
    "MAX_ARCHIVE_MEMBERS",
    "MAX_BLANK_LINES",
    "MAX_DOCUMENT",
    "MAX_LAYERS",
    "MAX_LEVELS_FILE",
    "MAX_LINE",
    "MAX_MEMBER_BYTES",
    "MAX_MEMBER_HEADERS",
    "MAX_PASSAGE",
    "MAX_RATIO",
    "MAX_RECORD",
    "MAX_ROWS_FILE",
    "MAX_SETTINGS",
    "SETTINGS",
    "Limits",
]

MAX_LINE: Final = 64 * 2**20  # characters of a line of a log; a long search episode with its pages is about 1 MB
MAX_BLANK_LINES: Final = (
    1_000_000  # of a file that is read line by line; a packed megabyte may hold a thousand times more
)
MAX_DOCUMENT: Final = 256 * 2**20  # characters of a JSON file that is read whole: results, panels, tokenizers
MAX_ROWS_FILE: Final = 2 * 2**30  # characters of a file of questions; HotpotQA's largest has 600 MB
MAX_RECORD: Final = 2**25  # characters of an element of a file that is read element by element: products, instructions
MAX_PASSAGE: Final = 10_000_000  # characters of a line of a corpus
MAX_LEVELS_FILE: Final = 64 * 2**20  # bytes of a file of Sokoban levels; Boxoban's have 150,000
MAX_LAYERS: Final = 10_000  # of a network that a model folder asks for
MAX_SETTINGS: Final = 2**18  # characters of a file of settings; ours have 3,000

MAX_RATIO: Final = 200  # a packed file may unpack to so many times its size; logs compress 5 to 40 times
ALLOWANCE: Final = 64 * 2**20  # below so many bytes a ratio is not suspicious

MAX_ARCHIVE_MEMBERS: Final = 50_000
MAX_ARCHIVE_BYTES: Final = 2_000_000_000  # of a tar archive, unpacked; ALFWorld's games have 345 MB
MAX_MEMBER_BYTES: Final = 8_000_000  # of a member that is read; ALFWorld's games have at most 140,000
MAX_MEMBER_HEADERS: Final = 2**20  # bytes of names and attributes before a member


@dataclass(frozen=True, slots=True)
class Limits:
    """How much plain data may hold.

    Attributes:
        characters: of its text.
        depth: levels of lists and objects.
        digits: of an integer; some of our snapshots hold 128-bit ones.
    """

    characters: int = MAX_DOCUMENT
    depth: int = 64
    digits: int = 100


JSON: Final = Limits()
SETTINGS: Final = Limits(characters=MAX_SETTINGS, depth=32)

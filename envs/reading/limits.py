"""All limits on untrusted input.

They are far above the sizes of real files, and low enough that a hostile file causes an error instead of exhausting
memory. Limits on text allow for parsed JSON, which takes up to some 25 times the memory of its text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "ALLOWANCE",
    "JSON",
    "MAX_BLANK_LINES",
    "MAX_DOCUMENT",
    "MAX_GAME",
    "MAX_LAYERS",
    "MAX_LEVELS_FILE",
    "MAX_LINE",
    "MAX_PASSAGE",
    "MAX_RATIO",
    "MAX_RECORD",
    "MAX_ROWS_FILE",
    "MAX_SETTINGS",
    "MAX_TOKEN_ID",
    "SETTINGS",
    "Limits",
]

MAX_LINE: Final = 64 * 2**20  # characters of a line of a log; a long search episode with its pages is about 1 MB
MAX_BLANK_LINES: Final = (
    1_000_000  # of a file that is read line by line; a compressed megabyte may have a thousand times more
)
MAX_DOCUMENT: Final = 256 * 2**20  # characters of a JSON file that is parsed as a whole: results, panels, tokenizers
MAX_ROWS_FILE: Final = 2 * 2**30  # characters of a question file; HotpotQA's largest has 600 MB
MAX_RECORD: Final = 2**25  # characters of one element of a list that is parsed by element: products, instructions
MAX_PASSAGE: Final = 10_000_000  # characters of a line of a corpus
MAX_GAME: Final = 8_000_000  # characters of a game file of ALFWorld; the released ones have at most 140,000
MAX_LEVELS_FILE: Final = 64 * 2**20  # bytes of a Sokoban level file; Boxoban's have 150,000
MAX_LAYERS: Final = 10_000  # layers in the configuration of a model folder
MAX_TOKEN_ID: Final = 2**24  # largest token id of a tokenizer folder
MAX_SETTINGS: Final = 2**18  # characters of a settings file; ours have 3,000

MAX_RATIO: Final = 200  # decompressed size over compressed size; logs have ratios of 5 to 40
ALLOWANCE: Final = 64 * 2**20  # bytes; the ratio of smaller files is not checked


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on parsed data.

    Attributes:
        characters: length of the text.
        depth: levels of nested lists and objects.
        digits: digits of an integer; some of our snapshots have 128-bit integers.
    """

    characters: int = MAX_DOCUMENT
    depth: int = 64
    digits: int = 100


JSON: Final = Limits()
SETTINGS: Final = Limits(characters=MAX_SETTINGS, depth=32)

"""Index terms of a text, equal to those of Lucene's English analyser: words, possessives, stop words, stems.

Word boundaries follow UAX #29. Every character is mapped to a one-letter class, and one regular expression over the
class string finds the words; ASCII text takes a direct expression with the same result. Input must be lower-case, as are
the texts and queries of an index.

The stemmer is M. F. Porter's ("An algorithm for suffix stripping", 1980), with its author's two later corrections (``-bli`` and
``-logi``), as in Lucene. A word is a chain of consonant and vowel runs; its *measure* m counts the places where a vowel run is
followed by a consonant run.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["MAX_WORD", "STOP_WORDS", "analyse", "stem", "term_of", "words"]

_STEP2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP4 = (
    "al",
    "ance",
    "ence",
    "er",
    "ic",
    "able",
    "ible",
    "ant",
    "ement",
    "ment",
    "ent",
    "ion",
    "ou",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
)
_SHAPES = str.maketrans({chr(code): "v" if chr(code) in "aeiou" else "c" for code in range(128)})


def _shape(word: str) -> str:
    """Return "v" for every vowel and "c" for every consonant; "y" is a vowel after a consonant."""
    if "y" not in word and word.isascii():
        return word.translate(_SHAPES)
    shape = ""
    for char in word:
        shape += "v" if char in "aeiou" or (char == "y" and shape.endswith("c")) else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _short_end(word: str) -> bool:
    """Return whether the word ends in consonant, vowel, consonant, the last one not w, x or y."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _plural_and_past(word: str) -> str:
    """Apply step 1: plurals, -ed, -ing, and a final y after a vowel."""
    if word.endswith("s"):
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif not word.endswith("ss"):
            word = word[:-1]
    if word.endswith("eed"):
        if _measure(word[:-3]) > 0:
            word = word[:-1]
    else:
        for suffix in ("ed", "ing"):
            if word.endswith(suffix):
                if _has_vowel(word[: -len(suffix)]):
                    word = _tidy(word[: -len(suffix)])
                break
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _tidy(word: str) -> str:
    """Restore a final e, or remove a doubled letter, after -ed or -ing was removed."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _double_consonant(word):
        return word if word[-1] in "lsz" else word[:-1]
    if _measure(word) == 1 and _short_end(word):
        return word + "e"
    return word


def _replace(word: str, table: dict[str, str]) -> str:
    """Replace the longest suffix in the table, if the measure of the rest is positive."""
    for length in range(min(7, len(word)), 1, -1):
        suffix = word[-length:]
        if suffix in table:
            root = word[:-length]
            return root + table[suffix] if _measure(root) > 0 else word
    return word


def _strip(word: str) -> str:
    """Apply step 4: remove one suffix if the measure of the rest exceeds one."""
    for suffix in sorted((s for s in _STEP4 if word.endswith(s)), key=len, reverse=True):
        root = word[: -len(suffix)]
        if suffix == "ion" and not root.endswith(("s", "t")):
            continue
        return root if _measure(root) > 1 else word
    return word


def stem(word: str) -> str:
    """Return the stem of a lower-case word; words of one or two letters are unchanged.

    >>> [stem(w) for w in ("relational", "possibly", "psychology", "hopping", "is")]
    ['relat', 'possibl', 'psycholog', 'hop', 'is']
    """
    if len(word) < 3:
        return word
    word = _plural_and_past(word)
    word = _replace(word, _STEP2)
    word = _replace(word, _STEP3)
    word = _strip(word)
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _short_end(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word


_STOP = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
STOP_WORDS = frozenset(_STOP.split())
MAX_WORD = 255  # longer words are split into parts of this many characters

# Extended_Pictographic of Unicode's emoji data, as inclusive ranges: each such character is a word
_PICTOGRAPHS = (
    "a9 ae 203c 2049 2122 2139 2194-2199 21a9-21aa 231a-231b 2328 2388 23cf 23e9-23f3 23f8-23fa 24c2 25aa-25ab 25b6 25c0"
    " 25fb-25fe 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271d 2721 2728 2733-2734 2744 2747 274c 274e"
    " 2753-2755 2757 2763-2767 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07 2b1b-2b1c 2b50 2b55 3030 303d 3297 3299"
    " 1f000-1f0ff 1f10d-1f10f 1f12f 1f16c-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f1ad-1f1e5 1f201-1f20f 1f21a 1f22f"
    " 1f232-1f23a 1f23c-1f23f 1f249-1f3fa 1f400-1f53d 1f546-1f64f 1f680-1f6ff 1f774-1f77f 1f7d5-1f7ff 1f80c-1f80f"
    " 1f848-1f84f 1f85a-1f85f 1f888-1f88f 1f8ae-1f8ff 1f90c-1f93a 1f93c-1f945 1f947-1faff 1fc00-1fffd"
)
_PICTOGRAPH_RANGES = tuple(
    (int(first, 16), int(last or first, 16))
    for first, _, last in (part.partition("-") for part in _PICTOGRAPHS.split())
)
# classes: A letter, H Hebrew letter, K katakana, N digit, X joiner such as "_", M joins letters, m joins digits,
# d joins both, q apostrophe (joins both), Q double quote (joins Hebrew), e mark or format character, Z zero-width joiner,
# I ideograph or hiragana, S south-east Asian letter, P pictograph, R flag half, "." anything else
_FIXED = (
    dict.fromkeys(":··״‧︓﹕：", "M")
    | dict.fromkeys(".‘’․﹒＇．", "d")
    | dict.fromkeys(",;;։،؍٬߸⁄︐︔﹐﹔，；", "m")
    | dict.fromkeys("〱〲〳〴〵゛゜゠ーｰ", "K")
    | {"'": "q", '"': "Q", "\u066b": "N", "\u200b": ".", "\u200c": "e", "\u200d": "Z"}
    | {"\uff9e": "e", "\uff9f": "e"}
)
# blocks of scripts written without spaces (line breaking class SA)
_SOUTH_EAST_ASIAN = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x1950, 0x19DF),
    (0x1A20, 0x1AAF),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAADF),
)


def _character_class(char: str) -> str:
    if char in _FIXED:
        return _FIXED[char]
    code, category = ord(char), unicodedata.category(char)
    if 0x1F1E6 <= code <= 0x1F1FF:
        return "R"
    if category in ("Mn", "Me", "Mc") or 0x1F3FB <= code <= 0x1F3FF:
        return "e"
    if category == "Cf":
        return "e"
    if any(first <= code <= last for first, last in _PICTOGRAPH_RANGES):
        return "P"
    if category == "Nd":
        return "N"
    if category == "Pc":
        return "X"
    if category[0] == "L" or category == "Nl" or 0x24B6 <= code <= 0x24E9:
        return _letter_class(char, code)
    return "."


def _letter_class(char: str, code: int) -> str:
    if any(first <= code <= last for first, last in _SOUTH_EAST_ASIAN):
        return "S"
    name = unicodedata.name(char, "")
    if name.startswith(("CJK ", "HIRAGANA", "IDEOGRAPHIC", "HANGZHOU", "NUSHU", "TANGUT")):
        return "I"
    if name.startswith(("KATAKANA", "HALFWIDTH KATAKANA", "CIRCLED KATAKANA")):
        return "K"
    return "H" if name.startswith("HEBREW") and code != 0x5F3 else "A"


class _ClassTable(dict[int, str]):
    """Code point -> class letter, filled on demand (for ``str.translate``)."""

    def __missing__(self, code: int) -> str:
        self[code] = letter = _character_class(chr(code))
        return letter


_CLASSES = _ClassTable()
_E = "[eZ]*+"
_A, _N, _K, _X = f"[AH]{_E}", f"N{_E}", f"K{_E}", f"X{_E}"
_LETTERS = rf"(?:{_A})++(?:[Mdq]{_E}(?:{_A})++|(?<=H)Q{_E}(?=H)(?:{_A})++)*+"
_DIGITS = rf"(?:{_N})++(?:[mdq]{_E}(?:{_N})++)*+"
_RUN = rf"(?:(?:{_LETTERS}|{_DIGITS})++|(?:{_K})++)"
_GENERAL = re.compile(
    rf"(?:{_X})*+{_RUN}(?:(?:{_X})++{_RUN})*+(?:{_X})*+|(?:S{_E})++|I{_E}|P(?:e|ZP)*+Z*+|R{_E}R{_E}|(?P<junk>(?:{_X})++)"
)
_ASCII_RUN = r"(?:[a-z]++(?:[':.][a-z]++)*+|[0-9]++(?:['.,;][0-9]++)*+)++"
# a run of joiners without a word is matched too, and dropped; otherwise it would be retried from each of its positions
_ASCII = re.compile(rf"_*+{_ASCII_RUN}(?:_++{_ASCII_RUN})*+_*+|_++", re.IGNORECASE | re.ASCII)


def words(text: str) -> list[str]:
    """Return the words of a text, in order.

    >>> words("it's 3.5 oz., no_name u.s.a 1/2 (t-shirt)")
    ["it's", '3.5', 'oz', 'no_name', 'u.s.a', '1', '2', 't', 'shirt']
    """
    if text.isascii():
        tokens = _ASCII.findall(text)
        if "_" in text:
            tokens = [word for word in tokens if word.strip("_")]
    else:
        matches = _GENERAL.finditer(text.translate(_CLASSES))
        tokens = [text[m.start() : m.end()] for m in matches if m.lastgroup is None]
    if any(len(word) > MAX_WORD for word in tokens):
        tokens = [word[i : i + MAX_WORD] for word in tokens for i in range(0, len(word), MAX_WORD)]
    return tokens


@lru_cache(maxsize=1 << 18)
def term_of(word: str) -> str:
    """Return the index term of a word: stemmed, without possessive ending; "" for a stop word."""
    if word[-1] == "s" and len(word) > 1 and word[-2] in "'\u2019\uff07":
        word = word[:-2]
    return "" if word in STOP_WORDS else stem(word)


def analyse(text: str) -> list[str]:
    """Return the index terms of a lower-case text, in order, with repeats.

    >>> analyse("women's running shoes for the gym")
    ['women', 'run', 'shoe', 'gym']
    """
    return [term for term in map(term_of, words(text)) if term]

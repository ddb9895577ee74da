"""Porter's stemmer, with its author's two later corrections (``-bli`` and ``-logi``), as in Lucene.

The steps are those of M. F. Porter, "An algorithm for suffix stripping" (1980). A word is a chain of consonant and
vowel runs; its *measure* m counts the places where a vowel run is followed by a consonant run.
"""

from __future__ import annotations

__all__ = ["stem"]

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
_STEP4 = ("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize")  # fmt: skip
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

"""Outcome rewards over whole transcripts, as Search-R1 and PiCA published them (for re-scoring logs, and for parity).

Search-R1 reads prompt and response together: its prompt holds one ``<answer>`` block as an example, so the second one
counts as the first answer. PiCA reads the response alone and wants the answer at its very end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from creditflow.envs.wikisearch.scoring import exact_match, normalise_answer, set_f1, sub_match

__all__ = [
    "FormatCheck",
    "PicaReward",
    "check_format",
    "ends_with_answer",
    "pica_reward",
    "retrieved_answer",
    "searchr1_answer",
    "searchr1_em",
    "searchr1_em_format",
    "searchr1_sub_em",
]

_ANSWER: Final = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_INFORMATION: Final = re.compile(r"<information>(.*?)</information>", re.DOTALL)
_ANSWER_LAST: Final = re.compile(r"<answer>((?:(?!</answer>).)*)</answer>\s*\Z", re.DOTALL)
_ASSISTANT: Final = re.compile(r"<\|im_start\|>assistant\s*")
_TAGS: Final = ("think", "search", "information", "answer")
_TAG: Final = re.compile(r"(</?(?:think|search|information|answer)>)")
# state -> {tag: next state}; text other than whitespace is allowed only inside a block
_MOVES: Final[dict[str, dict[str, str]]] = {
    "start": {"<think>": "in_think"},
    "in_think": {"</think>": "after_think"},
    "after_think": {"<search>": "in_search", "<answer>": "in_answer"},
    "in_search": {"</search>": "after_search"},
    "after_search": {"<information>": "in_information"},
    "in_information": {"</information>": "information"},
    "information": {"<think>": "in_think"},
    "in_answer": {"</answer>": "end"},
    "end": {},
}


class FormatCheck(NamedTuple):
    """Whether a transcript follows the format, and the reason in the words of the published checker."""

    valid: bool
    reason: str


class PicaReward(NamedTuple):
    """PiCA's outcome: its score (−1 when the answer is not at the end), the graded answer, exact match."""

    score: float
    answer_correct: float
    em: float


def searchr1_answer(sequence: str) -> str | None:
    """The last answer block of prompt and response, stripped; None with fewer than two blocks."""
    blocks = _ANSWER.findall(sequence)
    return blocks[-1].strip() if len(blocks) > 1 else None


def searchr1_em(sequence: str, golden: Sequence[str], format_score: float = 0.0) -> float:
    """1 for an exactly matching answer, ``format_score`` for another, 0 for none."""
    answer = searchr1_answer(sequence)
    return 0.0 if answer is None else 1.0 if exact_match(answer, golden) else format_score


def searchr1_sub_em(sequence: str, golden: Sequence[str], format_score: float = 0.0) -> float:
    """As ``searchr1_em``, with the golden answer contained in the answer."""
    answer = searchr1_answer(sequence)
    return 0.0 if answer is None else 1.0 if sub_match(answer, golden) else format_score


def check_format(sequence: str) -> FormatCheck:
    """Whether what follows the assistant marker is (think search information)* think answer, and nothing between."""
    marker = _ASSISTANT.search(sequence)
    if marker is None:
        return FormatCheck(False, "Missing assistant marker")
    content = sequence[marker.end() :]
    for tag in _TAGS:
        opened, closed = content.count(f"<{tag}>"), content.count(f"</{tag}>")
        if opened != closed:
            return FormatCheck(False, f"Mismatch in {tag} tags: {opened} opening vs {closed} closing tags")
    state = "start"
    for part in _TAG.split(content):
        if not part.strip():
            continue
        if _TAG.fullmatch(part):
            if part not in _MOVES[state]:
                return FormatCheck(False, f"Unexpected tag {part} in state {state}")
            state = _MOVES[state][part]
        elif state == "end":
            return FormatCheck(False, "Unexpected content in state end")
        elif not state.startswith("in_"):
            return FormatCheck(False, f"Unexpected content '{part.strip()}' between tags (state: {state})")
    if state != "end":
        return FormatCheck(False, f"Incomplete sequence, ended in state {state}")
    return FormatCheck(True, "Valid sequence format")


def retrieved_answer(sequence: str, golden: Sequence[str]) -> bool:
    """Whether an information block holds a golden answer."""
    blocks = [normalise_answer(block) for block in _INFORMATION.findall(sequence)]
    wanted = [normalise_answer(answer) for answer in golden]
    return any(answer in block for block in blocks for answer in wanted)


def searchr1_em_format(
    sequence: str,
    golden: Sequence[str],
    *,
    structure_format_score: float = 0.2,
    final_format_score: float = 0.1,
    retrieval_score: float = 0.0,
) -> float:
    """Exact match with a share of the reward for format and for having retrieved the answer.

    Right: 1, less ``structure_format_score`` if malformed. Otherwise well-formed: ``structure_format_score``, plus
    ``retrieval_score`` if an information block holds the answer. Wrong and malformed: ``final_format_score``. No answer
    and malformed: 0.
    """
    answer, valid = searchr1_answer(sequence), check_format(sequence).valid
    if answer is not None and exact_match(answer, golden):
        return 1.0 if valid else 1.0 - structure_format_score
    if valid:
        return structure_format_score + (retrieval_score if retrieved_answer(sequence, golden) else 0.0)
    return 0.0 if answer is None else final_format_score


def ends_with_answer(response: str) -> bool:
    """Whether the response ends with an answer block; whitespace may follow."""
    return _ANSWER_LAST.search(response) is not None


def pica_reward(response: str, golden: Sequence[str]) -> PicaReward:
    """PiCA's outcome of one response: set F1 of the final answer, or −1 when it does not end with one."""
    last = _ANSWER_LAST.search(response)
    if last is None:
        return PicaReward(-1.0, 0.0, 0.0)
    answer = last.group(1).strip()
    score = set_f1(answer, golden)
    return PicaReward(score, score, exact_match(answer, golden))

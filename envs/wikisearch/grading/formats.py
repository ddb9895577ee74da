"""Format checks of transcripts, where their answer is, and whether they retrieved a golden answer.

A transcript is all text after the prompt: the model's and the environment's, with their tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from creditflow.envs.wikisearch.grading.scoring import normalize_answer

__all__ = [
    "FORMAT_RULES",
    "FormatCheck",
    "Transcript",
    "final_answer",
    "last_answer",
    "retrieved_answer",
    "second_answer",
]

_ANSWER: Final = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_INFORMATION: Final = re.compile(r"<information>(.*?)</information>", re.DOTALL)
_ANSWER_LAST: Final = re.compile(r"<answer>((?:(?!</answer>).)*)</answer>\s*\Z", re.DOTALL)
_ASSISTANT: Final = re.compile(r"<\|im_start\|>assistant\s*")


class FormatCheck(NamedTuple):
    """Whether a transcript has the format, and the published checker's reason."""

    valid: bool
    reason: str


class Transcript(NamedTuple):
    """An episode as text.

    Attributes:
        response: everything after the prompt.
        golden: the golden answers.
        question: its text, for judges.
        prompt: the text before the response.
        marked: whether the chat template's assistant marker was found, which Search-R1's checker requires.
    """

    response: str
    golden: tuple[str, ...]
    question: str = ""
    prompt: str = ""
    marked: bool = True

    @classmethod
    def of_sequence(cls, sequence: str, golden: Sequence[str], question: str = "") -> Transcript:
        """A transcript from one text, split at the chat template's assistant marker."""
        marker = _ASSISTANT.search(sequence)
        if marker is None:
            return cls(sequence, tuple(golden), question, marked=False)
        return cls(sequence[marker.end() :], tuple(golden), question, sequence[: marker.end()])


# -- where the answer is ----------------------------------------------------------------------------------------------
def last_answer(transcript: Transcript) -> str | None:
    """The last answer block of the response, stripped; None without one."""
    blocks = _ANSWER.findall(transcript.response)
    return blocks[-1].strip() if blocks else None


def second_answer(transcript: Transcript) -> str | None:
    """Search-R1's rule: the last block of prompt and response; None with fewer than two, as its prompt contains an example."""
    blocks = _ANSWER.findall(transcript.prompt + transcript.response)
    return blocks[-1].strip() if len(blocks) > 1 else None


def final_answer(transcript: Transcript) -> str | None:
    """PiCA's rule: the answer block at the end of the response; None if there is none."""
    last = _ANSWER_LAST.search(transcript.response)
    return last.group(1).strip() if last else None


def retrieved_answer(transcript: Transcript) -> bool:
    """Whether an information block contains a golden answer."""
    blocks = [normalize_answer(block) for block in _INFORMATION.findall(transcript.prompt + transcript.response)]
    normalized = [normalize_answer(answer) for answer in transcript.golden]
    return any(answer in block for block in blocks for answer in normalized)


# -- formats ------------------------------------------------------------------------------------------------------------
def _transitions(tool: str, result: str) -> dict[str, dict[str, str]]:
    """State -> {tag: next state}; text other than white space is allowed only inside a block."""
    return {
        "start": {"<think>": "in_think"},
        "in_think": {"</think>": "after_think"},
        "after_think": {f"<{tool}>": f"in_{tool}", "<answer>": "in_answer"},
        f"in_{tool}": {f"</{tool}>": f"after_{tool}"},
        f"after_{tool}": {f"<{result}>": f"in_{result}"},
        f"in_{result}": {f"</{result}>": result},
        result: {"<think>": "in_think"},
        "in_answer": {"</answer>": "end"},
        "end": {},
    }


class _Blocks:
    """(think tool result)* think answer, and nothing between; ``check_call`` returns what is wrong with a tool block's text."""

    def __init__(self, tool: str, result: str, check_call: Callable[[str], str] | None = None) -> None:
        self._tags = ("think", tool, result, "answer")
        self._transitions, self._check_call, self._in_call = _transitions(tool, result), check_call, f"in_{tool}"
        self._tag = re.compile(rf"(</?(?:{'|'.join(self._tags)})>)")

    def __call__(self, transcript: Transcript) -> FormatCheck:
        content = transcript.response
        for tag in self._tags:
            opened, closed = content.count(f"<{tag}>"), content.count(f"</{tag}>")
            if opened != closed:
                return FormatCheck(False, f"Mismatch in {tag} tags: {opened} opening vs {closed} closing tags")
        state = "start"
        for piece in self._tag.split(content):
            if not piece.strip():
                continue
            if self._tag.fullmatch(piece):
                if piece not in self._transitions[state]:
                    return FormatCheck(False, f"Unexpected tag {piece} in state {state}")
                state = self._transitions[state][piece]
            elif state == "end":
                return FormatCheck(False, "Unexpected content in state end")
            elif not state.startswith("in_"):
                return FormatCheck(False, f"Unexpected content '{piece.strip()}' between tags (state: {state})")
            elif self._check_call is not None and state == self._in_call and (wrong := self._check_call(piece)):
                return FormatCheck(False, wrong)
        if state != "end":
            return FormatCheck(False, f"Incomplete sequence, ended in state {state}")
        return FormatCheck(True, "Valid sequence format")


_searches: Final = _Blocks("search", "information")


def _search_r1(transcript: Transcript) -> FormatCheck:
    """Search-R1's format: (think search information)* think answer."""
    return _searches(transcript) if transcript.marked else FormatCheck(False, "Missing assistant marker")


def _tool_call(text: str) -> str:
    try:
        call: Any = json.loads(text)
    except (ValueError, RecursionError):
        return "A tool call that is not JSON"
    if not isinstance(call, dict) or set(call) != {"name", "arguments"}:
        return "A tool call without name and arguments"
    return ""


_calls: Final = _Blocks("tool_call", "tool_response", _tool_call)


def _answer_last(transcript: Transcript) -> FormatCheck:
    """PiCA's and StepSearch's format: the response ends with an answer block."""
    if final_answer(transcript) is None:
        return FormatCheck(False, "The response does not end with an answer")
    return FormatCheck(True, "The response ends with an answer")


FORMAT_RULES: Final[Mapping[str, Callable[[Transcript], FormatCheck]]] = {
    "search_r1": _search_r1,
    "egrpo": _calls,  # (think tool_call tool_response)* think answer, the call a JSON object of name and arguments
    "answer_last": _answer_last,
}

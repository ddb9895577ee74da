"""Search-R1 transcripts read back into turns: what the model wrote, what it asked for, what it was shown.

A transcript is the model's text and the environment's, one after the other, told apart only by tags. Passages may hold
tags too, long observations lose their end, and the refusal of an action quotes the tags it asks for; so a transcript is
read in order, never searched for all blocks at once.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from creditflow.envs.wikisearch.actions import Call, parse_tags
from creditflow.envs.wikisearch.dialects import DIALECTS

__all__ = ["Exchange", "QuotedPassage", "read_passages", "read_transcript"]

_BLOCK: Final = re.compile(r"<(search|answer|access)>.*?</\1>", re.DOTALL)
_OPENED: Final = re.compile(r"\s*<information>")
_CLOSED: Final = re.compile(r"</information>(?=\n\n|\s*\Z|\s*<warning>)")
_NEXT_SEARCH: Final = re.compile(r"</(?:search|access)>\s*<information>")
_MODEL_TAG: Final = re.compile(r"<(?:think|search|answer|access)>")
_NOTICE: Final = re.compile(r"\s*<warning>.*?</warning>\s*", re.DOTALL)
# what the environment says to an action it cannot read, in the published words
_REFUSALS: Final = tuple(DIALECTS[name].invalid("").strip() for name in ("pica", "search_r1"))
_DOCUMENT: Final = re.compile(r"^Doc (\d+)\(Title: ", re.MULTILINE)


class Exchange(NamedTuple):
    """One turn of a transcript.

    Attributes:
        text: what the model wrote, tags included.
        call: what it asked for; None if nothing could be read.
        reason: why not.
        thought: all text of the model outside its call, without think tags.
        observation: the environment's answer, tags included; "" after an answer, or where the transcript ends.
        information: what stands between the information tags; None where there are none.
    """

    text: str
    call: Call | None
    reason: str
    thought: str
    observation: str = ""
    information: str | None = None


class QuotedPassage(NamedTuple):
    """A passage as a transcript shows it; its text may be cut."""

    title: str
    text: str


def read_transcript(response: str) -> list[Exchange]:
    r"""The turns of a transcript, in order; the first answer is the last turn.

    What is malformed becomes a turn that could not be read, as it did when it was played.

    Args:
        response: everything after the prompt.

    >>> turns = read_transcript("I look. <search>Nile</search>\n\n<information>Doc 1(Title: Nile) Long.</information>"
    ...                         "\n\nSo: <answer>yes</answer>")
    >>> [(turn.thought, turn.call.tool, turn.information) for turn in turns]
    [('I look.', 'search', 'Doc 1(Title: Nile) Long.'), ('So:', 'answer', None)]
    """
    turns: list[Exchange] = []
    at = 0
    while response[at:].strip():
        block = _BLOCK.search(response, at)
        refusal = min((i for i in (response.find(words, at) for words in _REFUSALS) if i >= 0), default=-1)
        if refusal >= 0 and (block is None or block.end() > refusal):
            text = response[at:refusal]
            end = refusal + max(len(words) for words in _REFUSALS if response.startswith(words, refusal))
            at = _after_notice(response, end)
            turns.append(_unread(text, response[refusal:at].strip()))
        elif block is None:
            turns.append(_unread(response[at:], ""))
            break
        elif block.group(1) == "answer":
            turns.append(_read(response[at:]))  # text after the answer belongs to its turn
            break
        else:
            opened = _OPENED.match(response, block.end())
            if opened is None:
                turns.append(_read(response[at : block.end()]))
                at = block.end()
                continue
            inside, end = _information(response, opened.end())
            end = _after_notice(response, end)
            turn = _read(response[at : block.end()])
            turns.append(turn._replace(observation=response[block.end() : end].strip(), information=inside))
            at = end
    return turns


def _read(text: str) -> Exchange:
    parsed = parse_tags(text)
    return Exchange(text.strip(), parsed.call, parsed.reason, parsed.thought)


def _unread(text: str, observation: str) -> Exchange:
    thought = re.sub(r"</?think>", " ", text).strip()
    return Exchange(text.strip(), None, "no complete search or answer block", thought, observation)


def _after_notice(text: str, at: int) -> int:
    """The position after a warning that follows an observation."""
    notice = _NOTICE.match(text, at)
    return notice.end() if notice else at


def _information(text: str, start: int) -> tuple[str, int]:
    """What stands in an information block, and where the block ends.

    The environment writes a blank line after its closing tag, a tag quoted in a passage seldom has one. A block whose
    closing tag was cut off ends where the model speaks again in tags.
    """
    following = _NEXT_SEARCH.search(text, start)
    limit = following.start() if following else len(text)
    closed = _CLOSED.search(text, start) or re.compile("</information>").search(text, start)
    if closed is not None and closed.end() <= limit:
        return text[start : closed.start()].strip(), closed.end()
    speaks = _MODEL_TAG.search(text, start)
    end = speaks.start() if speaks else len(text)
    return text[start:end].strip(), end


def read_passages(information: str) -> list[QuotedPassage]:
    r"""The passages of an information block, written as ``Doc 1(Title: …) …``, in order.

    A number out of order, as in a passage that quotes such a line, begins no passage.

    >>> read_passages('Doc 1(Title: "Nile (river)") It is long.\nDoc 2(Title: Mercury (planet)) It is hot.')
    [QuotedPassage(title='Nile (river)', text='It is long.'), QuotedPassage(title='Mercury (planet)', text='It is hot.')]
    """
    starts: list[re.Match[str]] = []
    for head in _DOCUMENT.finditer(information):
        if head.group(1) == str(len(starts) + 1):
            starts.append(head)
    ends = [*(head.start() for head in starts), len(information)][1:]
    return [_shown(information[head.end() : end].strip()) for head, end in zip(starts, ends, strict=True)]


def _shown(text: str) -> QuotedPassage:
    if text.startswith('"') and '")' in text:
        title, _, rest = text[1:].partition('")')
        return QuotedPassage(title, rest.strip())
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return QuotedPassage(text[:i], text[i + 1 :].strip())
    return QuotedPassage("", text)

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

_CALL: Final = re.compile(r"<(search|answer|access)>")
_CALL_END: Final = {name: re.compile(f"</{name}>") for name in ("search", "answer", "access")}
_VISIBLE: Final = re.compile(r"\S")
_OPENED: Final = re.compile(r"\s*<information>")
_CLOSED: Final = re.compile(r"</information>(?=\n\n|\s*\Z|\s*<warning>)")
_NEXT_SEARCH: Final = re.compile(r"</(?:search|access)>\s*<information>")
_MODEL_TAG: Final = re.compile(r"<(?:think|search|answer|access)>")
_WARNING: Final = re.compile(r"\s*<warning>")
# what the environment says to an action it cannot read, in the published words
_REFUSALS: Final = tuple(DIALECTS[name].invalid("").strip() for name in ("pica", "search_r1"))
_REFUSAL: Final = re.compile("|".join(map(re.escape, _REFUSALS)))
_INFORMATION_END: Final = re.compile("</information>")
_WARNING_END: Final = re.compile(r"</warning>\s*")
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
    text = _Text(response)
    turns: list[Exchange] = []
    at = 0
    while text.next(_VISIBLE, at):
        block = text.block(at)
        refusal = text.next(_REFUSAL, at)
        if refusal and (block is None or block[1] > refusal.start()):
            start = refusal.start()
            end = start + max(len(words) for words in _REFUSALS if response.startswith(words, start))
            written, at = response[at:start], text.after_notice(end)
            turns.append(_unread(written, response[start:at].strip()))
        elif block is None:
            turns.append(_unread(response[at:], ""))
            break
        elif block[0] == "answer":
            turns.append(_read(response[at:]))  # text after the answer belongs to its turn
            break
        else:
            turn, end = _read(response[at : block[1]]), block[1]
            if opened := _OPENED.match(response, end):
                inside, closed = text.information(opened.end())
                closed = text.after_notice(closed)
                turn = turn._replace(observation=response[end:closed].strip(), information=inside)
                end = closed
            turns.append(turn)
            at = end
    return turns


class _Text:
    """A transcript in which tags are looked for from places that never go back.

    The next match of each pattern is remembered, so that text without it is passed over once, and reading takes time
    that grows with the text alone.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[re.Pattern[str], re.Match[str] | None] = {}

    def next(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        """The first match that begins at a place or after it."""
        found = self._found.get(pattern)
        if pattern not in self._found or (found and found.start() < at):
            found = self._found[pattern] = pattern.search(self._text, at)
        return found

    def block(self, at: int) -> tuple[str, int] | None:
        """The name and the end of the next call that has a closing tag."""
        while call := self.next(_CALL, at):
            if end := self.next(_CALL_END[call[1]], call.end()):
                return call[1], end.end()
            at = call.end()
        return None

    def after_notice(self, at: int) -> int:
        """The position after a warning that follows an observation."""
        begun = _WARNING.match(self._text, at)
        end = self.next(_WARNING_END, begun.end()) if begun else None
        return end.end() if end else at

    def information(self, start: int) -> tuple[str, int]:
        """What stands in an information block, and where the block ends.

        The environment writes a blank line after its closing tag, a tag quoted in a passage seldom has one. A block whose
        closing tag was cut off ends where the model speaks again in tags.
        """
        following = self.next(_NEXT_SEARCH, start)
        limit = following.start() if following else len(self._text)
        closed = self.next(_CLOSED, start) or self.next(_INFORMATION_END, start)
        if closed is not None and closed.end() <= limit:
            return self._text[start : closed.start()].strip(), closed.end()
        speaks = self.next(_MODEL_TAG, start)
        end = speaks.start() if speaks else len(self._text)
        return self._text[start:end].strip(), end


def _read(text: str) -> Exchange:
    parsed = parse_tags(text)
    return Exchange(text.strip(), parsed.call, parsed.reason, parsed.thought)


def _unread(text: str, observation: str) -> Exchange:
    thought = re.sub(r"</?think>", " ", text).strip()
    return Exchange(text.strip(), None, "no complete search or answer block", thought, observation)


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

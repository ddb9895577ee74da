"""Search-R1 transcripts parsed into turns: the completion, the tool call and the observation of each.

In a transcript the model's text and the environment's alternate and only tags separate them. Passages may contain tags
too, long observations are cut at their end, and the message after an invalid action quotes the tags that it expects; so
a transcript is parsed in order, never searched for all blocks at once.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from creditflow.envs.wikisearch.actions import Call, parse_tags, thought_before
from creditflow.envs.wikisearch.protocol.dialects import DIALECTS

__all__ = ["Exchange", "read_transcript"]

_CALL: Final = re.compile(r"<(search|answer|access)>")
_CALL_END: Final = {name: re.compile(f"</{name}>") for name in ("search", "answer", "access")}
_VISIBLE: Final = re.compile(r"\S")
_OPENED: Final = re.compile(r"\s*<information>")
_CLOSED: Final = re.compile(r"</information>(?=\n\n|\s*\Z|\s*<warning>)")
_NEXT_SEARCH: Final = re.compile(r"</(?:search|access)>\s*<information>")
_MODEL_TAG: Final = re.compile(r"<(?:think|search|answer|access)>")
_WARNING: Final = re.compile(r"\s*<warning>")
# the environment's message after an action that it cannot parse, as published
_INVALID_MESSAGES: Final = tuple(DIALECTS[name].invalid("").strip() for name in ("pica", "search_r1"))
_INVALID_MESSAGE: Final = re.compile("|".join(map(re.escape, _INVALID_MESSAGES)))
_INFORMATION_END: Final = re.compile("</information>")
_WARNING_END: Final = re.compile(r"</warning>\s*")


class Exchange(NamedTuple):
    """One turn of a transcript.

    Attributes:
        text: the completion, tags included.
        call: its tool call; None if it could not be parsed.
        reason: why it could not be parsed.
        thought: what is between thinking tags; without any, the text before the call.
        observation: the environment's reply, tags included; "" after an answer, or where the transcript ends.
        information: the text between the information tags; None without them.
    """

    text: str
    call: Call | None
    reason: str
    thought: str
    observation: str = ""
    information: str | None = None


def read_transcript(response: str) -> list[Exchange]:
    r"""The turns of a transcript, in order; the first answer is the last turn.

    Malformed text becomes a turn without a call, as it was in the episode.

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
        invalid = text.next(_INVALID_MESSAGE, at)
        if invalid and (block is None or block[1] > invalid.start()):
            start = invalid.start()
            end = start + max(len(words) for words in _INVALID_MESSAGES if response.startswith(words, start))
            written, at = response[at:start], text.after_notice(end)
            turns.append(_without_call(written, response[start:at].strip()))
        elif block is None:
            turns.append(_without_call(response[at:], ""))
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
    """A transcript, searched for tags at positions that only increase.

    The next match of each pattern is cached, so that no text is searched twice for it, and parsing takes time
    linear in the text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[re.Pattern[str], re.Match[str] | None] = {}

    def next(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        """The first match that begins at a position or after it."""
        match = self._found.get(pattern)
        if pattern not in self._found or (match and match.start() < at):
            match = self._found[pattern] = pattern.search(self._text, at)
        return match

    def block(self, at: int) -> tuple[str, int] | None:
        """The name and the end of the next call that has a closing tag."""
        while call := self.next(_CALL, at):
            if end := self.next(_CALL_END[call[1]], call.end()):
                return call[1], end.end()
            at = call.end()
        return None

    def after_notice(self, at: int) -> int:
        """The position after a warning that follows an observation."""
        opening = _WARNING.match(self._text, at)
        end = self.next(_WARNING_END, opening.end()) if opening else None
        return end.end() if end else at

    def information(self, start: int) -> tuple[str, int]:
        """The text of an information block, and where the block ends.

        The environment writes a blank line after its closing tag; a tag quoted in a passage seldom has one. A block whose
        closing tag was cut off ends at the next tag of the model.
        """
        following = self.next(_NEXT_SEARCH, start)
        limit = following.start() if following else len(self._text)
        closed = self.next(_CLOSED, start) or self.next(_INFORMATION_END, start)
        if closed is not None and closed.end() <= limit:
            return self._text[start : closed.start()].strip(), closed.end()
        next_tag = self.next(_MODEL_TAG, start)
        end = next_tag.start() if next_tag else len(self._text)
        return self._text[start:end].strip(), end


def _read(text: str) -> Exchange:
    parsed = parse_tags(text)
    return Exchange(text.strip(), parsed.call, parsed.reason, parsed.thought)


def _without_call(text: str, observation: str) -> Exchange:
    return Exchange(text.strip(), None, "no complete search or answer block", thought_before(text), observation)

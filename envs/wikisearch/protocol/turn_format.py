"""The grammar of a well-formed turn in the tagged dialects, read by format errors and by the match of entities in thoughts.

    turn := <think> thought </think> call        call := <TAG> body </TAG>, TAG of ``CALLS``

with white space around both parts and nothing else: no text after the call, no prose outside the tags, no second or unclosed
<think>, and no tag of the protocol inside the thought (a result that the model wrote itself).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_tagged", "tagged_thought", "well_formed"]

CALLS: Final = "search|access|visit|answer|tool_call"
_RESULTS: Final = "tool_response|information|warning|observation"
_TAG: Final = re.compile(rf"</?(?:think|{CALLS}|{_RESULTS})>")
_TURN: Final = re.compile(rf"\s*(?:<think>(.*?)</think>)?\s*<({CALLS})>(.*?)</\2>\s*", re.DOTALL)
_THOUGHT: Final = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_BLOCK: Final = re.compile(rf"<({CALLS}|{_RESULTS})>.*?(?:</\1>|\Z)", re.DOTALL)


def is_tagged(response: str) -> bool:
    """Whether a response has a tag of the protocol; dialects of plain lines have none."""
    return _TAG.search(response) is not None


def well_formed(response: str, thought: str = "") -> bool:
    """Whether a tagged response is one turn of the grammar.

    >>> well_formed("<think>Nolan?</think> <search>Nolan</search>"), well_formed("Nolan? <search>Nolan</search>")
    (True, False)

    Args:
        response: what the model wrote.
        thought: the thought that a server keeps apart from the response, which then has no <think> of its own.
    """
    match = _TURN.fullmatch(response)
    if match is None:
        return False
    inside, _, body = match.groups()
    return bool((thought if inside is None else inside).strip()) and not is_tagged(inside or "") and not is_tagged(body)


def tagged_thought(response: str, thought: str = "") -> str:
    """The text between <think> and </think>, without calls and results written in it; of no tags what was kept apart.

    >>> tagged_thought("<think>Nolan <search>London</search></think> prose <search>Nolan</search> Inception")
    'Nolan  '

    Args:
        response: what the model wrote, tagged.
        thought: see ``well_formed``; it counts where the response is a bare call.
    """
    if "<think>" in response:
        return "\n".join(_BLOCK.sub(" ", inside) for inside in _THOUGHT.findall(response))
    return thought if _TURN.fullmatch(response) else ""

r"""Decoded text as turns, where a log has no messages: cut at the lines that name a role, or by Search-R1's tags.

A tokenizer that skips special tokens leaves of ChatML's ``<|im_end|>\n<|im_start|>user\n`` only a line "user". A model that
writes such a line itself cannot be told apart from it; the report therefore counts the cuts.
"""

from __future__ import annotations

import re
from typing import Final

from creditflow.envs.errors import check_name
from creditflow.envs.wikisearch.protocol.transcript import read_transcript
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.messages import split_thought
from creditflow.train.adapters.logs.report import RowError, Tally

__all__ = ["TURNS", "text_turns"]

TURNS: Final = ("roles", "search", "single")
_MARK: Final = re.compile(r"<\|im_(?:start|end)\|>|<\|endoftext\|>")
_ENVIRONMENT: Final = re.compile(r"^(?:user|tool|system)$", re.MULTILINE)
_MODEL: Final = re.compile(r"^assistant$", re.MULTILINE)


def text_turns(prompt: str, output: str, how: str, tally: Tally) -> tuple[list[Exchange], str | None]:
    """The turns of a decoded sequence, and the text after the last one (None: there is none).

    Args:
        prompt: decoded prompt, the first observation.
        output: decoded rest, in which the model's and the environment's texts alternate.
        how: "roles": cut at lines that are a role's name; "search": at Search-R1's tags; "single": not at all.
        tally: counts the cuts.

    Raises:
        ConfigError: another value of ``how``.
        RowError: nothing is the model's.
    """
    check_name("way to cut a text into turns", how, TURNS)
    if how == "search":
        return _search_turns(prompt, output)
    text, turns, observation = _MARK.sub("", output), list[Exchange](), prompt
    at = 0
    while how == "roles" and (found := _ENVIRONMENT.search(text, at)):
        turns.append(_turn(observation, text[at : found.start()]))
        require_length(len(turns))
        reply = _MODEL.search(text, found.end())
        if reply is None:
            return _cut(turns, tally), text[found.end() :].strip()
        observation, at = text[found.end() : reply.start()].strip(), reply.end()
    turns.append(_turn(observation, text[at:]))
    return _cut(turns, tally), None


def _cut(turns: list[Exchange], tally: Tally) -> list[Exchange]:
    tally.note("turns cut at a line that is a role's name", len(turns) - 1)
    return turns


def _turn(observation: str, text: str) -> Exchange:
    said = text.strip()
    thought, action = split_thought(said)
    return Exchange(observation, said, action, thought)


def _search_turns(prompt: str, output: str) -> tuple[list[Exchange], str | None]:
    turns, observation = [], prompt
    exchanges = read_transcript(output)
    require_length(len(exchanges))
    if not exchanges:
        raise RowError("the output is empty")
    for exchange in exchanges:
        call = exchange.call
        action = exchange.text if call is None else f"<{call.tool}>{call.items[0] if call.items else ''}</{call.tool}>"
        turns.append(Exchange(observation, exchange.text, action, exchange.thought, parsed=call is not None))
        observation = exchange.observation
    return turns, observation or None

"""Decoded sequences as turns: logs without messages have a prompt and an output in which the model and the environment alternate.

The output is cut at the marks of the chat template that it contains. A tokenizer that skips special tokens leaves of ChatML only a
line "user", and of Llama's template "user" and a blank line; a model that writes this itself cannot be told apart, so the report
counts the cuts. Marks of a template that is not in ``TEMPLATES`` leave the row out, since otherwise the environment's text would be
trained on as the model's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from creditflow.envs.errors import check_name, short_repr
from creditflow.envs.wikisearch.protocol.transcript import read_transcript
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.messages import split_thought
from creditflow.train.adapters.logs.rows import RowError, Tally

__all__ = ["TURNS", "text_turns"]

TURNS: Final = ("roles", "search", "single")


class Template(NamedTuple):
    """Marks of a chat template: where it is recognised, what begins the environment's and the model's text, and what is dropped."""

    known_by: str
    environment: str
    model: str
    dropped: str


_ROLES = "(?:user|tool|system|ipython|environment)"
TEMPLATES: Final = (
    Template(r"<\|im_start\|>", rf"<\|im_start\|>{_ROLES}\n?", r"<\|im_start\|>assistant\n?", r"<\|im_end\|>\n?|<\|endoftext\|>"),
    Template(
        r"<\|start_header_id\|>", rf"<\|start_header_id\|>{_ROLES}<\|end_header_id\|>", r"<\|start_header_id\|>assistant<\|end_header_id\|>",
        r"<\|eot_id\|>|<\|eom_id\|>|<\|begin_of_text\|>|<\|end_of_text\|>|<\|python_tag\|>",
    ),
    Template(r"<\|header_start\|>", rf"<\|header_start\|>{_ROLES}<\|header_end\|>", r"<\|header_start\|>assistant<\|header_end\|>", r"<\|eot\|>|<\|eom\|>"),
    Template(r"<start_of_turn>", r"<start_of_turn>(?:user|tool)\n?", r"<start_of_turn>model\n?", r"<end_of_turn>\n?|<eos>"),
    Template(r"\[/INST\]", r"\[INST\]|\[TOOL_RESULTS\]", r"\[/INST\]|\[/TOOL_RESULTS\]", r"</s>|<s>"),
    Template(r"<｜Assistant｜>", r"<｜User｜>|<｜tool▁outputs▁begin｜>", r"<｜Assistant｜>", r"<｜(?:end▁of▁sentence|tool▁outputs▁end)｜>"),
    Template(r"<\|assistant\|>", r"<\|(?:user|observation|tool)\|>\n?", r"<\|assistant\|>\n?", r"<\|end\|>\n?|</s>|<\|endoftext\|>"),
    Template(r"(?m)^user$", r"(?m)^(?:user|tool|system)$", r"(?m)^assistant$", r"<\|im_end\|>|<\|endoftext\|>"),  # skipped
    Template(r"(?s)(?:user|ipython|tool)\n\n.*assistant\n\n", r"(?:user|ipython|tool)\n\n", r"assistant\n\n", r"<\|eot_id\|>"),
)  # fmt: skip
_MARK: Final = re.compile(r"<\|[a-z_]+\|>|<(?:start|end)_of_turn>|\[/?INST\]|<｜[^｜>]{1,40}｜>")


def text_turns(prompt: str, output: str, how: str, tally: Tally) -> tuple[list[Exchange], str | None]:
    """The turns of a decoded sequence, and the text after the last one (None: there is none).

    Args:
        prompt: decoded prompt, the first observation.
        output: decoded rest, in which the model's and the environment's texts alternate.
        how: "roles": cut at the marks of a chat template; "search": at Search-R1's tags; "single": not at all.
        tally: counts the cuts.

    Raises:
        ConfigError: another value of ``how``.
        RowError: nothing is the model's, or marks of an unknown template.
    """
    check_name("way to cut a text into turns", how, TURNS)
    if how == "search":
        return _search_turns(prompt, output)
    template = next((template for template in TEMPLATES if re.search(template.known_by, output)), TEMPLATES[-2])
    if how == "single":
        return [_turn(prompt, output)], None
    model, environment = re.compile(template.model), re.compile(template.environment)
    clean = _cleaner(template)
    turns, observation, at = list[Exchange](), prompt, 0
    after: str | None = None
    while cut := environment.search(output, at):
        turns.append(_turn(observation, clean(output[at : cut.start()])))
        require_length(len(turns))
        reply = model.search(output, cut.end())
        if reply is None:
            after = clean(environment.sub("\n", output[cut.end() :]))
            break
        observation, at = clean(environment.sub("\n", output[cut.end() : reply.start()])), reply.end()
    else:
        turns.append(_turn(observation, clean(output[at:])))
    tally.note(
        "turns cut at the marks of a chat template, or at a line that is a role's name",
        len(turns) - 1 + (after is not None),
    )
    return turns, after


def _cleaner(template: Template) -> Callable[[str], str]:
    """A function that drops a template's remaining marks, and raises RowError for those of another."""
    dropped = re.compile(template.dropped)

    def clean(text: str) -> str:
        text = dropped.sub("", text).strip()
        if mark := _MARK.search(text):
            raise RowError(
                "special tokens of a chat template that is not known; pass --turns single, or log messages",
                short_repr(mark[0]),
            )
        return text

    return clean


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

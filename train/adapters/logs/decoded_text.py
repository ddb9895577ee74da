"""Decoded sequences as turns: logs without messages have a prompt and an output in which the model and the environment alternate.

The output is cut at the marks of the chat template that it contains. A tokenizer that skips special tokens leaves of ChatML only a
line "user", and of Llama's template "user" and a blank line; a model that writes this itself cannot be told apart, so the report
counts the cuts. Marks of a template that is not in ``TEMPLATES`` leave the row out, since otherwise the environment's text would be
trained on as the model's.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from creditflow.envs.errors import check_name, short_repr
from creditflow.envs.wikisearch.protocol.transcript import read_transcript
from creditflow.train.adapters.logs.episodes import Exchange, require_length
from creditflow.train.adapters.logs.messages import split_thought
from creditflow.train.adapters.logs.rows import RowError, Tally

__all__ = ["TURNS", "text_turns"]

TURNS: Final = ("roles", "search", "single")


class Template(NamedTuple):
    """Marks of a chat template: where it is recognised, and what begins the environment's and the model's text."""

    known_by: str
    environment: str
    model: str


_ROLES = "(?:user|tool|system|ipython|environment)"
TEMPLATES: Final = (
    Template(
        r"<\|im_start\|>",
        rf"<\|im_start\|>{_ROLES}(?:<\|im_sep\|>)?\n?",
        r"<\|im_start\|>assistant(?:<\|im_sep\|>)?\n?",
    ),
    Template(
        r"<\|start_header_id\|>",
        rf"<\|start_header_id\|>{_ROLES}<\|end_header_id\|>",
        r"<\|start_header_id\|>assistant<\|end_header_id\|>",
    ),
    Template(
        r"<\|header_start\|>",
        rf"<\|header_start\|>{_ROLES}<\|header_end\|>",
        r"<\|header_start\|>assistant<\|header_end\|>",
    ),
    Template(r"<start_of_turn>", r"<start_of_turn>(?:user|tool)\n?", r"<start_of_turn>model\n?"),
    Template(r"\[/?(?:INST|TOOL_RESULTS)\]", r"\[INST\]|\[TOOL_RESULTS\]", r"\[/INST\]|\[/TOOL_RESULTS\]"),
    Template(
        r"<｜(?:Assistant|User|tool▁outputs▁begin)｜>", r"<｜User｜>|<｜tool▁outputs▁begin｜>", r"<｜Assistant｜>"
    ),
    Template(r"<\|(?:assistant|user|observation)\|>", r"<\|(?:user|observation|tool)\|>\n?", r"<\|assistant\|>\n?"),
    Template(
        r"<\|START_OF_TURN_TOKEN\|>",
        r"<\|START_OF_TURN_TOKEN\|><\|(?:USER|SYSTEM)_TOKEN\|>",
        r"<\|START_OF_TURN_TOKEN\|><\|CHATBOT_TOKEN\|>",
    ),
    Template(
        r"<\|start_of_role\|>",
        rf"<\|start_of_role\|>{_ROLES}<\|end_of_role\|>",
        r"<\|start_of_role\|>assistant<\|end_of_role\|>",
    ),
    Template(r"\[\|(?:user|assistant)\|\]", r"\[\|(?:user|tool|system)\|\]", r"\[\|assistant\|\]"),
    Template(
        r"(?s)(?:user|ipython|tool)\n\n.*assistant\n\n", r"(?:user|ipython|tool)\n\n", r"assistant\n\n"
    ),  # special tokens skipped
)
_SKIPPED: Final = Template("", r"(?m)^(?:user|tool|system)$", r"(?m)^(?:assistant|model)$")
_ENDS: Final = re.compile(  # of a turn or a sequence, of any template
    r"<\|(?:im_end|end|eot_id|eom_id|eot|eom|end_of_text|begin_of_text|endoftext|python_tag|END_OF_TURN_TOKEN)\|>|\[\|endofturn\|\]"
    "|<end_of_turn>|<｜(?:end▁of▁sentence|tool▁outputs▁end)｜>"
)
_EDGES: Final = re.compile(r"^(?:\s|</?s>|<bos>)+|(?:\s|</?s>|<eos>|<pad>)+$")  # texts of pages may have them within
_MARK: Final = re.compile(
    r"<\|[A-Za-z_]+\|>|<(?:start|end)_of_turn>|\[/?(?:INST|TOOL_RESULTS)\]|<｜[^｜>]{1,40}｜>|\[\|[a-z]+\|\]|<extra_id_\d+>|<seed:[a-z]+>"
    r"|\[e~\[|\]~b\]|</s>\s*(?:USER|User|Human):|(?m:^### (?:Instruction|Human|User):)"
)


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
    template = next((template for template in TEMPLATES if re.search(template.known_by, output)), _SKIPPED)
    if how == "single":
        return [_turn(prompt, output)], None
    model, environment = re.compile(template.model), re.compile(template.environment)
    turns, observation, at = list[Exchange](), prompt, 0
    after: str | None = None
    while cut := environment.search(output, at):
        turns.append(_turn(observation, _clean(output[at : cut.start()])))
        require_length(len(turns))
        reply = model.search(output, cut.end())
        if reply is None:
            after = _clean(environment.sub("\n", output[cut.end() :]))
            break
        observation, at = _clean(environment.sub("\n", output[cut.end() : reply.start()])), reply.end()
    else:
        turns.append(_turn(observation, _clean(output[at:])))
    tally.note(
        "turns cut at the marks of a chat template, or at a line that is a role's name",
        len(turns) - 1 + (after is not None),
    )
    return turns, after


def _clean(text: str) -> str:
    """The text without the marks of ends; RowError for any other mark."""
    text = _EDGES.sub("", _ENDS.sub("", text))
    if mark := _MARK.search(text):
        raise RowError(
            "special tokens of a chat template that is not known; pass --turns single, or log messages",
            short_repr(mark[0]),
        )
    return text


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

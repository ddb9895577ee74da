"""The prompt templates, by name.

``think-v1``, ``action-v1`` and ``react-v1`` show an instructed model the possible actions. The search templates
(``search-v1`` for tags, ``tools-v1`` for JSON calls, ``search-tool-v1`` for JSON calls of a search alone, ``react-search-v1`` for plain lines,
``reason-v1`` for an answer without a search) never do: WikiSearch's list is for scripted agents and contains the golden answer once all evidence has been seen. ``terse-v1``, ``places-v1`` and ``around-v1`` give a small model trained from scratch the observation alone, without
instructions, and ``around-moves-v1`` the last actions before it. ``look-v1`` is ``think-v1`` with a picture instead of a text, ``glance-v1`` a picture alone.
``moves-v1`` and ``look-moves-v1`` ask for several actions in one answer (Sokoban's ``moves_per_turn``), and so does ``ragen-v1``, which says what RAGEN's prompt
for Sokoban says in other words: for dialect ``ragen:M``, ``text_format: grid_coordinates`` and ``max_moves``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from creditflow.agents.prompts.template import Prompt
from creditflow.envs.errors import unknown_name_error

__all__ = ["PROMPTS", "make_prompt"]

_THINK: Final = (
    "Reason first, inside <think> and </think>: what the situation is, what has been tried, what helps most now. Then "
    "give one action, copied from the list, inside <action> and </action>. Write nothing else."
)
_MOVES: Final = (
    "Reason first, inside <think> and </think>: what the situation is, what has been tried, what helps most now. Then "
    "give at least one and at most {moves} actions, copied from the list, in the order in which they are to be done and separated by "
    "spaces, inside <action> and </action>. Write nothing else."
)
_ACTION: Final = "Answer with one action, copied from the list, inside <action> and </action>. Write nothing else."
_FIRST: Final = "Your task: {task}\n\nWhat you see:\n{observation}\n\nPossible actions:\n{actions}\n\n"
_LATER: Final = "{refused}What you see after that:\n{observation}\n\nPossible actions:\n{actions}"
_WINDOWED: Final = (
    "Your task: {task}\n\nThis is step {step} of at most {steps}. What happened last:\n{history}\n\n"
    "{refused}What you see now:\n{observation}\n\nPossible actions:\n{actions}\n\n"
)
_LOOK: Final = "Your task: {task}\n\nWhat you see: {image}\n\n{refused}Possible actions:\n{actions}\n\n"
_LOOK_LATER: Final = "{refused}What you see after that: {image}\n\nPossible actions:\n{actions}"
_TURN: Final = "[step {step}] seen: {observation}\n[step {step}] done: {action}"
_REFUSED: Final = "The last action was refused: {reason}\n\n"
_REACT: Final = (
    "Answer in two lines. The first begins with Thought: and says in a sentence or two what was learnt and what to do "
    "next. The second begins with Action: and is one action, copied from the list. Stop after it."
)
_LESSONS: Final = "{lessons}"
_REACT_SEARCH: Final = (
    "Answer in two lines. The first begins with Thought: and says in a sentence or two what is known and what is still "
    "missing. The second begins with Action: and is one of\n"
    "search: what to look for\nvisit: the title of a page that was found\nanswer: the answer, in a few words\n"
    "Stop after it. There are at most {steps} steps, and the last must answer."
)
_TAGS: Final = (
    "Find the answer by searching. Think before every step, in plain words or inside <think> and </think>. To search, "
    "end with <search> what to look for </search>; the passages found come back inside <information> and "
    "</information>. Search as often as it helps. Once you know, end with <answer> the answer in a few words </answer>, "
    "without an explanation."
)
_TOOLS: Final = (
    "Find the answer with two tools. Before every step, reason inside <think> and </think>; then either call one tool or "
    "answer.\nTo search for one or several things at once:\n"
    '<tool_call>{"name": "search", "arguments": {"query": ["one thing", "another"]}}</tool_call>\n'
    "To read pages that were found:\n"
    '<tool_call>{"name": "visit", "arguments": {"url": ["title of a page"], "goal": "what to look for"}}</tool_call>\n'
    "Results come back inside <tool_response>. To finish: <answer>the answer in a few words</answer>"
)
_SEARCH_TOOL: Final = (
    "Find the answer with one tool, a search. Before every step, reason inside <think> and </think>; then either search or "
    "answer.\nTo search for one or several things at once:\n"
    '<tool_call>{"name": "search", "arguments": {"query": ["one thing", "another"]}}</tool_call>\n'
    "Results come back inside <tool_response>. To finish: <answer>the answer in a few words</answer>"
)
_REASON: Final = (
    "Answer from what you know. Reason first, inside <think> and </think>: what is asked, which facts lead there step by step. Then "
    "give the answer in a few words inside <answer> and </answer>. There is nothing to search with, and there is one turn."
)
_SEEN: Final = "This is step {step} of at most {steps}. What happened last:\n{history}\n\n{refused}Now:\n{observation}"

_RAGEN_SYSTEM: Final = (
    "You solve Sokoban puzzles: every box has to stand on a target. You can walk in four directions. Walking against a box pushes "
    "it one cell further, unless a wall or another box is behind it; boxes cannot be pulled. A board is shown as a grid of symbols "
    "and as coordinates, rows and columns counted from 0 at the upper left.\n"
    "# is a wall, _ floor, O a target, X a box, √ a box on a target, P the player, S the player on a target.\n"
    "The moves are Up, Down, Left and Right. You may make {moves_left} moves in all; separate them by ||, for example: "
    "<answer>Right || Right || Up</answer>"
)
_RAGEN_TURN: Final = (
    "Turn {step}\n{observation}\n{refused}Moves left: {moves_left}. Answer in exactly this form and write nothing else: "
    "<think> your thoughts </think> <answer> your moves </answer>. Use at most 120 words."
)
_RAGEN_REFUSED: Final = "Your last answer did not have the form that is asked for: {reason}. Try again.\n"


def _search(name: str, instructions: str) -> Prompt:
    """A search template: instructions and question in the first message, then search results alone."""
    first = instructions + "\n\n{lessons}Question: {task}"
    return Prompt(name, "", first, "{refused}{observation}", first + "\n\n" + _SEEN, _TURN, _REFUSED)


PROMPTS: Final[Mapping[str, Prompt]] = {
    prompt.name: prompt
    for prompt in (
        Prompt("think-v1", "", _FIRST + _THINK, _LATER, _WINDOWED + _THINK, _TURN, _REFUSED),
        Prompt("action-v1", "", _FIRST + _ACTION, _LATER, _WINDOWED + _ACTION, _TURN, _REFUSED),
        Prompt("react-v1", "", _LESSONS + _FIRST + _REACT, _LATER, _LESSONS + _WINDOWED + _REACT, _TURN, _REFUSED),
        _search("react-search-v1", _REACT_SEARCH),
        _search("search-v1", _TAGS),
        _search("tools-v1", _TOOLS),
        _search("search-tool-v1", _SEARCH_TOOL),
        _search("reason-v1", _REASON),
        Prompt("terse-v1", "", "{observation}", "{observation}", "{observation}"),
        Prompt("places-v1", "", "{cells}", "{cells}", "{cells}"),
        Prompt("around-v1", "", "{around}", "{around}", "{around}"),
        Prompt("around-moves-v1", "", "{around}", "{around}", "{history}\n{around}", "{action}"),
        Prompt("look-v1", "", _LOOK + _THINK, _LOOK_LATER, _LOOK + _THINK, _TURN, _REFUSED),
        Prompt("moves-v1", "", _FIRST + _MOVES, _LATER, _WINDOWED + _MOVES, _TURN, _REFUSED),
        Prompt("look-moves-v1", "", _LOOK + _MOVES, _LOOK_LATER, _LOOK + _MOVES, _TURN, _REFUSED),
        Prompt(
            "ragen-v1",
            _RAGEN_SYSTEM,
            _RAGEN_TURN,
            "Reward: {reward}\n\n" + _RAGEN_TURN,
            _RAGEN_TURN,
            refused=_RAGEN_REFUSED,
        ),
        Prompt("glance-v1", "", "{image}", "{image}", "{image}"),
    )
}


def make_prompt(name: str) -> Prompt:
    """A template by name.

    Raises:
        ConfigError: an unknown name; suggests the nearest one.
    """
    if name not in PROMPTS:
        raise unknown_name_error("prompt", name, PROMPTS)
    return PROMPTS[name]

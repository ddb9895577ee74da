"""The scenes of a group's turns, by the environment that its task id names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from creditflow.train.viewer.scenes.lines import MAX_SCENE, Line, Span, marked, tidy
from creditflow.train.viewer.scenes.webshop import webshop_scene
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["alfworld_scene", "environment_of", "scene_maker", "search_names", "search_scene"]

_PREFIX: Final = re.compile(r"([a-z]+)\d+:")


def environment_of(task_id: str) -> str:
    """Return the environment that a task id names, "" if none.

    >>> environment_of("webshop1:5bb720804e4a4d0b1dd84a9daa2c2607")
    'webshop'
    """
    match = _PREFIX.match(task_id)
    return match[1] if match else ""


def scene_maker(group: Group) -> Callable[[Turn], tuple[Line, ...]]:
    """Return the function from a turn to its scene; () stands for the plain text."""
    name = environment_of(group.task_id)
    if name == "webshop":
        options = _option_names(group.task.get("options"))
        return _bounded(lambda turn: webshop_scene(turn.observation, turn.action, options))
    if name == "alfworld":
        return _bounded(lambda turn: alfworld_scene(turn.observation, turn.action))
    if name == "wikisearch" or any(turn.queries for turn in group.turns):
        names = search_names(group.task, sorted({name for turn in group.turns for name in turn.entities}))
        return _bounded(lambda turn: search_scene(turn.observation, names, turn.queries))
    return lambda _: ()


def _option_names(options: Any) -> tuple[str, ...]:
    """Names of the goal's options in a payload, from anywhere."""
    pairs = options if isinstance(options, (list, tuple)) else ()
    return tuple(
        pair[0] for pair in pairs[:20] if isinstance(pair, (list, tuple)) and pair and isinstance(pair[0], str)
    )


def _bounded(scene: Callable[[Turn], tuple[Line, ...]]) -> Callable[[Turn], tuple[Line, ...]]:
    return lambda turn: scene(turn) if 0 < len(turn.observation) <= MAX_SCENE else ()


_THING: Final = re.compile(r"\b[a-z]+ \d{1,3}\b")
_TASK: Final = re.compile(r"\s*Your task is to:")


def alfworld_scene(observation: str, action: str) -> tuple[Line, ...]:
    """ALFWorld's sentences, with the task as heading and its things (``cabinet 3``) marked; those that the action names apart.

    Args:
        observation: the text.
        action: the action taken after it.
    """
    picked = set(_THING.findall(action.casefold()))
    lines = []
    for paragraph in observation.split("\n"):
        seen = {thing: "picked" if thing in picked else "object" for thing in _THING.findall(paragraph)}
        kind = "head" if _TASK.match(paragraph) else "text"
        if not paragraph.startswith("-= "):  # the engine's greeting
            lines.append(Line(kind, tuple(_spans(paragraph, seen))))
    return tidy(lines)


def _spans(paragraph: str, seen: dict[str, str]) -> list[Span]:
    """Mark the things; more than a few dozen by one pattern each would be slow, so they are found by the general one."""
    if len(seen) <= 40:
        return list(marked(paragraph, seen))
    spans, end = [], 0
    for match in _THING.finditer(paragraph):
        spans += [Span("", paragraph[end : match.start()]), Span(seen[match[0]], match[0])]
        end = match.end()
    return [*spans, Span("", paragraph[end:])]


COLOURS: Final = 5
_PASSAGE: Final = re.compile(
    r"(?:\[\d+\]|Doc \d+\(Title: ).{1,300}?(?::|\))\s|\d{1,3}\. \[.{1,300}?\](?:\(\S{1,1000}\))?(?:\s|$)"
)
_HEAD: Final = re.compile(r"Question:|Results for:|\d{1,5} (?:passages|pages) for '|Passages of the page '")
_TAG: Final = re.compile(r"</?(?:information|tool_response|search|answer|think|tool_call|access)>")


def search_names(task: Mapping[str, Any], found: Sequence[str] = ()) -> dict[str, str]:
    """Return the mark of every name: the question's entities with their aliases, its answers, and entities of turns.

    Args:
        task: a task's payload, from anywhere.
        found: names that the environment recorded in turns.
    """
    names: dict[str, str] = {}
    entities = task.get("entities")
    for number, entity in enumerate(entities if isinstance(entities, (list, tuple)) else ()):
        entry = entity if isinstance(entity, Mapping) else {"name": entity}
        aliases = entry.get("aliases")
        for name in (entry.get("name"), *(aliases if isinstance(aliases, (list, tuple)) else ())):
            if isinstance(name, str) and 0 < len(name) <= 200:
                names.setdefault(name, f"entity{number % COLOURS}")
    answers = task.get("answers")
    for answer in answers if isinstance(answers, (list, tuple)) else ():
        if isinstance(answer, str) and 0 < len(answer) <= 200:
            names[answer] = "answer"
    for name in found:
        if 0 < len(name) <= 200:
            names.setdefault(name, f"entity{len(names) % COLOURS}")
    return names


def search_scene(observation: str, names: Mapping[str, str], queries: Sequence[str]) -> tuple[Line, ...]:
    """A question or results: the question's entities and its answers marked wherever they occur, passages as a list.

    Args:
        observation: the text.
        names: see ``search_names``.
        queries: the queries that this turn's action makes.
    """
    lines = []
    for text in _TAG.sub("\n", observation).split("\n"):
        if _HEAD.match(text):
            lines.append(Line("head", tuple(marked(text, names))))
            continue
        title = _PASSAGE.match(text)
        if title is None:
            lines.append(Line("text", tuple(marked(text, names))))
        else:
            lines.append(Line("item", (Span("name", title[0]), *marked(text[title.end() :], names))))
    if queries:
        lines.append(Line("row", (Span("", "searches for"), *(Span("query", query) for query in queries[:20]))))
    return tidy(lines)

"""Hashes of games: the task id, of the content; of the world, without words; a canonical one, up to ids and wording."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from creditflow.envs.tasks import Task, content_id

__all__ = ["TASK_PREFIX", "game_task", "world_id"]

TASK_PREFIX = "alfworld1"
_WORDS = ("sentence", "dialect")  # keys of a content that are words alone


def game_task(content: Mapping[str, Any]) -> Task:
    """Return the task of a validated content.

    ``canonical_id`` ignores ids (hence the numbers in names), the task sentence and the dialect. It hashes the result of
    colour refinement, so equal games always agree; games that differ agree only if three rounds cannot distinguish them.
    """
    return Task(content_id(TASK_PREFIX, content), _canonical_id(content), content)


def world_id(content: Mapping[str, Any]) -> str:
    """Return 16 hex digits that hash a validated content without task sentence and wording: house, agent and goal."""
    return content_id("", {key: value for key, value in content.items() if key not in _WORDS})[1:17]


def _canonical_id(content: Mapping[str, Any]) -> str:
    colour: dict[str, str] = {"": "", content["agent"][1]: "start"}
    for r, rtype, _home, openness in content["receptacles"]:
        colour[r] = f"{rtype}/{openness}"
    for o, otype, _homes, _inside, _containers, properties in content["objects"]:
        colour[o] = f"{otype}/{','.join(properties)}"
    for _round in range(3):
        colour = _refine(content, colour)
    summary = {
        "goal": content["goal"],
        "contain": content["contain"],
        "held": colour[content["agent"][2]],
        "things": sorted(colour.values()),
    }
    return content_id(f"{TASK_PREFIX}c", summary)


def _refine(content: Mapping[str, Any], colour: Mapping[str, str]) -> dict[str, str]:
    """Refine colours once: each becomes a hash of itself and its neighbours' colours."""
    around: dict[str, list[str]] = {name: [] for name in colour}
    for r, _rtype, home, _openness in content["receptacles"]:
        _link(around, colour, "stands", r, home)
    for o, _otype, homes, inside, containers, _properties in content["objects"]:
        for relation, related in (("at", homes), ("in", inside), ("within", containers)):
            for second in related:
                _link(around, colour, relation, o, second)
    return {name: _digest("|".join([colour.get(name, ""), *sorted(neighbours)])) for name, neighbours in around.items()}


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _link(around: dict[str, list[str]], colour: Mapping[str, str], relation: str, a: str, b: str) -> None:
    around.setdefault(a, []).append(f"{relation}>{colour.get(b, '')}")
    around.setdefault(b, []).append(f"{relation}<{colour.get(a, '')}")

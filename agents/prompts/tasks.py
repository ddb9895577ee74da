"""Task statements: taken from info or the task's content if they have one, else one paragraph per environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from creditflow.agents.base import View
from creditflow.wrappers.records.pictures import picture_in

__all__ = ["CONTENT_FIELDS", "PICTURE_TEXTS", "TASK_TEXTS", "task_text"]

# info keys under which environments state the task, in the order of the look-up
STATED: Final = ("task_text", "goal", "instruction", "question")

# fields of a task's content that state it: an environment shows it once, but a windowed prompt must repeat it
CONTENT_FIELDS: Final[Mapping[str, str]] = {"alfworld": "sentence", "webshop": "instruction", "wikisearch": "text"}

TASK_TEXTS: Final[Mapping[str, str]] = {
    "sokoban": (
        "Sokoban: walk in four directions. Walking into a box pushes it one cell, if the cell behind it is free; boxes "
        "cannot be pulled, and two cannot be pushed at once. The level is solved when every box stands on a target. "
        "Symbols: {legend}."
    ),
}


# of environments that are seen in a picture, without a text
PICTURE_TEXTS: Final[Mapping[str, str]] = {
    "sokoban": TASK_TEXTS["sokoban"].replace(
        "Symbols: {legend}.",
        "The picture shows it from above: {legend}.",
    ),
}


def task_text(view: View) -> str:
    """The task statement of one episode; "" if there is none."""
    for key in STATED:
        stated = view.info.get(key)
        if isinstance(stated, str) and stated:
            return stated
    field = CONTENT_FIELDS.get(view.env.env_name)
    if field is not None:
        return str(view.env.task.content[field])
    observation = view.observation
    text = observation.get("text") if isinstance(observation, Mapping) else observation
    seen = not isinstance(text, str) and picture_in(observation) is not None
    texts = PICTURE_TEXTS if seen else TASK_TEXTS
    return texts.get(view.env.env_name, "").replace("{legend}", getattr(view.env, "legend", ""))

"""Snapshots of an episode as self-contained JSON text, and their strict parser."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from creditflow.envs.errors import DataError
from creditflow.envs.reading.checked import MAX_COUNT, is_string_list, snapshot_fields
from creditflow.envs.webshop.rules import SUB_PAGES, ShopState

__all__ = ["Snapshot", "read_snapshot", "write_snapshot"]

_FORMAT: Final = "webshop/1"
_KEYS: Final = {
    "format",
    "task",
    "session",
    "steps",
    "page",
    "query",
    "number",
    "asin",
    "options",
    "sub",
    "clicked",
    "values",
    "noise",
}
MAX_CHARS: Final = 8_000_000
_PAGES: Final = ("index", "results", "item", "sub", "done")


class Snapshot(NamedTuple):
    """An episode at one moment.

    Attributes:
        task: content of the task.
        session: name of the session, part of page URLs.
        steps: steps taken.
        state: the page and the choices made.
        values: option values clicked since the item page was last entered (RewardFlow's text key is made of them).
        noise: key of the page's advertisements; "" without them.
    """

    task: dict[str, Any]
    session: str
    steps: int
    state: ShopState
    values: tuple[str, ...]
    noise: str


def write_snapshot(snapshot: Snapshot) -> str:
    """The snapshot as JSON text."""
    state = snapshot.state
    return json.dumps(
        {
            "format": _FORMAT,
            "task": snapshot.task,
            "session": snapshot.session,
            "steps": snapshot.steps,
            "page": state.page,
            "query": state.query,
            "number": state.number,
            "asin": state.asin,
            "options": [list(option) for option in state.options],
            "sub": state.sub,
            "clicked": sorted(state.clicked),
            "values": list(snapshot.values),
            "noise": snapshot.noise,
        },
        separators=(",", ":"),
    )


def read_snapshot(text: str) -> Snapshot:
    """The snapshot of a JSON text. The caller checks that its products exist.

    Raises:
        DataError: the text is not a snapshot of this environment.
    """
    data = snapshot_fields(text, kind="WebShop snapshot", form=_FORMAT, fields=_KEYS, limit=MAX_CHARS)
    options = data["options"]
    good = (
        isinstance(data["task"], dict)
        and is_string_list([data["session"], data["query"], data["asin"], data["sub"], data["noise"]])
        and type(data["steps"]) is int
        and 0 <= data["steps"] <= MAX_COUNT
        and type(data["number"]) is int
        and abs(data["number"]) <= MAX_COUNT
        and data["page"] in _PAGES
        and isinstance(options, list)
        and all(is_string_list(option) and len(option) == 2 for option in options)
        and is_string_list(data["clicked"])
        and is_string_list(data["values"])
        and (data["sub"] in SUB_PAGES.values()) == (data["page"] == "sub")
        and (data["asin"] != "") == (data["page"] in ("item", "sub", "done"))
        and (not options or data["asin"] != "")
    )
    if not good:
        raise DataError(f"webshop: a snapshot has a value of the wrong type or range: {text[:300]}")
    state = ShopState(
        data["page"],
        data["query"],
        data["number"],
        data["asin"],
        tuple((name, value) for name, value in options),
        data["sub"],
        frozenset(data["clicked"]),
    )
    return Snapshot(data["task"], data["session"], data["steps"], state, tuple(data["values"]), data["noise"])

"""The playground: a page on which the reader changes three recorded groups and sees the credit of four schemes change.

The page is `static/playground.js`, which computes the schemes in the browser, and the groups as plain data. It loads nothing else.
"""

from __future__ import annotations

import json
from typing import Any, Final

from builder.make.groups import GROUPS
from creditflow.wrappers import Group
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL

__all__ = ["group_data", "markup", "pages"]

TASKS: Final = {
    "WebShop": "buy a lip balm, scent almond, size 30 ml",
    "Sokoban": "push the box X onto the target O",
    "ALFWorld": "put some soapbottle on garbagecan",
}
MAX_TEXT: Final = 500  # characters of a state's text
PAGE: Final = """# Playground

Delete a rollout, flip an outcome or merge two states, and see how the credit of every turn changes. The three groups were played in
this project's environments, eight rollouts of one task each. Everything is computed in your browser.

{markup}

A cell is a turn. The number below it is the state in which the turn was taken, and all turns in the state of the chosen turn have a
frame. The bar is the turn's credit, and a line across it marks the credit before your changes. With the keyboard, the arrow keys
move from turn to turn.

Four things to try:

- **WebShop, `grpo`.** Rollout 2 bought before the scent was chosen, and yet all of its turns have positive credit, because its score of
  0.83 is above the mean. Delete rollout 5, the only one without a purchase: now they are all blamed.
- **Sokoban, `grouptd`.** Rollout 2 pushes the box into a dead end in turn 3. That turn is blamed most, and the turns after it get nothing.
  Flip the outcome, and the push is praised.
- **Sokoban or ALFWorld.** Delete all failed rollouts, or all successful ones. `grpo` has nothing left to compare, so its credit is zero.
- **Any group.** Merge two states. `grpo` does not see states and stays as it is, while the other three move.

[Credit in one picture](../../pages/concepts/credit.md) has the ideas behind the schemes, and [all methods](../../../../wrappers/credit/SCHEMES.md) the formulas.
"""


def pages() -> dict[str, tuple[str, str]]:
    """The page."""
    return {
        "concepts/playground": (
            "assets/site/builder/make/playground.py",
            PAGE.format(markup=f"```{{raw}} html\n{markup()}\n```"),
        )
    }


def markup() -> str:
    """The page's own part, as HTML."""
    groups = [{"name": name, "task": task, **group_data(GROUPS[name]())} for name, task in TASKS.items()]
    data = json.dumps(groups, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<link rel="stylesheet" href="../_static/playground.css">\n'
        '<div id="credits"><noscript>The playground needs JavaScript.</noscript></div>\n'
        f'<script type="application/json" id="credits-groups">{data}</script>\n'
        '<script src="../_static/playground.js"></script>'
    )


def group_data(group: Group) -> dict[str, Any]:
    """A group as `static/playground.js` reads it: numbered states and actions with their texts, and the turns of all rollouts."""
    arrays = group.arrays
    texts = [""] * len(arrays.states.keys)
    for state, turn in zip(arrays.state.tolist(), group.turns, strict=True):
        texts[state] = turn.observation.replace(" [SEP] ", " · ")
    ends = {GOAL: "success", FAILED: "failed"}
    columns = (arrays.state, arrays.action, arrays.next_state, arrays.reward)
    turns = list(zip(*(column.tolist() for column in columns), strict=True))
    offsets = arrays.offsets.tolist()
    rollouts = [
        {"end": ends.get(member.end, "truncated"), "score": member.score, "turns": turns[first:last]}
        for member, first, last in zip(group.trajectories, offsets, offsets[1:], strict=False)
    ]
    cut = [text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…" for text in texts]
    return {"states": cut, "actions": list(arrays.actions), "rollouts": rollouts}

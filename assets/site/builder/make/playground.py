"""The playground: the reader changes three recorded groups and sees the credit of four schemes change.

The page is `pages/concepts/playground.md`. `static/playground.js` computes the schemes in the browser. Here the groups, eight rollouts
of one task each, are played again at each build.
"""

from __future__ import annotations

import json
from typing import Any, Final

from creditflow.agents import NoisyExpert
from creditflow.train.commands.demo import example_group
from creditflow.train.rollout import play_group
from creditflow.wrappers import Group, GroupEnv
from creditflow.wrappers.records.stop_reasons import FAILED, GOAL

__all__ = ["PLAYGROUND", "TASKS", "group_data", "groups", "markup"]

PLAYGROUND: Final = "concepts/playground.html"  # beside the staged page, which includes it
TASKS: Final = {
    "WebShop": "buy a lip balm, scent almond, size 30 ml",
    "Sokoban": "push the box X onto the target O",
    "ALFWorld": "put some soapbottle on garbagecan",
}
# three rollouts solve it, three push the box into a dead end
SOKOBAN: Final = "sokoban1:265026cd448806692a4e5cb4db5dc23b"
ALFWORLD: Final = "alfworld1:941a8aca1de523b50d869ef91ea67b3b"  # four rollouts put the soap bottle on the garbage can
MAX_TEXT: Final = 500  # characters of a state's text


def groups() -> dict[str, Group]:
    """The groups by environment, as it is called on pages."""
    return {
        "WebShop": example_group(),
        "Sokoban": _play("sokoban", "easy-v1:train", SOKOBAN),
        "ALFWorld": _play("alfworld", "standard-v3:train", ALFWORLD),
    }


def _play(name: str, panel: str, task: str) -> Group:
    env = GroupEnv(name, size=8, panel=panel, max_steps=8)
    return play_group(env, NoisyExpert(0.5), env.tasks.get(task))


def markup() -> str:
    """The page's own part, as HTML."""
    shown = [{"name": name, "task": TASKS[name], **group_data(group)} for name, group in groups().items()]
    data = json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c")
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

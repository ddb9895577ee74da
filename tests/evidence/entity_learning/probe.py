"""What each scheme pays for stuffing and for endless search at equal outcome: six scripted episodes of one question as a group.

Members: an honest success; the same with thoughts that list every name in the last passage; an honest failure, which answers with a
wrong name; the same with lists; a search repeated until the limit; ever new searches until the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from evidence.entity_learning.arms import SCHEMES
from evidence.entity_learning.demonstrator import read_passage
from evidence.entity_learning.warm_up import settings_of, tasks_of

from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.text_table import text_table
from creditflow.wrappers import credit
from creditflow.wrappers.records.group import Group

MEMBERS: Final = ("honest success", "stuffed success", "honest failure", "stuffed failure", "repeats", "wanders")


class Scripted:
    """Plays ``MEMBERS`` by the index of the episode in its group, on a question of two hops."""

    name = "scripted"

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        kinds = [MEMBERS[i] for i in self._members(views)]
        return [self._decide(view, kind) for view, kind in zip(views, kinds, strict=True)]

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def _members(self, views: Sequence[View]) -> list[int]:
        return [self._seen.setdefault(id(view.env), len(self._seen)) for view in views]

    def _decide(self, view: View, kind: str) -> Decision:
        steps = view.env.task.content["steps"]
        facts, turn = read_passage(view.observation), len(view.turns)
        start = str(view.env.task.content["supporting"][0])
        wanted = start if not turn else str(steps[min(turn, len(steps)) - 1]["answer"])
        thought = f" {wanted}"
        if kind.endswith("failure") and turn == 2:
            wanted = sorted(set(facts.values()) - {wanted})[0]
            thought = f" {wanted}"
        if kind.startswith("stuffed") and facts:
            thought = "".join(f" {relation} {name}" for relation, name in facts.items())
        if kind == "repeats":
            wanted, thought = start, f" {start}"
        if kind == "wanders" and turn:
            searched = [query for one in view.turns for query in one.queries]
            wanted = next((name for name in sorted(facts.values()) if name not in searched), start)
            thought = f" {wanted}"
        answers = kind not in ("repeats", "wanders") and turn == 2
        action = f"{'answer' if answers else 'search'}: {wanted}"
        return Decision(action=action, thought=thought.strip(), response=make_dialect("think").write(action, thought))


def probe_group(world: Path) -> Group:
    """The six episodes on the first training question of two hops whose passages name more than one thing each."""
    settings = settings_of(world, 0)
    for task in tasks_of(world, "train"):
        if len(task.content["steps"]) != 2:
            continue
        engine = RolloutEngine(group_env_factory(settings.env, len(MEMBERS), texts=True))
        group = engine.play(Scripted(), [task], seed=0)[0]
        if [member.success for member in group.trajectories] == [True, True, False, False, False, False]:
            return group
    raise LookupError("no training question of two hops suits the probe")


def advantages(group: Group) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """By scheme float64 (6,): mean advantage per turn of each member; NaN where the scheme leaves it out of the loss."""
    found = {}
    for name, parameters in SCHEMES.items():
        given = credit.make(name, **parameters).assign(group)
        found[name] = np.array(
            [a.mean() if mask.all() else np.nan for a, mask in zip(given.advantages, given.loss_mask, strict=True)]
        )
    return found


def table(world: Path) -> str:
    """Mean advantage per turn, and its first turns' difference between stuffed and honest members."""
    rows = [["mean advantage per turn", *MEMBERS, "stuffing, success", "stuffing, failure"]]
    for name, found in advantages(probe_group(world)).items():
        cells = ["not in the loss" if np.isnan(x) else f"{x:+.2f}" for x in found]
        rows.append([name, *cells, f"{found[1] - found[0]:+.2f}", f"{found[3] - found[2]:+.2f}"])
    return text_table(rows)

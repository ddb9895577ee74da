"""The same completions played by our own engine: what an adapter's record of an episode must be equal to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.train.adapters.text_episode import EpisodeConfig
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["assert_same_credit", "replayed"]


class _Scripted:
    """An agent that writes given completions, the i-th list for the i-th environment it sees."""

    name = "scripted"

    def __init__(self, dialect: str, completions: Sequence[Sequence[str]]) -> None:
        self._dialect = make_dialect(dialect)
        self._left = [list(texts) for texts in completions]
        self._members: list[Any] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        decisions = []
        for view in views:
            if not any(env is view.env for env in self._members):
                self._members.append(view.env)
            [i] = [i for i, env in enumerate(self._members) if env is view.env]
            if not self._left[i]:
                decisions.append(Decision("", stop="token_limit"))
                continue
            parsed = self._dialect.parse(text := self._left[i].pop(0))
            reason = "" if parsed.valid else parsed.reason
            decisions.append(Decision(parsed.action, parsed.thought, text, invalid_reason=reason))
        return decisions


def replayed(play: EpisodeConfig, content: Mapping[str, Any], completions: Sequence[Sequence[str]]) -> Group:
    """The group that our engine plays when episode i writes ``completions[i]`` and then stops."""

    def make() -> GroupEnv:
        return GroupEnv(play.env.name, size=len(completions), texts=True, policy="lm", **play.env.options)

    source = make().tasks
    agent = _Scripted(play.prompting.dialect, completions)
    [group] = RolloutEngine(make, play.budget).play(agent, [source.from_content(dict(content))], seed=0)
    assert not any(agent._left), "a completion was not used"
    return group


def assert_same_credit(ours: Group, theirs: Group, scheme: Scheme) -> None:
    """Equal turns, outcomes and credit; names and seeds may differ."""
    assert [_unnamed(one) for one in ours.trajectories] == [_unnamed(one) for one in theirs.trajectories]
    one, other = scheme.assign(ours), scheme.assign(theirs)
    for name in ("flat_advantages", "flat_loss_mask", "outcome_advantages", "offsets"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def _unnamed(played: Trajectory) -> dict[str, Any]:
    kept = replace(played, trajectory_id="", group_id="", seed=0, replica=0, policy="", tokens=None)
    return {field.name: getattr(kept, field.name) for field in fields(kept)}

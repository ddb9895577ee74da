"""The tested turns: which states of a policy's rollouts are forked, what the models read there, and the outcomes of the continuations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, cast

import numpy as np
from evidence.pica.fair.data import Continuations, env_options, stated_names
from evidence.pica.fair.matched import Recency, matched_pair, recency, with_action
from evidence.pica.fair.mentions import condensed

from creditflow.agents.base import Agent
from creditflow.envs.core import AgentEnv
from creditflow.envs.registration import bare_env
from creditflow.train.rollout.replay import env_seed
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["ForkedTurn", "forked_turns"]

Role = Literal["played", "right", "wrong"]
PAIRS_PER_EPISODE: Final = 1


@dataclass(frozen=True, slots=True)
class ForkedTurn:
    """One turn with the outcomes of continuations.

    Attributes:
        question: id of the task, by which turns are clustered.
        role: "played" by the policy, or one of a matched pair.
        pair: number of the pair, −1 for a played turn; unique within the question.
        turns: the condensed episode up to the turn, as (observation, action).
        recency: of the action.
        before, after: outcomes of K continuations from the state before the turn, and after it.
    """

    question: str
    role: Role
    pair: int
    turns: tuple[tuple[str, str], ...]
    recency: Recency
    before: tuple[int, ...]
    after: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"recency": list(self.recency)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ForkedTurn:
        """The inverse of ``to_json``."""
        turns = tuple((str(o), str(a)) for o, a in data["turns"])
        return cls(
            str(data["question"]), cast("Role", data["role"]), int(data["pair"]), turns, Recency(*data["recency"]), tuple(data["before"]),
            tuple(data["after"]),
        )  # fmt: skip

    @property
    def records(self) -> tuple[Turn, ...]:
        """The condensed turns as records."""
        return tuple(
            Turn(f"s{t}", action, f"s{t + 1}", observation=text) for t, (text, action) in enumerate(self.turns)
        )


def forked_turns(
    seed: int, questions: int, groups: Sequence[Group], agent: Agent, count: int, *, played: bool
) -> Iterator[ForkedTurn]:
    """Fork the first episode of each group: every turn that it played, or one matched pair in a random state of it.

    Args:
        seed, questions: the world.
        groups: rollouts of ``agent``.
        agent: the policy whose values are estimated.
        count: K.
        played: fork the played turns; otherwise pairs.
    """
    options = env_options(seed, questions)
    env, continuations = bare_env("wikisearch", options), Continuations(options, agent, count)
    stated = {} if played else stated_names(seed)
    for number, group in enumerate(groups):
        member = group.trajectories[0]
        rng = np.random.default_rng([seed, 41, number, int(played)])
        if played:
            yield from _played(group, member, env, continuations, rng)
        else:
            yield from _pairs(group, member, env, continuations, stated, rng)


def _played(
    group: Group,
    member: Trajectory,
    env: AgentEnv[Any, Any, Any],
    continuations: Continuations,
    rng: np.random.Generator,
) -> Iterator[ForkedTurn]:
    values = []
    _begin(env, group, member)
    for t in range(len(member.turns) + 1):
        values.append(_outcomes(continuations, env.get_state(), member.turns[:t], rng))
        if t < len(member.turns):
            env.step(env.action_from_text(member.turns[t].action))
    texts = [(turn.observation, turn.action) for turn in condensed(member.turns)]
    observations, actions = [turn.observation for turn in member.turns], [turn.action for turn in member.turns]
    for t, action in enumerate(actions):
        about = recency(action, observations[: t + 1], actions[:t])
        yield ForkedTurn(group.task_id, "played", -1, tuple(texts[: t + 1]), about, values[t], values[t + 1])


def _pairs(
    group: Group,
    member: Trajectory,
    env: AgentEnv[Any, Any, Any],
    continuations: Continuations,
    stated: Mapping[str, frozenset[str]],
    rng: np.random.Generator,
) -> Iterator[ForkedTurn]:
    """Pairs in at most ``PAIRS_PER_EPISODE`` states, chosen at random among those that have one."""
    found = []
    observation, info = _begin(env, group, member)
    observations: list[str] = []
    actions: list[str] = []
    for t, turn in enumerate(member.turns):
        observations.append(str(observation))
        snapshot = env.get_state()
        pair = matched_pair(
            observations, actions, info["admissible_actions"], env.oracle.optimal_actions(snapshot), stated, rng
        )
        if pair is not None:
            found.append((t, snapshot, pair, info, str(observation)))
        actions.append(turn.action)
        observation, _, _, _, info = env.step(env.action_from_text(turn.action))
    for number, at in enumerate(sorted(rng.permutation(len(found))[:PAIRS_PER_EPISODE].tolist())):
        t, snapshot, pair, info, present = found[at]
        before = _outcomes(continuations, snapshot, member.turns[:t], rng)
        for role, action in (("right", pair.right), ("wrong", pair.wrong)):
            turns = with_action(member.turns[:t], present, action, info)
            env.set_state(snapshot)
            env.step(env.action_from_text(action))
            after = _outcomes(continuations, env.get_state(), turns, rng)
            texts = tuple((turn.observation, turn.action) for turn in condensed(turns))
            yield ForkedTurn(group.task_id, cast("Role", role), number, texts, pair.recency, before, after)


def _begin(env: AgentEnv[Any, Any, Any], group: Group, member: Trajectory) -> tuple[Any, dict[str, Any]]:
    return env.reset(
        seed=env_seed(member), options={"task": dict(group.task)} if group.task else {"task_id": group.task_id}
    )


def _outcomes(
    continuations: Continuations, snapshot: str, turns: Sequence[Turn], rng: np.random.Generator
) -> tuple[int, ...]:
    return tuple(int(x) for x in continuations.after(snapshot, turns, rng))

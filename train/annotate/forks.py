"""``forks:K``: Monte Carlo estimates of a turn's value: K continuations from the snapshots before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent
from creditflow.agents.language_model.pretrained import ModelOptions
from creditflow.agents.registry import make_agent
from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.train.annotate.base import AnnotationError, Annotations, EpisodeAnnotator, Provenance, boundaries
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.rollout.forks import fork_values
from creditflow.train.rollout.replay import env_seed, full_episode
from creditflow.train.run.identity import agent_identity
from creditflow.train.statistics import permutation_p
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.invalid_actions import Policy
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["ForksAnnotator", "make"]

OTHERS: Final = ("fork.mean", "fork.best")
COST: Final = ("fork.episodes", "fork.turns", "fork.tokens")


class ForksAnnotator(EpisodeAnnotator):
    """Writes what K continuations of every state show, each the mean of their scores.

    ``fork.value`` is that of the states before and after each turn, and ``fork.q`` the one after; the states before turn t + 1 and
    after turn t share theirs. Their difference is the advantage of the turn's action, ``fork.error`` its standard error, and ``fork.p``
    the p-value of the hypothesis that the action changed nothing. With alternatives, ``fork.mean`` and ``fork.best`` are the mean and the best of the
    values after the other actions that the environment lists. Every trajectory gets the numbers of continuations, of their turns and of the tokens that
    a language model read and generated.

    Args:
        make_env: makes the environment of the log.
        agent: plays the continuations.
        continuations: K ≥ 2.
        seed: seed of the continuations; each trajectory has its own generator.
        name: name of the agent.
        model: options of a language model, for the provenance.
        invalid_actions: policy of the recorded environment for invalid actions.
        options: arguments of the environment, for the provenance.
        alternatives: continue also after the other actions of every state.
    """

    turn_names: tuple[str, ...] = ("fork.value", "fork.value.next", "fork.q", "fork.error", "fork.p")
    trajectory_names = COST

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        agent: Agent,
        continuations: int,
        *,
        seed: int,
        name: str,
        model: Mapping[str, Any] | None = None,
        invalid_actions: Policy = "keep",
        options: Mapping[str, Any] | None = None,
        alternatives: bool = False,
    ) -> None:
        if continuations < 2:
            raise ConfigError(f"forks need at least two continuations, got {short_repr(continuations)}")
        self._alternatives = alternatives
        if alternatives:
            self.turn_names = (*self.turn_names, *OTHERS)
        self._agent, self._seed = agent, seed
        self._members = GroupEnv(make_env, size=continuations, invalid_actions=invalid_actions).members
        about = {
            "continuations": continuations,
            "agent": name,
            "seed": seed,
            "invalid_actions": invalid_actions,
            "model": dict(model or {}),
            "options": dict(options or {}),
            **({"alternatives": True} if alternatives else {}),
        }
        self.provenance = Provenance("forks", 2, about, agent_identity(name).get("model", ""))

    def annotate_member(self, group: Group, index: int) -> Annotations:
        """The annotations of one trajectory, from a replay.

        Raises:
            AnnotationError: an episode of another environment.
        """
        member = group.trajectories[index]
        turns = full_episode(group, index)
        first = len(turns) - len(member.turns)
        if not member.turns:
            return Annotations(dict.fromkeys(self.turn_names, np.zeros(0)), dict.fromkeys(COST, 0.0))
        name = f"{group.group_id}\0{member.trial}\0{member.trajectory_id}".encode()
        rng = np.random.default_rng([self._seed, int.from_bytes(blake2b(name, digest_size=8).digest(), "big")])
        try:
            forks = fork_values(
                self._members,
                self._agent,
                replace(member, turns=turns, parent="", fork_turn=-1, tokens=None),
                rng,
                turns=range(first, len(turns)),
                seed=env_seed(member),
                task=group.task,
                alternatives=self._alternatives,
                completions=[None] * first + _completions(member),
            )
        except DataError as error:
            raise AnnotationError(str(error)) from error
        before, after = forks.before[first:], forks.after[first:]
        values = np.append(before.mean(axis=1), after[-1].mean())
        of_turns = {
            "fork.q": values[1:],
            "fork.error": forks.error[first:],
            "fork.p": permutation_p(before, after, rng),
        }
        if self._alternatives:
            of_turns |= dict(zip(OTHERS, (forks.mean_other[first:], forks.best_other[first:]), strict=True))
        cost = map(float, (forks.episodes, forks.turns, forks.tokens))
        return Annotations(boundaries("fork.value", values) | of_turns, dict(zip(COST, cost, strict=True)))


def _completions(member: Trajectory) -> list[NDArray[np.int32] | None]:
    """The ids that a language model sampled in each turn; None where the log has none."""
    if member.tokens is None:
        return [None] * len(member.turns)
    return [member.tokens.ids[positions] for positions in member.tokens.written()]


def make(argument: str, context: Context) -> ForksAnnotator:
    """The annotator ``forks:K``; its agent is that of the log, with its options, unless another one is set.

    Raises:
        ConfigError: K is no number, no environment or no agent is named, or as ``settings_of``.
    """
    settings = settings_of("forks", context, {"agent": "", "seed": 0, "model": {}, "alternatives": False})
    if not argument.isdecimal():
        raise ConfigError(f"forks:K takes a number of continuations, got {short_repr(argument)}")
    make_env = context.environment("forks")
    recorded = context.recorded
    played_by = str((recorded.get("agent") or {}).get("name", ""))
    name = settings["agent"] or played_by
    if not name:
        raise ConfigError(
            "forks are played by an agent, and the log does not name the one that played it: set agent=NAME"
        )
    model = settings["model"] or (recorded.get("model") or {} if name == played_by else {})
    for option in model:
        if option not in ModelOptions.__dataclass_fields__:
            raise unknown_name_error("option of a model", option, ModelOptions.__dataclass_fields__)
    return ForksAnnotator(
        make_env,
        make_agent(name, device=context.device, options=ModelOptions(**model)),
        int(argument),
        seed=settings["seed"],
        name=name,
        model=model,
        invalid_actions=recorded.get("invalid_actions", "keep"),
        options=context.options,
        alternatives=settings["alternatives"],
    )

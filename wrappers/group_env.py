"""``GroupEnv``: G environments on one task, stepped until each has ended.

Gymnasium's vector environments restart members that are done, or raise an error once one is. A group needs the opposite:
every member plays the same task once, and only members that are still running are stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import gymnasium as gym

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.foreign.keys import StateKey
from creditflow.envs.foreign.rules import Success
from creditflow.envs.registration import make
from creditflow.envs.reset_options import RESET_OPTIONS
from creditflow.envs.tasks import Task, TaskSource
from creditflow.wrappers.invalid_actions import InvalidActions, Policy
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["GroupEnv", "Step", "member_seed", "payload"]


def member_seed(seed: int, group_id: str, replica: int) -> int:
    """Return the seed of a member: members share a task but not their random stream."""
    digest = blake2b(f"{seed}/{group_id}/{replica}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


class Step(NamedTuple):
    """Results of one member's step."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class GroupEnv:
    r"""G recorded environments on one task.

    >>> group = GroupEnv("sokoban", size=2, level="#####\n#@$.#\n#####")
    >>> _ = group.reset(seed=0)
    >>> group.active
    (0, 1)
    >>> _ = group.step({0: "right", 1: "left"})
    >>> group.active
    (1,)

    Args:
        env: a name for ``creditflow.make``, or a function that makes an environment; any Gymnasium environment will do.
        size: G ≥ 1.
        state_key, success: for an environment that is not creditflow's: what identifies a state, and what success is; see
            ``ForeignEnv``. Its members start equally, from one seed; noise after the start is each member's own.
        invalid_actions: policy for invalid actions (see ``InvalidActions``).
        oracle, texts, policy, pictures: arguments of the members' ``Recorder``.
        **kwargs: arguments of the environment, if ``env`` is a name.

    Raises:
        ConfigError: ``size`` is less than 1, an unknown name, or arguments beside a function.
    """

    def __init__(
        self,
        env: str | Callable[[], gym.Env[Any, Any]],
        *,
        size: int,
        state_key: str | StateKey | None = None,
        success: str | Success | None = None,
        invalid_actions: Policy = "keep",
        oracle: bool = False,
        texts: bool = True,
        policy: str = "",
        pictures: str = "",
        **kwargs: Any,
    ) -> None:
        if size < 1:
            raise ConfigError(f"a group needs at least one member, got size={size!r}")
        if callable(env) and kwargs:
            raise ConfigError(f"pass the arguments {sorted(kwargs)} to the function that makes the environment")
        self.members = tuple(
            Recorder(
                InvalidActions(
                    env() if callable(env) else make(env, **kwargs),
                    invalid_actions,
                    state_key=state_key,
                    success=success,
                ),
                oracle=oracle,
                texts=texts,
                policy=policy,
                pictures=pictures,
            )
            for _ in range(size)
        )
        self._started = False

    def __len__(self) -> int:
        return len(self.members)

    @property
    def tasks(self) -> TaskSource:
        """The tasks of the members: a panel, files, a generator; of a foreign environment, its seeds."""
        return self.members[0].base.tasks

    @property
    def active(self) -> tuple[int, ...]:
        """Indices of the running members, ascending."""
        return tuple(filter(self._runs, range(len(self.members))))

    def _runs(self, index: int) -> bool:
        """Whether a member has started and not ended; read from the members, which may be stepped in several threads."""
        return self._started and 0 <= index < len(self.members) and not self.members[index].finished

    def reset(
        self,
        *,
        task_id: str | None = None,
        task: Any = None,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        group_id: str | None = None,
        trial: int = 0,
    ) -> list[tuple[Any, dict[str, Any]]]:
        """Start the same task in every member.

        Args:
            task_id, task, seed: select the task: its id, its payload, both, or a seed that samples it; see
                ``AgentEnv.reset``. With a given task, the seed is for the environments' own randomness, different for
                each member by ``member_seed``.
            options: those of Gymnasium's ``reset``, passed to every member; they may name the task instead.
            group_id: id of the group in the log; default the task's id.
            trial: number of the attempt.

        Returns:
            The (observation, info) of each member.
        """
        selected = {name: value for name, value in (("task_id", task_id), ("task", task)) if value is not None}
        if options is not None and (twice := sorted(set(options) & set(selected))):
            raise ConfigError(f"{', '.join(twice)} was given twice, as an argument and in options")
        start: dict[str, Any] = {**(options or {}), **selected}
        results: list[tuple[Any, dict[str, Any]]] = []
        self._started = False  # nothing runs if a member cannot start
        for i, member in enumerate(self.members):
            if i and not set(start) & set(
                RESET_OPTIONS
            ):  # the first member sampled the task; the others play the same one
                start = {"task": dict(self.members[0].base.task.content)}
            names = {} if group_id is None else {"group_id": group_id, "trajectory_id": f"{group_id}/{i}"}
            member.set_next_episode(**names, replica=i, trial=trial, seed=0 if seed is None else seed)
            # a seed that samples the task must be passed unchanged; otherwise it is for the environment's randomness
            named = bool(set(start) & set(RESET_OPTIONS))
            reset_seed = member_seed(seed, group_id or task_id or "", i) if named and seed is not None else seed
            results.append(member.reset(seed=reset_seed, options=start or None))
        self._started = True
        return results

    def start_branch(
        self,
        snapshot: str,
        *,
        task: Mapping[str, Any],
        parent: str,
        fork_turn: int,
        group_id: str,
        replica: int,
        seed: int,
        trial: int = 0,
    ) -> tuple[Any, dict[str, Any]]:
        """Start a branch of another group's episode in the only member of this group.

        Args:
            snapshot: snapshot of the state in which the branch starts.
            task: the task's payload.
            parent, fork_turn: id of the trajectory that is forked, and the turn before which it is forked.
            group_id, replica, seed, trial: fields of the record; the branch has its own random stream.

        Raises:
            ConfigError: this group has several members.
            EpisodeError: the snapshot is of a finished episode.
        """
        member, _ = self._start_only_member(
            task, group_id, replica, seed, trial=trial, parent=parent, fork_turn=fork_turn
        )
        start = member.branch(snapshot)
        self._started = True
        return start

    def start_extra_member(
        self, *, task: Mapping[str, Any], group_id: str, replica: int, seed: int, trial: int = 0
    ) -> tuple[Any, dict[str, Any]]:
        """Start one more episode of another group, from the beginning, in the only member of this group.

        Args:
            task: the task's payload.
            group_id, replica, seed, trial: fields of the record: the episode is the one that member ``replica`` of a
                larger group would have played.

        Raises:
            ConfigError: this group has several members.
        """
        _, start = self._start_only_member(task, group_id, replica, seed, trial=trial)
        self._started = True
        return start

    def _start_only_member(
        self, task: Mapping[str, Any], group_id: str, replica: int, seed: int, **names: Any
    ) -> tuple[Recorder, tuple[Any, dict[str, Any]]]:
        """Reset the only member for an episode of another group; return it with its first observation."""
        if len(self.members) != 1:
            raise ConfigError(
                f"an episode of another group needs a group of one member, but this group has {len(self.members)}"
            )
        [member] = self.members
        self._started = False
        member.set_next_episode(
            group_id=group_id, trajectory_id=f"{group_id}/{replica}", replica=replica, seed=seed, **names
        )
        return member, member.reset(seed=member_seed(seed, group_id, replica), options={"task": dict(task)})

    def step(self, actions: Mapping[int, Any]) -> dict[int, Step]:
        """Step members by index; the others wait. Different members may be stepped in different threads.

        Raises:
            EpisodeError: a named member is not running.
        """
        if stopped := sorted(i for i in actions if not self._runs(i)):
            raise EpisodeError(f"members {stopped} are not running; active: {list(self.active)}")
        results: dict[int, Step] = {}
        for i, action in actions.items():
            obs, reward, terminated, truncated, info = self.members[i].step(action)
            results[i] = Step(obs, float(reward), terminated, truncated, info)
        return results

    def stop(self, index: int, reason: StopReason) -> None:
        """End one member's episode early (see ``Recorder.stop``); the others continue.

        Raises:
            EpisodeError: the member is not running.
        """
        if not self._runs(index):
            raise EpisodeError(f"member {index} is not running; active: {list(self.active)}")
        self.members[index].stop(reason)

    def trajectories(self) -> tuple[Trajectory, ...]:
        """Return the trajectories of finished members."""
        return tuple(member.trajectory for member in self.members if member.finished)

    def group(self, task: Mapping[str, Any] | None = None) -> Group:
        """Return all members as a ``Group``, once all have finished.

        Args:
            task: payload for the schemes; default the task's content and, as "documents", the texts retrieved by the
                members.

        Raises:
            EpisodeError: some members are still running.
        """
        if active := self.active:
            raise EpisodeError(f"members {list(active)} are still running")
        if task is None:
            task = payload(self.members[0].base.task, [member.base for member in self.members])
        return Group(self.trajectories(), task)


def payload(task: Task, played: Iterable[AgentEnv[Any, Any, Any]]) -> dict[str, Any]:
    """Return a task's payload for schemes: its content and, as "documents", the texts retrieved in these episodes."""
    documents = {name: text for env in played for name, text in env.documents().items()}
    return {**task.content, "documents": documents} if documents else dict(task.content)

"""``VectorDenseReward``: ``DenseReward`` for a vector environment, all environments at once, with one potential for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, check_name, short_repr
from creditflow.wrappers.dense_reward import Truncation, check_gamma, make_store, warn_of_cut
from creditflow.wrappers.feature_potential import Store, Version, read_by
from creditflow.wrappers.potentials import Potentials, PotentialStore
from creditflow.wrappers.recorder import stop_reason
from creditflow.wrappers.records.trajectory import Turn
from creditflow.wrappers.shaped_episode import ShapedEpisode

__all__ = ["VectorDenseReward"]

if TYPE_CHECKING:  # the type parameters exist at run time only from a later Gymnasium on
    AnyVectorWrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:
    AnyVectorWrapper = VectorWrapper


class VectorDenseReward(AnyVectorWrapper):
    """Add β (γ Φ(s') − Φ(s)) to the rewards of a vector environment; Φ learns from the episodes of all its members.

    In every autoreset mode the rewards are those of ``DenseReward`` around each single environment, with one shared store.
    The potential of terminal states is zero, so optimal policies stay optimal.

    Args:
        env: a vector environment whose infos have ``task_id`` and ``state_key``: ``gym.make_vec`` with
            "sync" or "async" (the latter with ``shared_memory=False``) of any creditflow environment.
        scheme: source of the potential, one of those that ``DenseReward`` learns ("features" too), or "shuffled".
        gamma: γ, the *trainer's* discount; any other breaks the invariance, so there is no default.
        store: a store that this environment adds its episodes to, or one fixed version; default a new store.
        beta: β, scale of the shaping.
        truncation: how the trainer treats the turn limit: "end" (the return ends there: Φ is zero) or "bootstrap" (it
            bootstraps from its value of the last state: Φ is kept).
        unknown: Φ of a state that the potential does not know: "carry" keeps the last known one, or "zero".
        publish_every: number of finished episodes after which a new version is published, when the next episode begins.
        **parameters: of the scheme and of its store, if no store is given.

    Adds to the infos of a step ``raw_reward`` and ``shaping``, float64 (N,). Every episode uses the version of the potential
    that was published last when it began. Memory as in ``DenseReward``.

    Raises:
        ConfigError: an invalid option; at ``reset``, infos that it cannot read.
    """

    shapes_rewards = True

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        scheme: str,
        *,
        gamma: float,
        store: Store | Version | None = None,
        beta: float = 1.0,
        truncation: Truncation = "end",
        unknown: Literal["carry", "zero"] = "carry",
        publish_every: int = 1,
        **parameters: Any,
    ) -> None:
        super().__init__(env)
        check_gamma(gamma)
        if publish_every < 1:
            raise ConfigError(f"publish_every must be ≥ 1, got {short_repr(publish_every)}")
        check_name("truncation", str(truncation), ["end", "bootstrap"])
        check_name("unknown", str(unknown), ["carry", "zero"])
        if store is not None and parameters:
            raise ConfigError(f"the store has its own scheme: {sorted(parameters)} would have no effect")
        self.store: Store | Version = make_store(scheme, gamma=gamma, **parameters) if store is None else store
        if isinstance(self.store, PotentialStore):
            self.store.warn_if_unseen()
        self._features, self._by_text = read_by(self.store, env.num_envs)
        self.gamma, self.beta = float(gamma), float(beta)
        self._ends, self._carries, self._publish_every = truncation == "end", unknown == "carry", publish_every
        self._versions: list[Version] = [Potentials()] * env.num_envs
        self._potentials = np.zeros(env.num_envs)
        self._ended = np.zeros(env.num_envs, dtype=np.bool_)
        self._episodes = [ShapedEpisode("", []) for _ in range(env.num_envs)]
        self._warned = False  # of an episode that was cut by reset

    def freeze(self) -> Version:
        """Learn nothing more; return the version that every further episode uses."""
        return self.store.freeze()

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, with the version that all episodes finished so far make; one that had not ended is not learned from."""
        obs, infos = self.env.reset(seed=seed, options=options)
        self._require_readable(infos)
        cut = any(self._episodes[number].turns for number in np.flatnonzero(infos["_task_id"] & ~self._ended).tolist())
        if cut and self._ends and not self._warned:
            self._warned = True
            warn_of_cut("VectorDenseReward")
        self._begin(np.flatnonzero(infos["_task_id"]), obs, _Columns(infos))
        self._ended = self._ended & ~infos["_task_id"]
        return obs, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step in every environment, and add the shaping to the rewards."""
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        over = terminations | truncations
        mode = self.env.metadata["autoreset_mode"]
        same_step = mode == AutoresetMode.SAME_STEP
        restarted = np.flatnonzero(over) if same_step else np.empty(0, dtype=np.int64)
        starting = np.flatnonzero(self._ended) if mode == AutoresetMode.NEXT_STEP else np.empty(0, dtype=np.int64)
        idle = set() if same_step else set(np.flatnonzero(self._ended).tolist())  # restarting, or waiting for a reset
        present = _Columns(infos)
        ends = _Columns(infos["final_info"]) if len(restarted) else present
        seen = _rows_of(self.env.single_observation_space, obs) if self._features else ()
        after = np.zeros(self.num_envs)
        moves, earned, finished = list(actions), rewards.tolist(), over.tolist()
        for number in range(self.num_envs):
            if number in idle:
                continue
            columns = ends if finished[number] else present
            self._record(number, moves[number], earned[number], columns)
            if self._features:
                last = infos["final_obs"][number] if finished[number] and len(restarted) else seen[number]
                self._episodes[number].rows.append(self._features[number].row(last))
            after[number] = self._of(number)
            if finished[number]:
                end = columns.end(number)
                reason = stop_reason(end, bool(terminations[number]))
                self._episodes[number].finish(self.store, end["success"], end["score"], reason)
        after[terminations] = 0.0
        if self._ends:
            after[truncations] = 0.0
        shaping = self.beta * (self.gamma * after - self._potentials)
        shaping[sorted(idle)] = 0.0
        self._potentials, self._ended = after, over
        self._begin(np.concatenate([restarted, starting]), obs, present)
        infos["raw_reward"], infos["shaping"] = rewards, shaping
        infos["_raw_reward"], infos["_shaping"] = np.ones(
            (2, self.num_envs), dtype=np.bool_
        )  # every environment has both
        return obs, rewards + shaping, terminations, truncations, infos

    def _require_readable(self, infos: Any) -> None:
        """Reject what another wrapper, or another environment, made of infos."""
        if not isinstance(infos, dict):
            raise ConfigError(
                f"VectorDenseReward reads the infos of a vector environment, a dictionary, got a {type(infos).__name__}: put "
                "DictInfoToList outside of VectorDenseReward"
            )
        if missing := [key for key in ("task_id", "state_key") if key not in infos]:
            raise ConfigError(
                f"VectorDenseReward needs task_id and state_key in the infos, got none for {missing}: use environments of creditflow, "
                "or make each with creditflow.make and success=…, as a ForeignEnv"
            )

    def _begin(self, which: NDArray[np.int64], obs: Any, columns: _Columns) -> None:
        """Enter the first states of episodes."""
        if not len(which):
            return
        if self.store.pending >= self._publish_every:
            self.store.publish()
        version = self.store.snapshot()
        rows = _rows_of(self.env.single_observation_space, obs) if self._features else ()
        for number in which.tolist():
            self._versions[number] = version
            episode = ShapedEpisode(columns.task_id[number], [columns.keys(number)])
            if self._features:
                episode.rows.append(self._features[number].begin(rows[number]))
            self._episodes[number], self._potentials[number] = episode, 0.0
            self._potentials[number] = self._of(number)

    def _of(self, number: int) -> float:
        """Φ of the present state of an environment."""
        episode = self._episodes[number]
        value = episode.potential(self._versions[number], len(episode.keys) - 1, by_text=self._by_text)
        if value is not None:
            return value
        return float(self._potentials[number]) if self._carries else 0.0

    def _record(self, number: int, action: Any, reward: float, columns: _Columns) -> None:
        """Enter the state after an action, and record the turn if the store learns."""
        episode = self._episodes[number]
        state, text = episode.keys[-1]
        episode.keys.append(columns.keys(number))
        if self.store.frozen:
            return
        turn = Turn(
            state,
            str(action),
            columns.state_key[number],
            reward,
            parsed=columns.flag("action_parsed", number),
            admissible=columns.flag("action_admissible", number),
            effective=columns.flag("action_effective", number),
            text_key=text,
        )
        episode.turns.append(turn)


def _rows_of(space: Space[Any], observations: Any) -> Sequence[Any]:
    """The observation of each environment, from a batch of the observations of a space as ``gymnasium.vector`` makes it."""
    if isinstance(space, spaces.Dict) and isinstance(observations, Mapping):
        columns = [_rows_of(part, observations[name]) for name, part in space.spaces.items()]
        return [dict(zip(space.spaces, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(space, spaces.Tuple) and isinstance(observations, tuple):
        return list(zip(*map(_rows_of, space.spaces, observations), strict=True))
    return list(observations)


class _Columns:
    """The infos of a step as lists, one entry per environment; an environment need not report validity or text keys."""

    def __init__(self, infos: dict[str, Any]) -> None:
        self._infos = infos
        self._flags: dict[str, list[bool]] = {}
        self.task_id: list[str] = [str(name) for name in infos["task_key" if "task_key" in infos else "task_id"]]
        self.state_key: list[str] = [str(key) for key in infos["state_key"]]
        self.text_key: list[str] = [str(key) for key in infos["text_key"]] if "text_key" in infos else self.state_key

    def keys(self, number: int) -> tuple[str, str]:
        """State key and text key of an environment."""
        return self.state_key[number], self.text_key[number]

    def flag(self, name: str, number: int) -> bool:
        """A flag of an environment; True where none reports it."""
        if name not in self._flags:
            column = self._infos.get(name)
            self._flags[name] = [True] * len(self.task_id) if column is None else [bool(value) for value in column]
        return self._flags[name][number]

    def end(self, number: int) -> dict[str, Any]:
        """Success, score and reason of an episode that is over."""
        success = self.flag("success", number)
        score = float(self._infos["score"][number]) if "score" in self._infos else float(success)
        reason = str(self._infos["stop_reason"][number]) if "stop_reason" in self._infos else ""
        return {"success": success, "score": score, "stop_reason": reason}

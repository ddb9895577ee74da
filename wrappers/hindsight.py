"""Dense rewards in hindsight, for trainers that collect a whole batch before they learn from it.

The potential has already seen the episodes that it shapes: ``relabel`` takes whole episodes, ``RolloutShaping`` batches of steps
of many environments, whose episodes begin and end anywhere. Every episode is shaped by one version, so the sum along every path
still telescopes to −Φ(s_0) and the ranking of policies does not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, check_name
from creditflow.wrappers.dense_reward import Truncation, check_gamma, make_store, task_of
from creditflow.wrappers.feature_potential import FeaturePotentials, FeatureStore, Store, Version, feature_rows, read_by
from creditflow.wrappers.potentials import PotentialStore
from creditflow.wrappers.recorder import stop_reason
from creditflow.wrappers.records.stop_reasons import TRUNCATED
from creditflow.wrappers.records.trajectory import Trajectory, Turn
from creditflow.wrappers.shaped_episode import ShapedEpisode

__all__ = ["INFO_KEYS", "RolloutShaping", "relabel"]

# of the infos of a vector environment, what a trainer must pass on
INFO_KEYS: Final = (
    "task_id",
    "task_key",
    "state_key",
    "text_key",
    "success",
    "score",
    "action_valid",
    "action_effective",
)

Floats = NDArray[np.float64]


def relabel(
    trajectories: Sequence[Trajectory],
    scheme: str,
    *,
    gamma: float,
    beta: float = 1.0,
    truncation: Truncation = "end",
    store: Store | Version | None = None,
    **parameters: Any,
) -> list[Floats]:
    """The raw reward of every turn plus β (γ Φ(s′) − Φ(s)).

    Args:
        trajectories: full episodes of any tasks, in any order.
        scheme: a name in ``POTENTIALS``, or "features", which reads the recorded observations.
        gamma: γ, the trainer's discount.
        beta: β, scale of the shaping.
        truncation: "end": Φ is 0 where the limit of turns ended the episode; "bootstrap": it is kept.
        store: a store that also remembers earlier batches, and learns this one; or a fixed version; default a new store.
        **parameters: of the store, as in ``DenseReward``, if none is given.

    Returns:
        For every trajectory float64 (T_i,), the reward of each turn.

    Raises:
        ConfigError: a scheme without a potential, or parameters beside a store.
        DataError: a branch, which lacks the turns before it; or an episode without observations for "features".
    """
    check_gamma(gamma)
    if store is not None and parameters:
        raise ConfigError(f"the store has its own parameters: {sorted(parameters)} would have no effect")
    if branches := [member.trajectory_id for member in trajectories if member.parent]:
        raise DataError(f"relabel needs full episodes; {branches[0]!r} is a branch of another episode")
    if store is None:
        if scheme != "features":  # the window counts episodes of a task, and all of this batch are seen
            parameters.setdefault("window", max(10, len(trajectories)))
        store = make_store(scheme, gamma=gamma, **parameters)
    episodes = [_recorded(member, store) for member in trajectories]
    for member, episode in zip(trajectories, episodes, strict=True):
        if isinstance(store, FeatureStore):
            store.observe(episode.rows, [turn.reward for turn in member.turns])
        elif isinstance(store, PotentialStore):
            store.observe(member)
    version, (_, by_text) = store.publish(), read_by(store, 0)
    rewards = []
    for member, episode in zip(trajectories, episodes, strict=True):
        values = [episode.potential(version, t, by_text=by_text) for t in range(len(episode.keys))]
        rewards.append(_relabelled(member, values, gamma, beta, truncation == "end"))
    return rewards


def _recorded(member: Trajectory, store: Store | Version) -> ShapedEpisode:
    """A recorded episode; its last state was not observed."""
    keys = [(turn.state_key, turn.text_key) for turn in member.turns]
    keys.append((member.final_state_key, member.final_text_key))
    rows = feature_rows(member, store.size) if isinstance(store, FeatureStore | FeaturePotentials) else []
    return ShapedEpisode(member.task_id, keys, rows)


def _relabelled(member: Trajectory, values: Sequence[float | None], gamma: float, beta: float, ends: bool) -> Floats:
    """The rewards of an episode whose T + 1 states have these values; an unknown one carries the last that is known."""
    phi, carried = np.zeros(len(values)), 0.0
    for t, value in enumerate(values):
        carried = carried if value is None else value
        phi[t] = carried
    if member.turns and (ends or member.end != TRUNCATED):
        phi[-1] = 0.0
    raw = np.array([turn.reward for turn in member.turns], np.float64)
    return np.asarray(raw + beta * (gamma * phi[1:] - phi[:-1]))


@dataclass(slots=True)
class _Open(ShapedEpisode):
    """An episode that is being played.

    Attributes:
        complete: whether it was seen from its beginning, so that it can be learned from.
        version: that shapes it; None until the first batch with it is shaped.
        potentials: Φ of its states, as far as they were computed.
        ended: whether Φ of its last state is 0.
    """

    complete: bool = True
    version: Version | None = None
    potentials: list[float] = field(default_factory=list)
    ended: bool = False


class RolloutShaping:
    """The shaping of batches of steps of N environments, computed when a batch is complete.

    An episode that goes on in the next batch keeps the version that its first batch had. Episodes that were seen from their first
    step are learned from when they end.

    Args:
        envs: N.
        scheme, gamma, beta, store, **parameters: as for ``relabel``; the store learns from batch to batch.
        truncation: "bootstrap" (the trainer bootstraps from its value of the last state where the limit of turns ends an
            episode: Φ is kept) or "end".

    Raises:
        ConfigError: a scheme without a potential, or parameters beside a store.
    """

    def __init__(
        self,
        envs: int,
        scheme: str,
        *,
        gamma: float,
        beta: float = 1.0,
        truncation: Truncation = "bootstrap",
        store: Store | Version | None = None,
        **parameters: Any,
    ) -> None:
        check_gamma(gamma)
        check_name("truncation", str(truncation), ["end", "bootstrap"])
        if store is not None and parameters:
            raise ConfigError(f"the store has its own parameters: {sorted(parameters)} would have no effect")
        self.store: Store | Version = make_store(scheme, gamma=gamma, **parameters) if store is None else store
        self.gamma, self.beta, self._ends = gamma, beta, truncation == "end"
        self._features, self._by_text = read_by(self.store, envs)
        self._open: list[_Open | None] = [None] * envs
        self._steps: list[list[tuple[_Open, int]]] = [[] for _ in range(envs)]  # of the batch: episode and turn

    def begin(self, number: int, info: Mapping[str, Any], observation: Any = None, *, complete: bool = True) -> None:
        """Begin an episode of environment ``number``.

        Args:
            number: of the environment.
            info: of its first state: ``task_id`` (or ``task_key``), ``state_key``, and ``text_key`` for a potential of texts.
            observation: read by "features" only.
            complete: False if its first steps were not seen.
        """
        episode = _Open(task_of(info), [self._keys(info)], complete=complete)
        if self._features:
            episode.rows.append(self._features[number].begin(observation))
        self._open[number] = episode

    def last_state(self, number: int) -> str:
        """State key in which environment ``number`` is; "" before its first episode and after the end of one."""
        episode = self._open[number]
        return "" if episode is None else episode.keys[-1][0]

    def step(
        self,
        number: int,
        action: Any,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: Mapping[str, Any],
        observation: Any = None,
    ) -> None:
        """Enter one step of environment ``number``.

        Args:
            number: of the environment.
            action: what was done; equal actions have equal texts.
            reward: the raw one.
            terminated, truncated: whether the episode is over.
            info: of the state after it, as for ``begin``, with ``success`` and ``score`` where the episode is over, and
                ``action_valid`` and ``action_effective`` where they are known.
            observation: after it.

        Raises:
            EpisodeError: no episode has begun.
        """
        episode = self._open[number]
        if episode is None:
            raise EpisodeError(f"environment {number} has no episode: call begin() with the info of its reset")
        state, text = episode.keys[-1]
        episode.keys.append(self._keys(info))
        valid, effective = bool(info.get("action_valid", True)), bool(info.get("action_effective", True))
        turn = Turn(
            state, str(action), episode.keys[-1][0], float(reward), admissible=valid, effective=effective, text_key=text
        )
        self._steps[number].append((episode, len(episode.turns)))
        episode.turns.append(turn)
        if self._features:
            episode.rows.append(self._features[number].row(observation))
        if terminated or truncated:
            episode.ended = terminated or self._ends
            self._open[number] = None
            if episode.complete:
                self._learn(episode, info, terminated)

    def begin_all(self, observations: Any, infos: Mapping[str, Any]) -> None:
        """Begin an episode in every environment, after ``reset`` of a Gymnasium vector environment."""
        for number, observation in enumerate(observations):
            self.begin(number, _row(infos, number), observation)

    def step_all(
        self, actions: Any, observations: Any, rewards: Any, terminated: Any, truncated: Any, infos: Mapping[str, Any]
    ) -> None:
        """Enter what ``step`` of a Gymnasium vector environment with ``autoreset_mode="SameStep"`` returned."""
        for number, over in enumerate((terminated | truncated).tolist()):
            last = _row(infos["final_info"] if over else infos, number)
            seen = (infos["final_obs"] if over else observations)[number]
            is_end, is_cut = bool(terminated[number]), bool(truncated[number])
            self.step(number, actions[number], float(rewards[number]), is_end, is_cut, last, seen)
            if over:
                self.begin(number, _row(infos, number), observations[number])

    def shaping(self) -> Floats:
        """β (γ Φ(s') − Φ(s)) of the steps since the last call, float64 (T, N), by a version that has seen them.

        Raises:
            ConfigError: the environments have not taken equally many steps.
        """
        if len({len(steps) for steps in self._steps}) > 1:
            raise ConfigError("a batch has equally many steps of every environment")
        version = self.store.publish()
        shaping = np.zeros((len(self._steps[0]), len(self._steps)))
        for number, steps in enumerate(self._steps):
            for row, (episode, turn) in enumerate(steps):
                episode.version = episode.version or version
                self._extend(episode, episode.version)
                before, after = episode.potentials[turn : turn + 2]
                if episode.ended and turn == len(episode.turns) - 1:
                    after = 0.0
                shaping[row, number] = self.beta * (self.gamma * after - before)
        self._steps = [[] for _ in self._steps]
        return shaping

    def _keys(self, info: Mapping[str, Any]) -> tuple[str, str]:
        if self._by_text and "text_key" not in info:
            raise ConfigError("this potential needs text keys, but the infos have none")
        return str(info["state_key"]), str(info.get("text_key", ""))

    def _learn(self, episode: _Open, info: Mapping[str, Any], terminated: bool) -> None:
        success = bool(info["success"])
        score = float(info.get("score", success))
        episode.finish(self.store, success, score, stop_reason({"success": success}, terminated))

    def _extend(self, episode: _Open, version: Version) -> None:
        """Compute Φ of the states of an episode that have none yet; an unknown state carries the last known value."""
        for t in range(len(episode.potentials), len(episode.keys)):
            value = episode.potential(version, t, by_text=self._by_text)
            carried = episode.potentials[-1] if episode.potentials else 0.0
            episode.potentials.append(carried if value is None else value)


def _row(infos: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The info of one environment."""
    return {key: infos[key][number] for key in INFO_KEYS if key in infos}

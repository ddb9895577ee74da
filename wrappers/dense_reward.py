"""``DenseReward``: potential-based reward shaping from a credit scheme that learns from the episodes it sees.

β F_t is added to the environment's reward, with F_t = γ Φ(s_{t+1}) − Φ(s_t). With ``terminal="zero"`` the potential of
terminal states is zero, so that along every path Σ_t γ^t F_t = −Φ(s_0): the ranking of policies does not change, and
optimal policies stay optimal. Shaping can change how fast a critic, a TD method or a step-grouped scheme learns. It has no
effect on schemes that see only the return (GRPO, RLOO): with γ = 1 all returns change by −Φ(s_0).

Φ is a function of the state, learned from the last episodes of each task (``potentials.py``); a linear function of features of the
observation, learned from the episodes of all tasks (``feature_potential.py``); a function of the history ("gdcr", "egrpo", "pica":
``history_potential.py``); the exact oracle's; or a control.

Published methods differ: RewardFlow, GDCR and PiCA keep the potential of terminal states (``terminal="paper"``), which
changes the optimal policy; GraphGPO and RewardFlow use one-step differences as *advantages*, which is not shaping.
Penalties for invalid actions break the invariance as well.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError, check_name, short_repr
from creditflow.envs.foreign.keys import StateKey
from creditflow.envs.foreign.rules import Success
from creditflow.wrappers.base_env import base_env, recordable
from creditflow.wrappers.feature_potential import FeaturePotentials, FeatureStore, ObservationFeatures, Store, Version
from creditflow.wrappers.history_potential import HISTORY, Move, SuccessModel, history_potential
from creditflow.wrappers.potentials import (
    POTENTIALS,
    Potentials,
    PotentialStore,
    discounted_parameters,
    distance_discount,
    refusal,
)
from creditflow.wrappers.recorder import action_key, recorded_turn, stop_reason
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.shaped_episode import ShapedEpisode

__all__ = [
    "CONTROLS",
    "DenseReward",
    "check_gamma",
    "make_store",
    "require_unshaped",
    "shaping_wrapper",
    "task_of",
    "warn_of_cut",
]

CONTROLS: Final = ("oracle", "random", "shuffled", "zero")
WITHOUT_SUCCESS: Final = (
    "features",
    "zero",
    "random",
    *(name for name, kind in POTENTIALS.items() if kind.from_rewards),
)
Terminal = Literal["zero", "paper"]
Truncation = Literal["end", "bootstrap"]


def task_of(info: Mapping[str, Any]) -> str:
    """Key of the task for what is learned about its states: a foreign environment's ``task_key``, else the task's id."""
    return str(info["task_key"] if "task_key" in info else info["task_id"])


def warn_of_cut(wrapper: str) -> None:
    """Warn that an episode was cut outside a wrapper for which Φ is zero at limits."""
    warnings.warn(
        f"an episode was reset before it had ended, so its shaping does not sum up to −Φ(s₀) and policies may be ranked differently: "
        f"put TimeLimit, or whatever ends episodes early, inside {wrapper}; or pass truncation='bootstrap' if the trainer "
        "bootstraps from its value of the last state there",
        stacklevel=3,
    )


def make_store(
    scheme: str, *, gamma: float, terminal: Terminal = "zero", key: str = "state", **parameters: Any
) -> Store:
    """The store that ``DenseReward`` and ``VectorDenseReward`` make for themselves.

    Args:
        scheme: a name in ``POTENTIALS``; "shuffled" with the parameter ``of``, such a name; or "features".
        gamma: γ, the trainer's discount.
        terminal: "paper" takes the published potential: not anchored, 0 where success was not reached.
        key: key that identifies a state: "state" or "text".
        **parameters: of ``PotentialStore``, or of ``FeatureStore``.

    Raises:
        ConfigError: an unknown name or a wrong parameter.
    """
    check_gamma(gamma)
    if scheme == "features":
        if (terminal, key) != ("zero", "state"):
            raise ConfigError(
                "features are read from observations, and no paper has them: terminal and key would have no effect"
            )
        return FeatureStore(**{"discount": gamma, **parameters})
    if scheme == "shuffled":
        scheme = str(parameters.pop("of", "grouptd"))
        parameters.setdefault("shuffle", 0)
    if scheme in (*HISTORY, *CONTROLS):
        raise ConfigError(
            f"{scheme} reads one environment at a time and has no store: wrap each environment in DenseReward(env, {scheme!r}, …) "
            "before they are joined in a vector environment"
        )
    if scheme not in POTENTIALS:
        raise refusal(scheme, (*POTENTIALS, "features", *HISTORY, *CONTROLS))
    if terminal == "paper":
        parameters = {"anchored": False, "dead_ends": "zero", **parameters}
    if key == "text":
        parameters["key"] = "text"
    return PotentialStore(scheme, **discounted_parameters(scheme, gamma, parameters))


class DenseReward(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Add potential-based shaping to the environment's reward; the potential learns from the episodes that are played.

    >>> import gymnasium as gym
    >>> import creditflow
    >>> from creditflow.wrappers import DenseReward
    >>> env = DenseReward(gym.make("creditflow/Sokoban-v0", level="######\n#@ $.#\n######"), "grouptd", gamma=0.97)
    >>> for _ in range(2):  # the second episode is shaped by what the first one showed
    ...     _ = env.reset(seed=0)
    ...     rewards = [env.step("right")[1] for _ in range(2)]
    >>> [round(reward, 2) for reward in rewards]
    [0.06, 0.27]

    Args:
        env: any Gymnasium environment, possibly wrapped (a ``Recorder`` may stand inside or outside, or nowhere).
        scheme: source of the potential. Learned from the last episodes of each task: "grouptd", "gigpo",
            "hgpo" (values of the policy that plays), "rewardflow", "graphgpo" (distance to success). Learned from all tasks, for
            those that are seen once: "features" (``FeatureStore``). From the task and the history: "gdcr", "egrpo", and "pica" with ``model``. For comparison: "oracle" (γ^distance of the
            environment's exact oracle, anchored at the start), and the controls "zero", "random", "shuffled" (a
            learned potential, ``of``, with its values permuted among the states of a task).
        gamma: γ, the *trainer's* discount; any other breaks the invariance, so there is no default.
        store: a store shared by the environments of a run, each of which adds its episodes; or one fixed version
            (``Potentials``, ``FeaturePotentials``), which learns nothing; default a new store.
        beta: β, scale of the shaping. Φ is that of an episode that pays 1 for a success; where a success pays R, β = R ("gigpo"
            and "hgpo" use the rewards themselves: β = 1).
        terminal: "zero": Φ of terminal states is zero (policy-invariant); "paper": it is not, and Φ is the published one.
        truncation: how the trainer treats the turn limit: "end" (the return ends there: Φ is zero) or "bootstrap" (it
            bootstraps from its value of the last state: Φ is kept).
        unknown: Φ of a state that the potential does not know: "carry" keeps the last known one, so that reaching a new
            state gives no negative reward; or "zero".
        key: key that identifies a state: the environment's "state" key or the "text" key.
        publish_every: number of finished episodes after which a new version is published, at the next ``reset``.
        state_key, success, task: for an environment that is not creditflow's, see ``ForeignEnv``. By default all its episodes
            share what is learned. "features", "gigpo" and "hgpo" read rewards, so they need no ``success``.
        model: success model of "pica", see ``history_potential``.
        **parameters: of the scheme and of its store (``window``, ``max_tasks``, …), if no store is given. The
            discount of a learned potential is ``gamma`` unless it is named; with γ = 1, distances are discounted by 0.97.

    Every episode uses one version of the potential, chosen at ``reset``. Memory: the last ``window`` (10) episodes of at most
    ``max_tasks`` (4,096) tasks, without texts, or the 2 MiB of "features"; only these shape a task that never recurs. Where no
    state recurs in ``UNSEEN_EPISODES`` episodes, a warning says so. Adds to
    ``info``: ``raw_reward: float`` (the environment's), ``shaping: float`` (β F), ``potential: float`` and
    ``potential_version: int``. ``success`` and ``score`` do not change.

    Raises:
        ConfigError: an invalid option, or a scheme that cannot be a potential, with the reason.
        CreditError: at ``reset``, a task that lacks what "gdcr" or "egrpo" reads.
    """

    shapes_rewards = True

    def __init__(
        self,
        env: gym.Env[Any, Any],
        scheme: str,
        *,
        gamma: float,
        store: Store | Version | None = None,
        beta: float = 1.0,
        terminal: Terminal = "zero",
        truncation: Truncation = "end",
        unknown: Literal["carry", "zero"] = "carry",
        key: Literal["state", "text"] = "state",
        publish_every: int = 1,
        state_key: str | StateKey | None = None,
        success: str | Success | None = None,
        task: str | StateKey | None = None,
        model: SuccessModel | None = None,
        **parameters: Any,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            scheme=scheme,
            gamma=gamma,
            beta=beta,
            terminal=terminal,
            truncation=truncation,
            unknown=unknown,
            key=key,
            publish_every=publish_every,
            state_key=state_key,
            success=success,
            task=task,
            **parameters,
        )
        if success is None and scheme in WITHOUT_SUCCESS and not isinstance(env.unwrapped, AgentEnv):
            success = "none"
        env = recordable(env, "DenseReward", state_key, success, task)
        gym.Wrapper.__init__(self, env)
        _check(gamma, publish_every, terminal=terminal, truncation=truncation, unknown=unknown, key=key)
        if store is not None and parameters:
            raise ConfigError(f"the store has its own scheme: {sorted(parameters)} would have no effect")
        self._base = base_env(env, "DenseReward")
        self._history = history_potential(scheme, model=model, **parameters) if scheme in HISTORY else None
        self._exact = _Exact(scheme, gamma, **parameters) if scheme in ("oracle", "random", "zero") else None
        if model is not None and scheme != "pica":
            raise ConfigError(f"model= is the success model of pica; {scheme} has none")
        if self._history is not None or self._exact is not None:
            if store is not None or (unknown, key) != ("carry", "state"):
                raise ConfigError(f"{scheme} is not learned: store, unknown and key would have no effect")
            store = Potentials()
        elif store is None:
            store = make_store(scheme, gamma=gamma, terminal=terminal, key=key, **parameters)
        self.store: Store | Version = store
        if isinstance(store, PotentialStore):
            store.warn_if_unseen()
        self._features: ObservationFeatures | None = None
        if isinstance(store, FeatureStore | FeaturePotentials):
            if key != "state":
                raise ConfigError("features are read from observations: key would have no effect")
            self._features = ObservationFeatures(store.size)
        self.gamma, self.beta = float(gamma), float(beta)
        self._terminal, self._truncation, self._unknown, self._by_text = terminal, truncation, unknown, key == "text"
        self._publish_every = publish_every
        self._pending = {"thought": "", "response": ""}
        self._version: Version = Potentials()
        self._potential = 0.0
        self._elapsed, self._over = 0, True
        self._warned = False  # of an episode that was cut outside
        self._info: dict[str, Any] = {}
        self._episode = ShapedEpisode("", [])

    @property
    def potentials(self) -> Version:
        """The version of the current episode."""
        return self._version

    def freeze(self) -> Version:
        """Learn nothing more; return the version that every further episode uses."""
        return self.store.freeze()

    def record_response(self, *, thought: str = "", response: str = "") -> None:
        """Record thought and response for the next ``step``; called by ``Recorder.record_response``."""
        self._pending = {"thought": thought, "response": response}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, with the version that all episodes finished so far make.

        An episode that has not ended was cut outside: it is learned from as one that a limit ended. With ``truncation="end"`` its
        last reward lacks the end of the potential, which is said once.
        """
        if not self._over and self._elapsed:
            self._learn("env_limit")
            if self._truncation == "end" and self._terminal == "zero" and not self._warned:
                self._warned = True
                warn_of_cut("DenseReward")
        if self.store.pending >= self._publish_every:
            self.store.publish()
        obs, info = self.env.reset(seed=seed, options=options)
        self._version = self.store.snapshot()
        self._potential, self._info, self._episode = 0.0, info, ShapedEpisode(task_of(info), [])
        self._enter(obs, info)
        if self._history is not None:
            self._history.begin(self._base.task.content, str(info["task_id"]))
        if self._exact is not None:
            self._exact.begin(self._base)
        self._pending = {"thought": "", "response": ""}
        self._potential = self._of(info)
        self._elapsed, self._over = self._base.elapsed_steps, False
        return obs, self._shaped_info(info, float(info.get("raw_reward", 0.0)), 0.0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and add the shaping to its reward.

        Raises:
            EpisodeError: the episode has ended, or the environment was restored outside this wrapper.
        """
        if self._over:
            raise EpisodeError(
                "no episode is running: call reset() of DenseReward before step(), and put a wrapper that resets by itself "
                "(Autoreset) outside of DenseReward"
            )
        if self._base.elapsed_steps != self._elapsed:
            raise EpisodeError(
                "the environment was restored outside this wrapper, whose episode goes on from where it was: copy.deepcopy of the "
                "wrapped environment keeps both"
            )
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._elapsed, self._over = self._base.elapsed_steps, terminated or truncated
        raw = float(info.get("raw_reward", reward))
        before = self._potential
        if self._history is not None:
            self._history.step(Move(action, obs, info, **self._pending, last=terminated or truncated))
        self._pending = {"thought": "", "response": ""}
        self._enter(obs, info)
        self._record(action, raw, info, terminated, truncated)
        self._potential = self._after(info, terminated, truncated)
        shaping = self.beta * (self.gamma * self._potential - before)
        return obs, float(reward) + shaping, terminated, truncated, self._shaped_info(info, raw, shaping)

    def _enter(self, obs: Any, info: dict[str, Any]) -> None:
        """Remember what the potential reads of a state."""
        episode = self._episode
        episode.keys.append((str(info["state_key"]), str(info["text_key"])))
        if self._features is not None:
            episode.rows.append(self._features.row(obs) if episode.rows else self._features.begin(obs))

    def _record(self, action: Any, raw: float, info: dict[str, Any], terminated: bool, truncated: bool) -> None:
        """Record a turn, and give a finished episode to the store."""
        before, self._info = self._info, info
        if self.store.frozen:
            return
        key = action_key(self._base, action, info)
        self._episode.turns.append(recorded_turn(before, self._base.action_to_text(action), raw, info, action_key=key))
        if terminated or truncated:
            self._learn(stop_reason(info, terminated))

    def _learn(self, reason: StopReason) -> None:
        """Give the episode to the store."""
        self._episode.finish(self.store, self._info["success"], self._info["score"], reason)

    def _after(self, info: dict[str, Any], terminated: bool, truncated: bool) -> float:
        if terminated:
            if self._terminal == "zero":
                return 0.0
            if self._history is not None or not info["success"]:
                return self._of(info)
            version = self._version
            return version.goal if isinstance(version, Potentials) and version.values.get(self._episode.task) else 0.0
        if truncated and self._terminal == "zero" and self._truncation == "end":
            return 0.0
        return self._of(info)

    def _of(self, info: dict[str, Any]) -> float:
        """Return Φ of the state that ``info`` describes, or of the history up to it."""
        if self._history is not None:
            return self._history.value
        if self._exact is not None:
            value = self._exact.of(info)
        else:
            now = len(self._episode.keys) - 1
            value = self._episode.potential(self._version, now, by_text=self._by_text)
        if value is not None:
            return value
        return self._potential if self._unknown == "carry" else 0.0

    def unmoved_info(self, obs: Any, info: dict[str, Any]) -> dict[str, Any]:
        """Info of an action that a wrapper outside took back: no shaping, and the same potential."""
        del obs
        return self._shaped_info(info, 0.0, 0.0)

    def _shaped_info(self, info: dict[str, Any], raw: float, shaping: float) -> dict[str, Any]:
        return {
            **info,
            "raw_reward": raw,
            "shaping": shaping,
            "potential": self._potential,
            "potential_version": self._version.version,
        }


class _Exact:
    """Potentials that are not learned: the oracle's, and two controls.

    Args:
        name: "oracle": γ^d − γ^d(s_0), d the oracle's distance to success, unknown in dead states; "random": a number in [0, 1)
            for every state, from its key and ``seed``; "zero".
        gamma: γ, of distances 0.97 if it is 1.
        seed: of "random".
    """

    def __init__(self, name: str, gamma: float, *, seed: int = 0) -> None:
        self._name, self._discount, self._seed = name, distance_discount(gamma), seed
        self._env: AgentEnv[Any, Any, Any] | None = None
        self._start = 0.0

    def begin(self, env: AgentEnv[Any, Any, Any]) -> None:
        """Start an episode."""
        self._env, self._start = env, 0.0
        if self._name == "oracle":
            value = self._by_oracle()
            self._start = 0.0 if value is None else value

    def of(self, info: Mapping[str, Any]) -> float | None:
        """Φ of the present state; None if it is dead."""
        if self._name == "zero":
            return 0.0
        if self._name == "random":
            text = f"{self._seed}/{info['task_id']}/{info['state_key']}"
            return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48
        value = self._by_oracle()
        return None if value is None else value - self._start

    def _by_oracle(self) -> float | None:
        if self._env is None:
            raise EpisodeError("there is no episode yet: call reset() first")
        distance = self._env.oracle.distance(self._env.get_state())
        return self._discount**distance if math.isfinite(distance) else None


def check_gamma(gamma: float) -> None:
    """Reject a discount outside (0, 1]."""
    if not 0.0 < gamma <= 1.0:
        raise ConfigError(f"gamma must lie in (0, 1], got {short_repr(gamma)}")


def _check(gamma: float, publish_every: int, *, terminal: str, truncation: str, unknown: str, key: str) -> None:
    check_gamma(gamma)
    if publish_every < 1:
        raise ConfigError(f"publish_every must be ≥ 1, got {short_repr(publish_every)}")
    check_name("terminal", str(terminal), ["zero", "paper"])
    check_name("truncation", str(truncation), ["end", "bootstrap"])
    check_name("unknown", str(unknown), ["carry", "zero"])
    check_name("key", str(key), ["state", "text"])


def require_unshaped(env: Any, *, force: bool = False) -> None:
    """Reject evaluation with shaped rewards.

    Args:
        env: any environment, or vector environment.
        force: allow shaped rewards.

    Raises:
        ConfigError: the environment contains a ``DenseReward`` or a ``VectorDenseReward``.
    """
    if not force and (wrapper := shaping_wrapper(env)):
        raise ConfigError(
            f"evaluation with {wrapper} would report shaped returns: remove the wrapper, or pass "
            "force=True and report info['raw_reward']"
        )


def shaping_wrapper(env: Any) -> str:
    """Name of the wrapper that shapes an environment's rewards; "" if there is none."""
    layer = env
    while not getattr(type(layer), "shapes_rewards", False):
        if not isinstance(layer, gym.Wrapper | gym.vector.VectorWrapper):
            return ""
        layer = layer.env
    return type(layer).__name__

"""``DenseReward``: potential-based shaping from a credit scheme, with the conditions under which it is harmless.

The environment's reward is joined by β F_t with F_t = γ Φ(s_{t+1}) − Φ(s_t). With ``terminal="zero"`` the potential is
paid back at the end, so that along every path Σ_t γ^t F_t = −Φ(s_0): no policy gains on another, and the optimal
policies stay optimal. What it can change is how fast a critic, a TD method or a step-grouped scheme learns. It changes
nothing for schemes that see only the sum of rewards (GRPO, RLOO): with γ = 1 the sum moves by −Φ(s_0) for everybody.

Φ is a function of the state ("rewardflow", "graphgpo", "grouptd"; learned from recorded groups), or of the history
("gdcr": all that the scheme has paid in this episode; known from the task). With γ = 1 and ``terminal="paper"`` the
latter pays exactly GDCR's r_t. That is no harmless shaping: it raises the return of whoever finds more entities. The
default pays it back at the end.

Published methods differ: RewardFlow, GDCR and PiCA pay the difference and never pay back (``terminal="paper"``), which
rewards arriving and changes what is optimal; GraphGPO and RewardFlow use one-step differences as *advantages*, which is
no shaping at all. Penalties for invalid actions break the invariance as well.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.wrappers.graphs.history_potential import HISTORY, HistoryPotential
from creditflow.wrappers.graphs.potentials import Potentials, PotentialStore

__all__ = ["DenseReward", "require_unshaped"]


class DenseReward(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Pay potential-based shaping beside the environment's reward.

    Args:
        env: an ``AgentEnv``, possibly wrapped.
        scheme: where the potential comes from: "rewardflow", "graphgpo" or "grouptd" (see ``PotentialStore``), or
            "gdcr" (see ``HistoryPotential``; takes no store, and ``unknown`` and ``key`` are idle).
        gamma: γ, the *trainer's* discount; another one breaks the invariance, so there is no default.
        store: shared by all environments of a run, or one fixed version; default a fresh empty store.
        beta: β, the scale of the shaping.
        terminal: "zero" pays Φ back when the task ends (policy-invariant); "paper" does not.
        truncation: what the trainer makes of the turn limit: "end" (the return stops there: Φ is paid back) or
            "bootstrap" (it adds its own value of the last state: Φ stays).
        unknown: Φ of a state that the store does not know: "carry" keeps the last known one, so that stepping on new
            ground costs nothing; "zero".
        key: what names a state: the environment's "state" key, or the "text" a method saw.
        **parameters: of the scheme, when no store is given.

    Every episode uses one version of the potential, taken at ``reset``. Adds to ``info``: ``raw_reward: float`` (the
    environment's own), ``shaping: float`` (β F), ``potential: float`` and ``potential_version: int``. ``success`` and
    ``score`` are never touched.

    Raises:
        ConfigError: a wrong option.
        CreditError: at ``reset``, a task without what "gdcr" needs.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        scheme: str,
        *,
        gamma: float,
        store: PotentialStore | Potentials | None = None,
        beta: float = 1.0,
        terminal: Literal["zero", "paper"] = "zero",
        truncation: Literal["end", "bootstrap"] = "end",
        unknown: Literal["carry", "zero"] = "carry",
        key: Literal["state", "text"] = "state",
        **parameters: Any,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, scheme=scheme, gamma=gamma, beta=beta, terminal=terminal, truncation=truncation, unknown=unknown,
            key=key, **parameters,
        )  # fmt: skip
        gym.Wrapper.__init__(self, env)
        base = env.unwrapped
        if not isinstance(base, AgentEnv):
            raise ConfigError(f"DenseReward wraps creditflow environments, got {type(base).__name__}")
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma must lie in (0, 1], got {short_repr(gamma)}")
        for name, value, known in (
            ("terminal", terminal, ["zero", "paper"]),
            ("truncation", truncation, ["end", "bootstrap"]),
            ("unknown", unknown, ["carry", "zero"]),
            ("key", key, ["state", "text"]),
        ):
            if value not in known:
                raise unknown_name_error(name, str(value), known)
        if store is not None and parameters:
            raise ConfigError(f"the store has its own scheme: {sorted(parameters)} would be idle")
        self._base: AgentEnv[Any, Any, Any] = base
        self._history = HistoryPotential(scheme, **parameters) if scheme in HISTORY else None
        if self._history is not None:
            if store is not None or (unknown, key) != ("carry", "state"):
                raise ConfigError(f"{scheme} knows its potential from the task: store, unknown and key would be idle")
            store = Potentials()
        elif key == "text" and store is None:
            parameters["key"] = "text"
        self.store = PotentialStore(scheme, **parameters) if store is None else store
        self._note = {"thought": "", "response": ""}
        self.gamma, self.beta = float(gamma), float(beta)
        self._terminal, self._truncation, self._unknown, self._key = terminal, truncation, unknown, f"{key}_key"
        self._version = Potentials()
        self._potential = 0.0
        self._elapsed = 0

    @property
    def potentials(self) -> Potentials:
        """The version of the present episode."""
        return self._version

    def record_response(self, *, thought: str = "", response: str = "") -> None:
        """What the agent thought and said; belongs to the next ``step``. ``Recorder.record_response`` calls it."""
        self._note = {"thought": thought, "response": response}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode under the version that was published last."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._version = self.store if isinstance(self.store, Potentials) else self.store.snapshot()
        self._potential = 0.0
        if self._history is not None:
            self._history.begin(self._base.task.content, str(info["task_id"]))
        self._note = {"thought": "", "response": ""}
        self._potential = self._of(info)
        self._elapsed = self._base.elapsed_steps
        return obs, self._told(info, float(info.get("raw_reward", 0.0)), 0.0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action and pay.

        Raises:
            EpisodeError: the environment was restored behind this wrapper's back.
        """
        if self._base.elapsed_steps != self._elapsed:
            raise EpisodeError(
                "the environment was moved without its potential: restore snapshots by DenseReward.set_state, taken "
                "with DenseReward.get_state"
            )
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._elapsed = self._base.elapsed_steps
        before = self._potential
        if self._history is not None:
            self._history.step(action, obs, info, **self._note, last=terminated or truncated)
        self._note = {"thought": "", "response": ""}
        self._potential = self._after(info, terminated, truncated)
        shaping = self.beta * (self.gamma * self._potential - before)
        raw = float(info.get("raw_reward", reward))
        return obs, float(reward) + shaping, terminated, truncated, self._told(info, raw, shaping)

    def get_state(self) -> str:
        """The environment's snapshot together with the potential that the next step will subtract."""
        data = {"format": "dense/1", "env": self._base.get_state(), "potential": self._potential}
        if self._history is not None:
            data["history"] = self._history.get_state()
        return json.dumps(data)

    def set_state(self, snapshot: str) -> tuple[Any, dict[str, Any]]:
        """Restore a snapshot of ``get_state``; what was paid on arrival is what departure subtracts.

        The episode goes on under the version last published, which need not be the one the snapshot was taken under:
        the sum along the path does not depend on it.

        Raises:
            DataError: not a snapshot of this wrapper.
        """
        try:
            data = json.loads(snapshot)
            inner, potential, history = data["env"], float(data["potential"]), data.get("history")
            if data["format"] != "dense/1":
                raise DataError(f"a DenseReward snapshot has format 'dense/1', got {short_repr(data['format'], 40)}")
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"not a DenseReward snapshot: {short_repr(snapshot)}") from error
        obs, info = self._base.set_state(inner)
        if self._history is not None:
            self._history.begin(self._base.task.content, str(info["task_id"]))
            self._history.set_state(history)
        self._version = self.store if isinstance(self.store, Potentials) else self.store.snapshot()
        self._potential, self._elapsed = potential, self._base.elapsed_steps
        return obs, self._told(info, 0.0, 0.0)

    def _after(self, info: dict[str, Any], terminated: bool, truncated: bool) -> float:
        if terminated:
            if self._terminal == "zero":
                return 0.0
            if self._history is not None or not info["success"]:
                return self._of(info)
            return self._version.goal if self._version.values.get(info["task_id"]) else 0.0
        if truncated and self._terminal == "zero" and self._truncation == "end":
            return 0.0
        return self._of(info)

    def _of(self, info: dict[str, Any]) -> float:
        """Φ of the state that ``info`` describes, or of the history up to it."""
        if self._history is not None:
            return self._history.value
        value = self._version.of(info["task_id"], info[self._key])
        if value is not None:
            return value
        return self._potential if self._unknown == "carry" else 0.0

    def _told(self, info: dict[str, Any], raw: float, shaping: float) -> dict[str, Any]:
        return {
            **info,
            "raw_reward": raw,
            "shaping": shaping,
            "potential": self._potential,
            "potential_version": self._version.version,
        }


def require_unshaped(env: gym.Env[Any, Any], *, force: bool = False) -> None:
    """Refuse to evaluate under shaped rewards.

    Args:
        env: any environment.
        force: allow it all the same.

    Raises:
        ConfigError: there is a ``DenseReward`` somewhere in it.
    """
    layer: gym.Env[Any, Any] = env
    while not force:
        if isinstance(layer, DenseReward):
            raise ConfigError(
                "evaluation under DenseReward would report shaped returns: take the wrapper off, or pass force=True and "
                "report info['raw_reward']"
            )
        if not isinstance(layer, gym.Wrapper):
            return
        layer = layer.env

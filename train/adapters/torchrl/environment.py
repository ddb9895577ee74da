"""Our environments in TorchRL: what credit needs of ``info`` becomes tensors, so it travels through collectors and processes."""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym
import torch
from gymnasium.utils import RecordConstructorArgs
from torchrl.data import Binary, Unbounded
from torchrl.envs import GymWrapper
from torchrl.envs.gym_like import BaseInfoDictReader

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.registration import make
from creditflow.train.adapters.releases import TORCHRL

__all__ = ["ELAPSED", "FLAGS", "KEYS", "KEY_BYTES", "TaskOrder", "TurnReader", "make_env", "text_of"]

KEY_BYTES: Final = 64  # state keys and task ids have at most so many ASCII characters
KEYS: Final = ("state_key", "task_id")
FLAGS: Final = ("success", "action_valid", "action_effective")
ELAPSED: Final = "elapsed_steps"


class TaskOrder(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Plays each task ``repeat`` times before the next, so that episodes form groups; a reset with a seed starts anew there.

    Workers with equal seeds and ``repeat=1`` play the same tasks in the same order: a group has one episode of each worker.

    Args:
        env: an environment of ours.
        seed: seed of the first task; the next task has the next seed.
        repeat: episodes of a task in a row.
    """

    def __init__(self, env: gym.Env[Any, Any], *, seed: int, repeat: int = 1) -> None:
        RecordConstructorArgs.__init__(self, seed=seed, repeat=repeat)
        gym.Wrapper.__init__(self, env)
        if type(repeat) is not int or repeat < 1:
            raise ConfigError(f"repeat must be a positive integer, got {short_repr(repeat)}")
        self._seed, self._repeat, self._played = seed, repeat, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the next episode; TorchRL's ``set_seed`` resets with a seed, which counts as no episode."""
        if seed is not None:
            self._seed, self._played = seed, 0
            return self.env.reset(seed=seed, options=options)
        task = self._seed + self._played // self._repeat
        self._played += 1
        return self.env.reset(seed=task, options=options)


class TurnReader(BaseInfoDictReader):
    """Reads from ``info`` what a turn's record needs: state key and task id as bytes, flags, score, steps since the start."""

    def __init__(self) -> None:
        self._spec = {
            **{name: Unbounded((KEY_BYTES,), dtype=torch.uint8) for name in KEYS},
            **{name: Binary(1, shape=(1,), dtype=torch.bool) for name in FLAGS},
            "score": Unbounded((1,), dtype=torch.float64),
            ELAPSED: Unbounded((1,), dtype=torch.int64),
        }

    def __call__(self, info_dict: dict[str, Any], tensordict: Any) -> Any:
        """Write one step's values into its TensorDict."""
        for name in KEYS:
            tensordict.set(name, _bytes_of(info_dict[name]))
        for name in FLAGS:
            tensordict.set(name, torch.tensor([info_dict[name]]))
        tensordict.set("score", torch.tensor([info_dict["score"]], dtype=torch.float64))
        tensordict.set(ELAPSED, torch.tensor([info_dict[ELAPSED]]))
        return tensordict

    @property
    def info_spec(self) -> dict[str, Any]:
        """Specs of what is written."""
        return self._spec


def make_env(name: str, *, seed: int, repeat: int = 1, **options: Any) -> GymWrapper:
    """Make a TorchRL environment of one of ours, with arrays as observations and numbers as actions.

    Args:
        name: short name or Gymnasium id.
        seed, repeat: see ``TaskOrder``.
        **options: arguments of the environment, such as ``obs_mode="planes", action_mode="discrete"`` of Sokoban.

    Raises:
        ConfigError: text observations or actions, which TorchRL's Gymnasium environments do not carry, or an untested release.
    """
    TORCHRL.require()
    env = make(name, **options)
    for space, what in ((env.observation_space, "observations"), (env.action_space, "actions")):
        if isinstance(space, gym.spaces.Text) or not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
            raise ConfigError(
                f"TorchRL needs arrays and numbers, but the {what} of {name} are {type(space).__name__} with these options; "
                "Sokoban takes obs_mode='planes', action_mode='discrete'"
            )
    wrapped = GymWrapper(TaskOrder(env, seed=seed, repeat=repeat))
    wrapped.set_info_dict_reader(TurnReader())
    return wrapped


def _bytes_of(text: str) -> torch.Tensor:
    data = text.encode("ascii")
    if len(data) > KEY_BYTES:
        raise ConfigError(f"a key of at most {KEY_BYTES} characters is needed, got {short_repr(text)}")
    return torch.frombuffer(bytearray(data.ljust(KEY_BYTES, b"\0")), dtype=torch.uint8)


def text_of(row: bytes) -> str:
    """Return the text of a key's bytes."""
    return row.rstrip(b"\0").decode("ascii")

"""TorchRL: our environments as its environments, and advantages for its losses.

``CreditAdvantage`` writes a scheme's advantages into a batch. What it needs of ``info`` becomes tensors, so it travels through
collectors and processes.
"""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym
import numpy as np
import torch
from gymnasium.utils import RecordConstructorArgs
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torchrl.data import Binary, Unbounded
from torchrl.envs import GymWrapper
from torchrl.envs.gym_like import BaseInfoDictReader

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.registration import make
from creditflow.train.adapters.releases import TORCHRL
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import TurnColumns, advantages, require_plain

__all__ = [
    "ELAPSED",
    "FLAGS",
    "KEYS",
    "KEY_BYTES",
    "CreditAdvantage",
    "TaskOrder",
    "TurnReader",
    "columns_of",
    "make_env",
    "text_of",
]


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


def _texts(column: Any) -> list[str]:
    return [text_of(bytes(key)) for key in column.tolist()]


class CreditAdvantage(TensorDictModuleBase):
    """Write ``advantage``, float32 (…, T, 1), into rollouts (…, T), as TorchRL's value estimators do; no value network.

    Whole episodes of one task are a group. Steps of an episode that an end of its row cuts get no credit: their advantage is 0,
    and ``credited``, bool (…, T, 1), is false, as for turns that the scheme leaves out of the loss; so it selects the steps to
    train on.

    Args:
        scheme: a scheme that needs neither annotations nor the task's payload.

    Raises:
        ConfigError: the scheme needs annotations.
    """

    in_keys = [
        "action",
        ELAPSED,
        *KEYS,
        ("next", "reward"),
        ("next", "done"),
        *(("next", name) for name in (*KEYS, *FLAGS)),
    ]
    out_keys = ["advantage", "credited"]

    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        require_plain(scheme)
        self.scheme = scheme

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Assign credit; returns the same TensorDict with both keys.

        Raises:
            ConfigError: there is no dimension of time, or the environments are not those of ``make_env``.
        """
        columns, places = columns_of(tensordict)
        result = advantages(self.scheme, columns, incomplete="keep")
        size = (tensordict.numel() // tensordict.shape[-1], tensordict.shape[-1])
        advantage, credited = torch.zeros(size), torch.zeros(size, dtype=torch.bool)
        rows, steps = torch.as_tensor(np.array(places, np.int64).reshape(-1, 2)).unbind(1)
        advantage[rows, steps] = torch.as_tensor(result.per_turn, dtype=advantage.dtype)
        credited[rows, steps] = torch.as_tensor(result.in_loss)
        shape = (*tensordict.shape, 1)
        tensordict.set("advantage", advantage.reshape(shape).to(tensordict.device or "cpu"))
        tensordict.set("credited", credited.reshape(shape).to(tensordict.device or "cpu"))
        return tensordict


def _rows(tensordict: TensorDictBase) -> TensorDictBase:
    """Rollouts as rows of time, on the CPU."""
    if not tensordict.ndim or ("next", "state_key") not in tensordict.keys(True):
        raise ConfigError(
            "expected rollouts with a dimension of time, of environments of creditflow.train.adapters.torchrl.make_env"
        )
    return tensordict.reshape(-1, tensordict.shape[-1]).cpu()


def columns_of(tensordict: TensorDictBase) -> tuple[TurnColumns, list[tuple[int, int]]]:
    """Return the turns of the whole episodes of rollouts, and the row and step of each."""
    rows = _rows(tensordict)
    elapsed = rows[ELAPSED].reshape(rows.shape).tolist()
    places, episodes, ends = list[tuple[int, int]](), list[str](), list[tuple[int, int]]()
    for row, done in enumerate(rows["next", "done"].reshape(rows.shape).tolist()):
        first = 0
        for step, over in enumerate(done):
            if over:
                if elapsed[row][first] == 0:  # else it began in an earlier batch of the collector
                    places += [(row, t) for t in range(first, step + 1)]
                    episodes += [f"episode {len(ends)}"] * (step + 1 - first)
                    ends.append((row, step))
                first = step + 1
    turns = rows[tuple(np.array(places, np.int64).reshape(-1, 2).T)]
    after = turns["next"]
    reasons = {f"episode {i}": _stop_reason(rows[row, step]["next"]) for i, (row, step) in enumerate(ends)}
    columns = TurnColumns(
        group=_texts(turns["task_id"]),
        trajectory=episodes,
        state=_texts(turns["state_key"]),
        next_state=_texts(after["state_key"]),
        reward=after["reward"].reshape(-1),
        ended=[reasons[name] for name in episodes],
        score=after["score"].reshape(-1),
        valid=after["action_valid"].reshape(-1),
        action=[str(action) for action in turns["action"].tolist()],
    )
    return columns, places


def _stop_reason(last: Any) -> str:
    if bool(last["success"]):
        return "success"
    return "env_limit" if bool(last["truncated"]) else "failed"

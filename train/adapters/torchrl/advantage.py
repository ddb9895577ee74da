"""``CreditAdvantage``: a scheme's advantage of every turn, written where TorchRL's losses read it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase

from creditflow.envs.errors import ConfigError
from creditflow.train.adapters.torchrl.environment import ELAPSED, FLAGS, KEYS, text_of
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import TurnColumns, advantages, require_plain

__all__ = ["CreditAdvantage", "columns_of"]


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


def columns_of(tensordict: TensorDictBase) -> tuple[TurnColumns, list[tuple[int, int]]]:
    """Return the turns of the whole episodes of rollouts, and the row and step of each."""
    if not tensordict.ndim or ("next", "state_key") not in tensordict.keys(True):
        raise ConfigError(
            "expected rollouts with a dimension of time, of environments of creditflow.train.adapters.torchrl.environment.make_env"
        )
    rows = tensordict.reshape(-1, tensordict.shape[-1]).cpu()
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
    ended = {f"episode {i}": _stop_reason(rows[row, step]["next"]) for i, (row, step) in enumerate(ends)}
    tasks, states, following = (
        [text_of(bytes(key)) for key in column.tolist()]
        for column in (turns["task_id"], turns["state_key"], after["state_key"])
    )
    columns = TurnColumns(
        group=tasks, trajectory=episodes, state=states, next_state=following, reward=after["reward"].reshape(-1),
        ended=[ended[name] for name in episodes], score=after["score"].reshape(-1), valid=after["action_valid"].reshape(-1),
        action=[str(action) for action in turns["action"].tolist()],
    )  # fmt: skip
    return columns, places


def _stop_reason(last: Any) -> str:
    if bool(last["success"]):
        return "success"
    return "env_limit" if bool(last["truncated"]) else "failed"

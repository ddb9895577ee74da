"""Advantages of a verl batch token by token, to compare with those of a scheme; verl's trainers without workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from creditflow.train.policy.samples import make_rows
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group


def expected(groups: list[Group], credits_: list[Credit]) -> dict[tuple[int, ...], dict[int, float]]:
    """By all ids of an episode: position of each token in the loss -> its advantage."""
    return {
        tuple(row.ids.tolist()): dict(zip(row.target.tolist(), row.advantage.tolist(), strict=True))
        for row in make_rows(groups, credits_)
    }


def reached(data: Any) -> dict[tuple[int, ...], dict[int, float]]:
    """The same from verl's batch; masked tokens must have advantage zero."""
    advantages, mask = data.batch["advantages"], data.batch["response_mask"]
    assert advantages.shape == mask.shape == data.batch["responses"].shape
    assert not (advantages * (1 - mask)).any()
    assert (data.batch["returns"] == advantages).all()
    out = {}
    for i in range(len(data)):
        width = data.batch["prompts"].shape[1]
        attended = data.batch["attention_mask"][i].bool()
        read = int(attended[:width].sum())
        ids = tuple(data.batch["input_ids"][i][attended].tolist())
        places = mask[i].nonzero()[:, 0].tolist()
        out[ids] = {read + p: float(advantages[i, p]) for p in places}
    return out


def same(got: dict[Any, dict[int, float]], wanted: dict[Any, dict[int, float]]) -> None:
    assert {name: list(numbers) for name, numbers in got.items() if numbers} == {
        name: list(numbers) for name, numbers in wanted.items()
    }
    for name, numbers in wanted.items():
        assert [got[name][p] for p in numbers] == [float(np.float32(number)) for number in numbers.values()]


def trainer(config: Any, mode: str = "sync") -> Any:
    """verl's trainer of that mode as the registry has it, without workers."""
    from verl.trainer.ppo.v1 import get_trainer_cls

    made = object.__new__(get_trainer_cls(mode))
    made.config = config
    return made


def columns(queue: Any, batch: Any, *names: str) -> Any:
    return queue.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=list(names))

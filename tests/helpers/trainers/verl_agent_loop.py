"""The shapes of verl-agent's rollout loop, written from its interface: who is asked, what becomes a row, what happens to rows.

All B episodes are stepped until all are over, finished ones too; a row is a step of an episode that was still running.
Groups are consecutive episodes with one ``uid``. Then rows are copied to fill the batch, and shuffled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

WIDTH = 6  # response tokens


@dataclass
class Rows:
    """Rows of one or more rollouts, in columns.

    Attributes:
        columns: as in ``non_tensor_batch``.
        places: rollout, episode and step of each row, which the real batch does not have.
        success: what the manager's evaluator returned, per rollout.
    """

    columns: dict[str, list[Any]] = field(default_factory=dict)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    success: list[dict[str, Any]] = field(default_factory=list)


def play(
    manager: Any, answer: Callable[[int, int, str, dict[str, Any]], str], *, size: int, max_steps: int, into: Rows | None = None,
    kwargs: Any = None,
) -> Rows:  # fmt: skip
    """One rollout; ``answer`` gives the completion from episode, step, prompt and info."""
    rows = Rows() if into is None else into
    number = len(rows.success)
    obs, infos = manager.reset(kwargs=kwargs)
    b = len(obs["text"])
    over, totals = np.zeros(b, bool), np.zeros(b, np.float32)
    total_infos: list[list[dict[str, Any]]] = [[] for _ in range(b)]
    steps: list[list[dict[str, Any]]] = [[] for _ in range(b)]
    for step in range(max_steps):
        active = ~over
        texts = [answer(i, step, obs["text"][i], infos[i]) for i in range(b)]
        after, rewards, dones, infos = manager.step(texts)
        assert rewards.shape == dones.shape == (b,)
        totals[active] += rewards[active]
        for i in range(b):
            steps[i].append({
                "uid": f"uid{number}-{i // size}", "traj_uid": f"traj{number}-{i}", "anchor_obs": obs["anchor"][i],
                "rewards": rewards[i], "active_masks": bool(active[i]), "is_action_valid": bool(infos[i]["is_action_valid"]),
                "text_actions": texts[i], "place": (number, i, step),
            })  # fmt: skip
            total_infos[i].append(infos[i])
        over, obs = over | dones, after
        if over.all():
            break
    rows.success.append(
        manager.success_evaluator(
            total_infos=total_infos, total_batch_list=steps, episode_rewards=totals, episode_lengths=None
        )
    )
    for i in range(b):
        for row in steps[i]:
            if row["active_masks"]:
                rows.places.append(row.pop("place"))
                for name, value in {**row, "episode_rewards": totals[i]}.items():
                    rows.columns.setdefault(name, []).append(value)
    return rows


def batch(rows: Rows, *, penalty: float, multiple: int, seed: int) -> tuple[Any, list[tuple[int, int, int]]]:
    """The batch as it reaches the advantage function, and the place of each row: filled with copies, shuffled, scored."""
    rng = np.random.default_rng(seed)
    n = len(rows.places)
    order = np.concatenate([np.arange(n), rng.choice(n, -n % multiple, replace=False)])
    order = rng.permutation(order)
    columns = {}
    for name, values in rows.columns.items():
        column = np.empty(n, object)
        column[:] = values
        columns[name] = column[order]
    lengths = rng.integers(1, WIDTH + 1, len(order))
    mask = (np.arange(WIDTH) < lengths[:, None]).astype(np.int64)
    rewards = np.zeros(mask.shape, np.float32)
    scores = columns["episode_rewards"].astype(np.float32)
    scores -= np.float32(penalty) * (1 - columns["is_action_valid"].astype(np.float32))
    rewards[np.arange(len(order)), lengths - 1] = scores
    data = SimpleNamespace(batch={"token_level_rewards": rewards, "response_mask": mask}, non_tensor_batch=columns)
    return data, [rows.places[i] for i in order]

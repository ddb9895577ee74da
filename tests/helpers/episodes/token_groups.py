"""Groups of episodes with tokens, such as adapters must carry unchanged: unequal turns, one turn, equal outcomes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

SIZE = 4  # episodes per group


def episode(rng: np.random.Generator, task: str, replica: int, turns: int, reward: float) -> Trajectory:
    """Turns of random lengths through states that other episodes of the group visit too."""
    keys = [f"s{t % 3}" for t in range(turns + 1)]
    spans = rng.integers(1, 5, size=(turns, 2))
    mask = np.concatenate([np.repeat([False, True], span) for span in spans])
    ids = rng.integers(10, 250, size=len(mask)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(spans.sum(1))]).astype(np.int32)
    played = tuple(
        Turn(keys[t], f"a{rng.integers(2)}", keys[t + 1], reward if t == turns - 1 else 0.0) for t in range(turns)
    )
    tokens = Tokens(ids, mask, np.where(mask, -1.0, 0.0).astype(np.float32), offsets)
    won = reward > 0.0
    return Trajectory(
        f"{task}/{replica}", task, task, played, won, float(won), "success" if won else "failed", keys[-1],
        tokens=tokens, replica=replica,
    )  # fmt: skip


def group_of(seed: int, task: str, turns: list[int], rewards: list[float]) -> Group:
    rng = np.random.default_rng(seed)
    return Group(
        tuple(episode(rng, task, i, n, reward) for i, (n, reward) in enumerate(zip(turns, rewards, strict=True)))
    )


GROUPS = {
    "unequal turn counts": group_of(1, "unequal", [1, 5, 3, 8], [0.0, 1.0, 0.0, 1.0]),
    "one turn": group_of(2, "one", [1, 1, 1, 1], [1.0, 0.0, 0.0, 0.5]),
    "zero variance": group_of(3, "flat", [2, 4, 1, 3], [1.0, 1.0, 1.0, 1.0]),
    "all failed": group_of(4, "lost", [3, 3, 2, 1], [0.0, 0.0, 0.0, 0.0]),
}


def windowed(group: Group) -> Group:
    """The same episodes with a windowed history: every turn has a prompt of its own, the tokens that it read."""
    members = []
    for member in group.trajectories:
        tokens = member.tokens
        assert tokens is not None
        spans = [slice(*span) for span in zip(tokens.turn_offsets[:-1], tokens.turn_offsets[1:], strict=True)]
        prompts = tuple(tokens.ids[span][~tokens.mask[span]] for span in spans)
        sampled = [int(tokens.mask[span].sum()) for span in spans]
        ids, logprobs = tokens.ids[tokens.mask], tokens.logprobs[tokens.mask]
        offsets = np.concatenate([[0], np.cumsum(sampled)]).astype(np.int32)
        members.append(replace(member, tokens=Tokens(ids, np.ones(len(ids), np.bool_), logprobs, offsets, prompts)))
    return Group(tuple(members))

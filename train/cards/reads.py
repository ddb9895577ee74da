"""What a scheme reads, found out by changing one field of random groups after another and comparing the credit.

So the list is that of the code, also for a scheme that somebody else registered. A field counts as read when some change of
it alone changes some credit; what a scheme reads only with other options than these does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["FIELDS", "fields_read", "with_fresh_keys"]

DRAWS: Final = 24
Change = Callable[[Trajectory, int, np.random.Generator], Trajectory]


def _turns(change: Callable[[Turn, np.random.Generator], Turn]) -> Change:
    """The change of every turn by itself."""

    def apply(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
        return replace(member, turns=tuple(change(turn, rng) for turn in member.turns))

    return apply


def _flipped(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
    """Success for failure, with the rewards and the score that it had."""
    if rng.random() < 0.5:
        return member
    return replace(member, success=not member.success, stop_reason="failed" if member.success else "success")


def _ended(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
    """Failure for truncation and the reverse."""
    if member.success or rng.random() < 0.5:
        return member
    return replace(member, stop_reason="env_limit" if member.stop_reason == "failed" else "failed")


def _fresh(member: Trajectory, index: int, _: np.random.Generator) -> Trajectory:
    """A key of its own for every state but the first."""
    keys = [member.turns[0].state_key, *(f"{index}.{t}" for t in range(1, len(member.turns) + 1))]
    turns = tuple(replace(turn, state_key=keys[t], next_state_key=keys[t + 1]) for t, turn in enumerate(member.turns))
    return replace(member, turns=turns, final_state_key=keys[-1])


def _recounted(member: Trajectory, _: int, rng: np.random.Generator) -> Trajectory:
    """Other numbers of tokens in each turn."""
    counts = rng.integers(1, 6, len(member.turns))
    total = int(counts.sum())
    values = member.tokens.values if member.tokens else {}
    tokens = Tokens(
        ids=np.arange(total, dtype=np.int32),
        mask=np.ones(total, np.bool_),
        logprobs=np.zeros(total, np.float32),
        turn_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        values={name: np.resize(numbers, total + 1) for name, numbers in values.items()},
    )
    return replace(member, tokens=tokens)


# what is read -> the change that shows it
FIELDS: Final[Mapping[str, Change]] = MappingProxyType(
    {
        "rewards of turns": _turns(lambda turn, rng: replace(turn, reward=turn.reward + float(rng.normal()))),
        "success flag": _flipped,
        "graded score": lambda member, _, rng: replace(member, score=float(rng.random())),
        "failed or truncated": _ended,
        "state keys": _fresh,
        "text keys": _turns(lambda turn, rng: replace(turn, text_key=f"text {rng.integers(3)}")),
        "actions": _turns(lambda turn, rng: replace(turn, action=f"a{rng.integers(3)}")),
        "parsed": _turns(lambda turn, rng: replace(turn, parsed=bool(rng.random() < 0.5))),
        "admissible": _turns(lambda turn, rng: replace(turn, admissible=bool(rng.random() < 0.5))),
        "effective": _turns(lambda turn, rng: replace(turn, effective=bool(rng.random() < 0.5))),
        "costs of transitions": _turns(lambda turn, rng: replace(turn, cost=float(rng.integers(1, 4)))),
        "thoughts": _turns(lambda turn, rng: replace(turn, thought=f"saw entity {rng.integers(4)}")),
        "observations": _turns(lambda turn, rng: replace(turn, observation=f"saw entity {rng.integers(4)}")),
        "queries": _turns(lambda turn, rng: replace(turn, queries=(f"word{rng.integers(12)}",))),
        "passages": _turns(lambda turn, rng: replace(turn, doc_ids=(f"d{rng.integers(4)}",))),
        "numbers of tokens": _recounted,
    }
)


def fields_read(scheme: Scheme, *, draws: int = DRAWS, seed: int = 0) -> tuple[str, ...]:
    """The names of ``FIELDS`` that the scheme reads with these parameters; annotations are in its ``needs``.

    Args:
        scheme: the scheme.
        draws: number of random groups that each field is changed in.
        seed: random seed of the groups.
    """
    found = []
    for name, change in FIELDS.items():
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            group = _group(scheme, rng)
            changed = Group(tuple(change(m, i, rng) for i, m in enumerate(group.trajectories)), group.task)
            if not _equal(scheme, group, changed):
                found.append(name)
                break
    return tuple(found)


def with_fresh_keys(group: Group) -> Group:
    """The group with a key of its own for every state but the first of each rollout."""
    rng = np.random.default_rng(0)  # not drawn from
    return Group(tuple(_fresh(m, i, rng) for i, m in enumerate(group.trajectories)), group.task)


def _group(scheme: Scheme, rng: np.random.Generator) -> Group:
    options: dict[str, Any] = {"dense": True, "unit_costs": False, "outcome": 0.5}
    return random_group(rng, values=scheme.needs, token_values=scheme.requires_tokens, **options)


def _equal(scheme: Scheme, a: Group, b: Group) -> bool:
    before, after = scheme.assign(a), scheme.assign(b)
    same = np.allclose(before.flat_advantages, after.flat_advantages, rtol=1e-9, atol=1e-12)
    return bool(same) and np.array_equal(before.flat_loss_mask, after.flat_loss_mask)

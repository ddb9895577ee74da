"""Random groups of rollouts, on which the promises of credit schemes are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["random_fork", "random_group"]


def random_group(
    rng: np.random.Generator,
    *,
    size: int | None = None,
    outcome: float | None = None,
    unit_costs: bool = True,
    dense: bool = False,
    values: Sequence[str] = (),
    token_values: Sequence[str] = (),
) -> Group:
    """Rollouts of a random walk on a small random graph, with texts that name entities of a random evidence graph.

    Args:
        rng: source of randomness.
        size: number of trajectories; default 2 to 6.
        outcome: probability of success of each; default drawn.
        unit_costs: all costs 1, else drawn from {1, 2, 3.5}.
        dense: every turn has a reward; else only a final 1 for success.
        values: annotations of the turns, functions of the state, in (0, 1) for names that begin with "value.", else in
            (−1, 0); with their ".next".
        token_values: annotations of tokens, which the trajectories then have.
    """
    n_states, n_actions = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    moves = rng.integers(0, n_states, (n_states, n_actions))
    price = np.ones((n_states, n_actions)) if unit_costs else rng.choice([1.0, 2.0, 3.5], (n_states, n_actions))
    chance = float(rng.random()) if outcome is None else outcome
    task = _random_task(rng)
    members = []
    for i in range(int(rng.integers(2, 7)) if size is None else size):
        state, turns = 0, []
        success = bool(rng.random() < chance)
        length = int(rng.integers(1, 8))
        for t in range(length):
            action, last = int(rng.integers(n_actions)), t == length - 1
            after = "goal" if last and success else f"s{moves[state, action]}"
            reward = float(success and last) + (float(rng.choice([-0.1, 0.0, 0.5])) if dense else 0.0)
            turns.append(
                Turn(
                    f"s{state}", f"a{action}", after, reward=reward, parsed=bool(rng.random() > 0.1),
                    effective=after != f"s{state}", cost=float(price[state, action]), observation=_text(rng, task),
                    thought=_text(rng, task), text_key=_seen(f"s{state}", t), **_retrieval(rng, task),
                )
            )  # fmt: skip
            state = int(moves[state, action])
        reason: StopReason = "success" if success else ("failed", "env_limit")[int(rng.integers(2))]
        members.append(
            Trajectory(
                f"t{i}", "g", "task", tuple(turns), success, float(success), reason, turns[-1].next_state_key,
                final_text_key=_seen(turns[-1].next_state_key, length),
            )
        )  # fmt: skip
    if values or token_values:
        members = _annotated(members, values, token_values, np.random.default_rng(int(rng.integers(2**63))))
    return Group(tuple(members), task)


def _seen(state: str, t: int) -> str:
    """What a text method sees of a state: most of it alike everywhere, and a line that depends on the time."""
    hint = ("", " A bell rings.", " It is getting late.")[t % 3]
    return f"You stand in a hall of a large house. There are doors on both sides. This is place {state}.{hint}"


def _annotated(
    members: Sequence[Trajectory], values: Sequence[str], token_values: Sequence[str], rng: np.random.Generator
) -> list[Trajectory]:
    keys = sorted({key for m in members for turn in m.turns for key in (turn.state_key, turn.next_state_key)})
    of = {name: dict(zip(keys, (_sign(name) * rng.random(len(keys))).tolist(), strict=True)) for name in values}
    out = []
    for m in members:
        turns = tuple(
            replace(
                turn,
                values={name: table[turn.state_key] for name, table in of.items()}
                | {f"{name}.next": table[turn.next_state_key] for name, table in of.items()},
            )
            for turn in m.turns
        )
        out.append(replace(m, turns=turns, tokens=_tokens(len(turns), token_values, rng) if token_values else None))
    return out


def _sign(name: str) -> float:
    return 1.0 if name.startswith("value.") else -1.0


def _tokens(turns: int, names: Sequence[str], rng: np.random.Generator) -> Tokens:
    """Tokens of an episode: one to three that are read, one to three that are written, in every turn."""
    read, wrote = rng.integers(1, 4, turns), rng.integers(1, 4, turns)
    mask = np.repeat(np.tile([False, True], turns), np.stack([read, wrote], 1).reshape(-1))
    numbers = {name: rng.random(len(mask) + 1).astype(np.float32) for name in names}
    return Tokens(
        ids=np.arange(len(mask), dtype=np.int32),
        mask=mask,
        logprobs=np.zeros(len(mask), np.float32),
        turn_offsets=np.concatenate([[0], np.cumsum(read + wrote)]).astype(np.int32),
        values=numbers,
    )


def _random_task(rng: np.random.Generator) -> dict[str, Any]:
    """The payload of a search task: 1 to 5 entities, some related, one of them the answer."""
    names = [f"entity {i}" for i in range(int(rng.integers(1, 6)))]
    pairs = rng.integers(0, len(names), (int(rng.integers(0, 7)), 2)).tolist()
    return {
        "entities": names,
        "edges": [[names[a], "to", names[b]] for a, b in pairs],
        "answer_node": names[int(rng.integers(len(names)))],
        "answers": ["entity 0"],
        "text": "which entity?",
        "steps": [{"question": "which entity is #2?", "answer": names[0]}, {"question": "where?", "answer": names[-1]}],
        "supporting": ["d0", "d1"],
        "documents": {f"d{i}": {"title": f"document {i}", "text": _words(rng)} for i in range(4)},
    }


def _words(rng: np.random.Generator) -> str:
    return " ".join(f"word{i}" for i in rng.integers(0, 12, 8).tolist())


def _retrieval(rng: np.random.Generator, task: Mapping[str, Any]) -> dict[str, Any]:
    """A search and what it found; every third turn did neither."""
    if rng.random() < 0.33:
        return {}
    found = rng.permutation(sorted(task["documents"]))[: int(rng.integers(0, 3))]
    return {"queries": (_text(rng, task),), "doc_ids": tuple(map(str, found))}


def _text(rng: np.random.Generator, task: Mapping[str, Any]) -> str:
    """A text that names some of the entities."""
    return "saw " + ", ".join(name for name in task["entities"] if rng.random() < 0.4)


def random_fork(rng: np.random.Generator, group: Group) -> tuple[Group, Group]:
    """The group with one rollout more, which leaves another in mid-episode: stored as a branch, and as a whole episode.

    Args:
        rng: source of randomness.
        group: of ``random_group``.

    Returns:
        both groups; the new rollout is their last member.
    """
    parent, other = (group.trajectories[i] for i in rng.integers(len(group), size=2).tolist())
    meetings = [
        (fork, start)
        for fork, left in enumerate(parent.turns)
        for start, taken in enumerate(other.turns)
        if (left.state_key, left.text_key) == (taken.state_key, taken.text_key)
    ]  # at least the first turns: all begin in one state
    fork, start = meetings[int(rng.integers(len(meetings)))]
    told = read = None
    if parent.tokens is not None and other.tokens is not None:
        told = _joined(parent.tokens, fork, other.tokens, start)
        wrote = told.mask & (np.arange(len(told.ids)) >= told.turn_offsets[fork])  # a branch reads its parent's tokens
        read = replace(told, mask=wrote, turn_offsets=told.turn_offsets[fork:])
    own = replace(other, trajectory_id="fork", turns=other.turns[start:], tokens=read)
    whole = replace(own, turns=parent.turns[:fork] + own.turns, tokens=told)
    branch = replace(own, parent=parent.trajectory_id, fork_turn=fork)
    return Group((*group.trajectories, branch), group.task), Group((*group.trajectories, whole), group.task)


def _joined(before: Tokens, fork: int, after: Tokens, start: int) -> Tokens:
    """The tokens of the first ``fork`` turns of one episode, and of another's from turn ``start`` on."""
    a, b = int(before.turn_offsets[fork]), int(after.turn_offsets[start])
    return Tokens(
        ids=np.concatenate([before.ids[:a], after.ids[b:]]),
        mask=np.concatenate([before.mask[:a], after.mask[b:]]),
        logprobs=np.concatenate([before.logprobs[:a], after.logprobs[b:]]),
        turn_offsets=np.concatenate([before.turn_offsets[:fork], after.turn_offsets[start:] - b + a]),
        values={name: np.concatenate([x[:a], after.values[name][b:]]) for name, x in before.values.items()},
    )

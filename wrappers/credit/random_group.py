"""Random groups, on which ``check_credit`` tests the properties of schemes."""

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
    """A group of random walks on a small random state graph, with texts that mention entities of a random entity graph.

    Args:
        rng: source of randomness.
        size: number of trajectories, by default 2 to 6.
        outcome: probability of success of each trajectory, by default sampled.
        unit_costs: all costs are 1, otherwise they are sampled from {1, 2, 3.5}.
        dense: every turn has a reward. Otherwise only the last turn of a success has one, which is 1.
        values: annotations of turns, functions of the state: in (0, 1) for names that begin with "value.",
            otherwise in (−1, 0). Each has its ".next".
        token_values: annotations of tokens. If there are any, the trajectories have tokens.
    """
    n_states, n_actions = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    moves = rng.integers(0, n_states, (n_states, n_actions))
    costs = np.ones((n_states, n_actions)) if unit_costs else rng.choice([1.0, 2.0, 3.5], (n_states, n_actions))
    success_rate = float(rng.random()) if outcome is None else outcome
    task = _random_task(rng)
    members = []
    for i in range(int(rng.integers(2, 7)) if size is None else size):
        state, turns = 0, []
        success = bool(rng.random() < success_rate)
        length = int(rng.integers(1, 8))
        for t in range(length):
            action, last = int(rng.integers(n_actions)), t == length - 1
            after = "goal" if last and success else f"s{moves[state, action]}"
            reward = float(success and last) + (float(rng.choice([-0.1, 0.0, 0.5])) if dense else 0.0)
            turns.append(
                Turn(
                    f"s{state}",
                    f"a{action}",
                    after,
                    reward=reward,
                    parsed=bool(rng.random() > 0.1),
                    effective=after != f"s{state}",
                    cost=float(costs[state, action]),
                    observation=_text(rng, task),
                    thought=_text(rng, task),
                    text_key=_text_key(f"s{state}", t),
                    **_retrieval(rng, task),
                )
            )
            state = int(moves[state, action])
        reason: StopReason = "success" if success else ("failed", "env_limit")[int(rng.integers(2))]
        members.append(
            Trajectory(
                f"t{i}",
                "g",
                "task",
                tuple(turns),
                success,
                float(success),
                reason,
                turns[-1].next_state_key,
                final_text_key=_text_key(turns[-1].next_state_key, length),
            )
        )
    if values or token_values:
        members = _annotated(members, values, token_values, np.random.default_rng(int(rng.integers(2**63))))
    return Group(tuple(members), task)


def _text_key(state: str, t: int) -> str:
    """Text key of a state: mostly the same everywhere, with a line that depends on the turn."""
    hint = ("", " A bell rings.", " It is getting late.")[t % 3]
    return f"You stand in a hall of a large house. There are doors on both sides. This is place {state}.{hint}"


def _annotated(
    members: Sequence[Trajectory], values: Sequence[str], token_values: Sequence[str], rng: np.random.Generator
) -> list[Trajectory]:
    keys = sorted({key for m in members for turn in m.turns for key in (turn.state_key, turn.next_state_key)})
    of = {name: dict(zip(keys, (_sign(name) * rng.random(len(keys))).tolist(), strict=True)) for name in values}
    out = []
    for m in members:
        turns = tuple(replace(turn, values=_values(of, turn)) for turn in m.turns)
        out.append(replace(m, turns=turns, tokens=_tokens(len(turns), token_values, rng) if token_values else None))
    return out


def _values(tables: Mapping[str, Mapping[str, float]], turn: Turn) -> dict[str, float]:
    values = {name: table[turn.state_key] for name, table in tables.items()}
    return values | {f"{name}.next": table[turn.next_state_key] for name, table in tables.items()}


def _sign(name: str) -> float:
    return 1.0 if name.startswith(("value.", "milestone")) else -1.0


def _tokens(turns: int, names: Sequence[str], rng: np.random.Generator) -> Tokens:
    """Tokens of an episode: in every turn one to three observation tokens and one to three model tokens."""
    observed, sampled = rng.integers(1, 4, turns), rng.integers(1, 4, turns)
    mask = np.repeat(np.tile([False, True], turns), np.stack([observed, sampled], 1).reshape(-1))
    numbers = {name: rng.random(len(mask) + 1).astype(np.float32) for name in names}
    return Tokens(
        ids=np.arange(len(mask), dtype=np.int32),
        mask=mask,
        logprobs=np.zeros(len(mask), np.float32),
        turn_offsets=np.concatenate([[0], np.cumsum(observed + sampled)]).astype(np.int32),
        values=numbers,
    )


def _random_task(rng: np.random.Generator) -> dict[str, Any]:
    """Payload of a search task: 1 to 5 entities, some of them related, one of them the answer."""
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
    """A query with the passages retrieved. Every third turn has neither."""
    if rng.random() < 0.33:
        return {}
    passages = rng.permutation(sorted(task["documents"]))[: int(rng.integers(0, 3))]
    return {"queries": (_text(rng, task),), "doc_ids": tuple(map(str, passages))}


def _text(rng: np.random.Generator, task: Mapping[str, Any]) -> str:
    """A text that mentions some of the entities."""
    return "saw " + ", ".join(name for name in task["entities"] if rng.random() < 0.4)


def random_fork(rng: np.random.Generator, group: Group) -> tuple[Group, Group]:
    """Add a trajectory that forks from another one, stored once as a branch and once as a full episode.

    Args:
        rng: source of randomness.
        group: a group made by ``random_group``.

    Returns:
        Both groups. The new trajectory is the last of each.
    """
    parent, donor = (group.trajectories[i] for i in rng.integers(len(group), size=2).tolist())
    meetings = [
        (fork, start)
        for fork, ours in enumerate(parent.turns)
        for start, theirs in enumerate(donor.turns)
        if (ours.state_key, ours.text_key) == (theirs.state_key, theirs.text_key)
    ]  # at least the first turns: all begin in the same state
    fork, start = meetings[int(rng.integers(len(meetings)))]
    full_tokens = branch_tokens = None
    if parent.tokens is not None and donor.tokens is not None:
        full_tokens = _joined(parent.tokens, fork, donor.tokens, start)
        # the branch's own tokens alone are in its loss
        of_branch = full_tokens.mask & (np.arange(len(full_tokens.ids)) >= full_tokens.turn_offsets[fork])
        branch_tokens = replace(full_tokens, mask=of_branch, turn_offsets=full_tokens.turn_offsets[fork:])
    suffix = replace(donor, trajectory_id="fork", turns=donor.turns[start:], tokens=branch_tokens)
    full = replace(suffix, turns=parent.turns[:fork] + suffix.turns, tokens=full_tokens)
    branch = replace(suffix, parent=parent.trajectory_id, fork_turn=fork)
    return Group((*group.trajectories, branch), group.task), Group((*group.trajectories, full), group.task)


def _joined(before: Tokens, fork: int, after: Tokens, start: int) -> Tokens:
    """Join the tokens of the first ``fork`` turns of one episode and those of another from turn ``start`` on."""
    a, b = int(before.turn_offsets[fork]), int(after.turn_offsets[start])
    return Tokens(
        ids=np.concatenate([before.ids[:a], after.ids[b:]]),
        mask=np.concatenate([before.mask[:a], after.mask[b:]]),
        logprobs=np.concatenate([before.logprobs[:a], after.logprobs[b:]]),
        turn_offsets=np.concatenate([before.turn_offsets[:fork], after.turn_offsets[start:] - b + a]),
        values={name: np.concatenate([x[:a], after.values[name][b:]]) for name, x in before.values.items()},
    )

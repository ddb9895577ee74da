"""Hypothesis strategies: rollouts of one task, with every kind of end, empty ones, ties, loops and invalid turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

SPARSE = st.just(0.0)
DENSE = st.sampled_from([0.0, -0.1, 0.5, 1.0])
WILD = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6))
UNIT = st.just(1.0)
COSTS = st.sampled_from([0.5, 1.0, 2.0, 3.5])
ENDS: tuple[StopReason, ...] = ("success", "failed", "env_limit", "token_limit", "tool_limit", "format", "env_error")


@st.composite
def groups(
    draw: st.DrawFn,
    *,
    min_size: int = 1,
    max_size: int = 6,
    max_turns: int = 6,
    min_turns: int = 0,
    rewards: st.SearchStrategy[float] = DENSE,
    costs: st.SearchStrategy[float] = UNIT,
    ends: tuple[StopReason, ...] = ENDS,
    invalid: bool = True,
) -> Group:
    """A group of random walks on a small deterministic world; a success adds 1 to the reward of its last turn.

    Args:
        draw: of Hypothesis.
        min_size, max_size: number of trajectories.
        min_turns, max_turns: of each.
        rewards: of a turn, apart from the success.
        costs: of a (state, action).
        ends: stop reasons to choose from.
        invalid: whether turns may be unparsed or inadmissible.
    """
    n_states, n_actions = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    moves = draw(st.lists(st.integers(0, n_states - 1), min_size=n_states * n_actions, max_size=n_states * n_actions))
    prices = draw(st.lists(costs, min_size=n_states * n_actions, max_size=n_states * n_actions))
    members = []
    for i in range(draw(st.integers(min_size, max_size))):
        end = draw(st.sampled_from(ends))
        chosen = draw(st.lists(st.integers(0, n_actions - 1), min_size=min_turns, max_size=max_turns))
        state, turns = 0, []
        for t, action in enumerate(chosen):
            last, number = t == len(chosen) - 1, state * n_actions + action
            after = "done" if last and end == "success" else f"s{moves[number]}"
            turns.append(
                Turn(
                    f"s{state}",
                    f"a{action}",
                    after,
                    reward=draw(rewards) + float(last and end == "success"),
                    parsed=not invalid or draw(st.integers(0, 5)) > 0,
                    admissible=not invalid or draw(st.integers(0, 5)) > 0,
                    effective=after != f"s{state}",
                    cost=prices[number],
                    text_key=f"text of s{state}",
                )
            )
            state = moves[number]
        final = turns[-1].next_state_key if turns else "s0"
        success = end == "success"
        members.append(
            Trajectory(
                f"t{i}", "g", "task", tuple(turns), success, float(success), end, final, final_text_key=f"text of {final}"
            )
        )  # fmt: skip
    return Group(tuple(members))


def renamed(group: Group) -> Group:
    """The group with every state and action renamed."""

    def other(turn: Turn) -> Turn:
        return replace(
            turn,
            state_key=f"<{turn.state_key}>",
            next_state_key=f"<{turn.next_state_key}>",
            action=f"<{turn.action}>",
            text_key=f"<{turn.text_key}>",
        )

    return Group(
        tuple(
            replace(
                m,
                turns=tuple(map(other, m.turns)),
                final_state_key=f"<{m.final_state_key}>",
                final_text_key=f"<{m.final_text_key}>",
            )
            for m in group.trajectories
        )
    )


def permuted(group: Group, seed: int) -> tuple[Group, list[int]]:
    """The group in another order, and the order."""
    order = np.random.default_rng(seed).permutation(len(group)).tolist()
    return Group(tuple(group.trajectories[i] for i in order)), order

"""Tasks in which a state has a history, or a turn begins with a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP, explore

__all__ = ["with_history", "with_plans"]

State = tuple[int, tuple[int, ...]]  # of a task, and the last actions


def with_history(mdp: FiniteMDP, window: int) -> tuple[FiniteMDP, list[State]]:
    """A deterministic task in which a state is a state of ``mdp`` and the last ``window`` actions; its keys are those of ``mdp``.

    Returns:
        The task, and for each of its acting states the state of ``mdp`` and the last actions, oldest first.

    Raises:
        OracleLimitError: too many states.
    """
    states = list[State]()

    def result(state: State, action: int) -> tuple[State, float | None, bool]:
        after = int(mdp.next_states[state[0], action, 0])
        if after < mdp.size:
            return (after, (*state[1], action)[-window:]), None, False
        return (after, ()), float(mdp.terminal_score[after - mdp.size]), bool(mdp.terminal_success[after - mdp.size])

    def keys(state: State) -> tuple[str, str]:
        states.append(state)  # in the order of the states
        return mdp.keys[state[0]], mdp.text_keys[state[0]]

    start: State = mdp.start, ()
    expanded = explore(
        start, mdp.actions, result, keys, name=mdp.name, horizon=mdp.horizon, cap=MAX_TABLE_STATES,
        limit_score=lambda state: float(mdp.limit_score[state[0]]),
    )  # fmt: skip
    return replace(expanded, invalid=mdp.invalid), states[: expanded.size]


def with_plans(mdp: FiniteMDP, length: int) -> FiniteMDP:
    """The task in which ``length`` of the moves are written before each action, which alone has an effect.

    Moves are all actions but the last one, the invalid action. Action a after the plan p, q, … has the number (p, q, …, a) in base
    ``moves``, and the text of a.
    """
    moves = len(mdp.actions) - 1
    acted = np.append(np.tile(np.arange(moves), moves**length), moves)
    return replace(
        mdp,
        actions=tuple(mdp.actions[action] for action in acted.tolist()),
        next_states=mdp.next_states[:, acted],
        transition_probs=mdp.transition_probs[:, acted],
    )

"""A task as a table for a language model: its states with the prompts that the agent would build there.

Two snapshots are one state only if state key, observation and prompt agree, so a policy that reads
prompts is a table over these states. The last action of a table is the *invalid action*: every completion from which the
environment cannot parse an action. ``AgentEnv`` treats all of these alike (the turn counts, the state stays), so one action
represents them all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, OracleLimitError, short_repr
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import Task
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP, explore
from creditflow.train.bench.exact.tasks import DIRECTIONS, sokoban_boards
from creditflow.wrappers.invalid_actions import Policy
from creditflow.wrappers.records.trajectory import Turn

__all__ = [
    "INVALID_ACTION",
    "Prompt",
    "PromptTable",
    "Result",
    "StateEnumeration",
    "StateIdentity",
    "Visit",
    "check_prompting",
    "enumerated_table",
    "prompt_table",
    "with_action",
]

INVALID_ACTION: Final = "(invalid action)"
TURN: Final = Turn("", "", "")  # prompts without a history show only the number of turns so far
UNUSED: Final = np.random.default_rng(0)  # building a prompt uses no randomness


@dataclass(frozen=True)
class PromptTable:
    """A task as tables, with a prompt for every acting state.

    Attributes:
        mdp: S acting states, A actions; the last is the invalid action. ``mdp.invalid`` is its index, or None where schemes
            are not told that it is invalid.
        prompts: S prompts, int32 ids each.
    """

    mdp: FiniteMDP
    prompts: tuple[NDArray[np.int32], ...]

    @property
    def actions(self) -> tuple[str, ...]:
        """The texts of the actions, without the invalid one."""
        return self.mdp.actions[:-1]


def check_prompting(agent: LanguageModelAgent, env: AgentEnv[Any, Any, Any], invalid_actions: Policy = "keep") -> None:
    """Check that the agent's prompts make a finite table of the environment.

    Raises:
        ConfigError: they do not; the message says what to change.
    """
    mine = agent.conversations
    if (moves := getattr(env, "moves_per_turn", 1)) > 1:
        raise ConfigError(
            f"{env.env_name} with moves_per_turn={moves} cannot be tabulated: an action may be any sequence of moves; evaluate with "
            "moves_per_turn=1, or by sampled episodes (without --exact)"
        )
    if not env.lists_all_actions:
        raise ConfigError(
            f"{env.env_name} cannot be tabulated: some of its actions are free text, so its states cannot be listed; "
            "evaluate by sampled episodes (without --exact)"
        )
    if env.spec is not None and env.spec.nondeterministic:
        raise ConfigError(
            f"{env.env_name} is stochastic, so it cannot be tabulated from snapshots; evaluate by sampled episodes "
            "(without --exact)"
        )
    if mine.prompt.shows_pictures:
        raise ConfigError(
            f"exact evaluation reads prompts of text, and {mine.prompt.name!r} shows pictures; evaluate by sampled episodes "
            "(without --exact)"
        )
    if mine.history != "window":
        raise ConfigError(
            "exact evaluation needs prompts that are a function of the state, but this model's prompts append every "
            "earlier turn (history: append); train with prompting.history: window and prompting.window: 0"
        )
    messages = mine.prompt.system + mine.prompt.windowed
    if "{history}" in messages and mine.window:
        raise ConfigError(
            f"exact evaluation needs prompts that are a function of the state, but {mine.prompt.name!r} repeats the last "
            f"{mine.window} turns with their actions as written; train with prompting.window: 0"
        )
    if "{refused}" in messages and invalid_actions != "terminate":
        raise ConfigError(
            f"exact evaluation needs prompts that are a function of the state, but {mine.prompt.name!r} quotes rejected "
            "actions, which may be any text; use a prompt without {refused}, such as 'terse-v1' or 'places-v1'"
        )
    if invalid_actions == "retry":
        raise ConfigError(
            "invalid_actions='retry' undoes invalid turns, which a table of turns cannot represent; use 'keep', 'penalise' "
            "or 'terminate'"
        )


def prompt_table(
    agent: LanguageModelAgent,
    env: AgentEnv[Any, Any, Any],
    task: Task,
    *,
    invalid_actions: Policy = "keep",
    max_states: int = MAX_TABLE_STATES,
) -> PromptTable:
    """Tabulate a task: from the environment's rules for Sokoban, else from snapshots.

    Args:
        agent: builds the prompts, with its own code.
        env: environment of the task; it is reset.
        task: task to tabulate.
        invalid_actions: what an invalid action does, as in ``InvalidActions``.
        max_states: maximum number of acting states.

    Raises:
        ConfigError: prompts or environment do not make a finite table.
        OracleLimitError: more than ``max_states`` states.
    """
    check_prompting(agent, env, invalid_actions)
    mine = agent.conversations
    if mine.prompt.first != mine.prompt.windowed or "{step}" in mine.prompt.system + mine.prompt.windowed:
        return enumerated_table(agent, env, task, invalid_actions=invalid_actions, max_states=max_states)
    _, info = env.reset(options={"task": dict(task.content)})
    table = table_from_rules(env, max_states)
    if table is None:
        return enumerated_table(agent, env, task, invalid_actions=invalid_actions, max_states=max_states)
    mdp, observations = table
    prompts = tuple(_prompt(agent, env, observation, info, 0) for observation in observations)
    return PromptTable(_with_invalid(replace(mdp, name=task.task_id), invalid_actions), prompts)


def enumerated_table(
    agent: LanguageModelAgent,
    env: AgentEnv[Any, Any, Any],
    task: Task,
    *,
    invalid_actions: Policy = "keep",
    max_states: int = MAX_TABLE_STATES,
) -> PromptTable:
    """Tabulate a task of any deterministic environment from snapshots: the general, slow case of ``prompt_table``.

    Raises:
        ConfigError: prompts or environment do not make a finite table.
        OracleLimitError: more than ``max_states`` states.
    """
    check_prompting(agent, env, invalid_actions)
    states = StateEnumeration(
        env, task, partial(_prompt, agent, env), invalid_ends=invalid_actions == "terminate", max_states=max_states
    )
    visited, results = states.found, states.results
    listed = tuple(dict.fromkeys(action for row in results.values() for action in row if action))
    order = list[StateIdentity]()

    def result(name: StateIdentity, action: int) -> Result:
        row = results[name]
        return row.get(listed[action], row[""]) if action < len(listed) else row[""]

    def keys(name: StateIdentity) -> tuple[str, str]:
        order.append(name)  # in the order of the states
        return name.state_key, visited[name].info["text_key"]

    mdp = explore(
        states.start,
        (*listed, INVALID_ACTION),
        result,
        keys,
        name=task.task_id,
        horizon=env.max_steps,
        cap=max_states,
        limit_score=lambda name: float(visited[name].info["score"]),
    )
    acting = order[: mdp.size]
    admissible = np.zeros((len(acting), len(mdp.actions)), np.bool_)
    for row, name in enumerate(acting):
        admissible[row] = [action in results.get(name, ()) for action in mdp.actions]
    mdp = replace(mdp, invalid=len(listed), admissible=admissible)
    return PromptTable(mdp, tuple(visited[name].prompt for name in acting))


def _prompt(
    agent: LanguageModelAgent, env: AgentEnv[Any, Any, Any], observation: Any, info: dict[str, Any], turns: int
) -> NDArray[np.int32]:
    """The prompt that the agent builds after ``turns`` turns.

    Raises:
        ConfigError: the prompt leaves no room for a completion.
    """
    ids = agent.conversations.build_prompt(View(observation, info, (TURN,) * turns, env, UNUSED)).ids
    room = agent.max_context - agent.sampling.max_new_tokens
    if agent.max_context and len(ids) > room:
        raise ConfigError(
            f"a prompt of {len(ids)} tokens does not fit: of max_context {agent.max_context}, {room} tokens are left for the "
            "prompt; raise max_context or lower max_new_tokens"
        )
    return ids


def with_action(mdp: FiniteMDP, action: str, after: NDArray[np.int32]) -> FiniteMDP:
    """Add a last action that leads from each acting state to the state in ``after``, int32 (S,), with certainty."""
    shape = (mdp.size, 1, mdp.next_states.shape[2])
    certain = np.zeros(shape)
    certain[:, :, 0] = 1.0
    return replace(
        mdp,
        actions=(*mdp.actions, action),
        next_states=np.concatenate([mdp.next_states, np.broadcast_to(after[:, None, None], shape)], axis=1),
        transition_probs=np.concatenate([mdp.transition_probs, certain], axis=1),
    )


def _with_invalid(mdp: FiniteMDP, invalid_actions: Policy) -> FiniteMDP:
    """Add the invalid action to a task: the state stays, or the episode ends with the score of its state."""
    acting = np.arange(mdp.size, dtype=np.int32)
    scores = np.zeros(0)
    if invalid_actions == "terminate":
        scores, score_index = np.unique(mdp.limit_score, return_inverse=True)
        acting = (len(mdp.keys) + score_index).astype(np.int32)
    ends = tuple(f"{mdp.name}:format:{score}" for score in scores.tolist())
    return replace(
        with_action(mdp, INVALID_ACTION, acting),
        keys=(*mdp.keys, *ends),
        text_keys=(*mdp.text_keys, *ends),
        terminal_score=np.concatenate([mdp.terminal_score, scores]),
        terminal_success=np.concatenate([mdp.terminal_success, np.zeros(len(scores), np.bool_)]),
        invalid=len(mdp.actions),
    )


def table_from_rules(env: AgentEnv[Any, Any, Any], max_states: int) -> tuple[FiniteMDP, Iterator[Any]] | None:
    """The environment's present task as a table, and the observation of each acting state.

    Returns:
        None for other environments, which are tabulated by snapshots.

    Raises:
        OracleLimitError: more than ``max_states`` states.
    """
    if isinstance(env, SokobanEnv) and env.action_space == TextSpace(DIRECTIONS):
        level = parse_level(str(env.task.content["xsb"]))
        mdp, boards = sokoban_boards(level, env.max_steps, cap=max_states)
        return mdp, (env.observe_board(board, level.width) for board in boards[: mdp.size])
    return None


Prompt = Callable[[Any, dict[str, Any], int], NDArray[np.int32]]


class StateIdentity(NamedTuple):
    """What a state is to a policy that reads prompts; snapshots that agree in all of it are one state.

    Attributes:
        state_key: state key of the environment.
        observation: text of the observation; "" if it is none.
        memory: the environment's ``observation_memory``, on which later observations depend.
        prompt: bytes of the prompt's token ids.
        end: "" for an acting state; "task" or "format", the reason why the episode ended.
    """

    state_key: str
    observation: str
    memory: str
    prompt: bytes
    end: str


Result = tuple[StateIdentity, float | None, bool]


class Visit(NamedTuple):
    """The first visit of a state, with the fewest turns: snapshot, info, and prompt."""

    snapshot: str
    info: dict[str, Any]
    prompt: NDArray[np.int32]


class StateEnumeration:
    """All states that can be reached within the turn limit, and the results of admissible actions and of the invalid one, "", in each.

    Args:
        env: plays the task; it is reset.
        task: task to enumerate.
        prompt: the prompt for an observation and its info after a number of turns.
        invalid_ends: whether the invalid action ends the episode.
        max_states: maximum number of acting states.

    Raises:
        ConfigError: the environment does not accept its own actions as texts.
        OracleLimitError: more than ``max_states`` states.

    Attributes:
        start: the initial state.
        found: how each state was first reached.
        results: the result of each action by state; missing for states that are reached in the last turn.
    """

    def __init__(
        self, env: AgentEnv[Any, Any, Any], task: Task, prompt: Prompt, *, invalid_ends: bool, max_states: int
    ) -> None:
        self.env, self.prompt, self.invalid_ends = env, prompt, invalid_ends
        self.found: dict[StateIdentity, Visit] = {}
        self.results: dict[StateIdentity, dict[str, Result]] = {}
        self.start = self._visit(*env.reset(options={"task": dict(task.content)}), 0)
        depths = {self.start: 0}
        queue = deque([self.start])
        while queue:
            name = queue.popleft()
            if depths[name] >= env.max_steps:
                continue
            row = {action: self._step(name, action, depths[name]) for action in self._actions(name)}
            self.results[name] = row
            for after, score, _ in row.values():
                if score is None and after not in depths:
                    depths[after] = depths[name] + 1
                    queue.append(after)
            if len(depths) > max_states:
                raise OracleLimitError(
                    f"task {task.task_id}: more than {max_states} states can be reached; raise the limit (--max-states)"
                )

    def _actions(self, name: StateIdentity) -> tuple[str, ...]:
        return (*self.found[name].info["admissible_actions"], "")

    def _step(self, name: StateIdentity, action: str, turns: int) -> Result:
        env = self.env
        env.set_state(self.found[name].snapshot)
        observation, _, terminated, _, info = env.step(action)
        if info["action_valid"] == (action == ""):
            raise ConfigError(
                f"{env.env_name} {'rejects its own action' if action else 'accepts'} {short_repr(action)} as a text; construct "
                "it with text actions"
            )
        if not action and self.invalid_ends:
            return self._visit(observation, info, turns + 1, "format"), float(info["score"]), False
        after = self._visit(observation, info, turns + 1, "task" if terminated else "")
        return after, float(info["score"]) if terminated else None, bool(info["success"])

    def _visit(self, observation: Any, info: dict[str, Any], turns: int, end: str = "") -> StateIdentity:
        if end:
            name = StateIdentity(info["state_key"], "", "", b"", end)
            self.found.setdefault(name, Visit("", info, np.zeros(0, np.int32)))
            return name
        prompt = self.prompt(observation, info, turns)
        text = observation if isinstance(observation, str) else ""
        name = StateIdentity(info["state_key"], text, self.env.observation_memory, prompt.tobytes(), "")
        if name not in self.found:
            self.found[name] = Visit(self.env.get_state(), info, prompt)
        return name

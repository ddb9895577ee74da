"""All states of one task, enumerated through snapshots of any deterministic environment."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, OracleLimitError, short_repr
from creditflow.envs.tasks import Task
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = ["BuiltPrompt", "Prompt", "Result", "StateEnumeration", "StateIdentity", "Visit"]


class BuiltPrompt(NamedTuple):
    """The prompt in a state: int32 (L,) token ids, and the pictures in them, in order."""

    ids: NDArray[np.int32]
    pictures: tuple[EncodedPicture, ...] = ()

    @property
    def content(self) -> bytes:
        """Bytes that are equal for equal prompts only."""
        return self.ids.tobytes() + "".join(picture.name for picture in self.pictures).encode("ascii")


Prompt = Callable[[Any, dict[str, Any], int], BuiltPrompt]


class StateIdentity(NamedTuple):
    """What a state is to a policy that reads prompts; snapshots that agree in all of it are one state.

    Attributes:
        state_key: state key of the environment.
        observation: text of the observation; "" if it is none.
        memory: the environment's ``observation_memory``, on which later observations depend.
        prompt: bytes of the prompt's token ids and of its pictures' names.
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
    prompt: BuiltPrompt


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
            self.found.setdefault(name, Visit("", info, BuiltPrompt(np.zeros(0, np.int32))))
            return name
        prompt = self.prompt(observation, info, turns)
        text = observation if isinstance(observation, str) else ""
        name = StateIdentity(info["state_key"], text, self.env.observation_memory, prompt.content, "")
        if name not in self.found:
            self.found[name] = Visit(self.env.get_state(), info, prompt)
        return name

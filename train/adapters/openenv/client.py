"""The types of the protocol, which ``GET /schema`` publishes, and ``PlayClient``: OpenEnv's client with these types."""

from __future__ import annotations

from typing import Any, Final

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

__all__ = ["MAX_ACTION", "FullObservation", "PlayAction", "PlayClient", "PlayState", "TextObservation"]


MAX_ACTION: Final = 65_536  # characters of an action, which may be a whole completion


class PlayAction(Action):
    """One action. Only ``action`` is required, so that clients that send a model's plain reply know where it goes."""

    action: str = Field(
        max_length=MAX_ACTION,
        description="text of the action, such as an entry of admissible_actions; what cannot be parsed or is not "
        "admissible costs a step and changes nothing",
    )


class TextObservation(Observation):
    """What a policy may see, and nothing else: for clients that put a whole observation into the prompt."""

    text: str = Field(description="observation of the environment")
    invalid_reason: str = Field(default="", description="why the last action was rejected; empty if it was not")


class FullObservation(TextObservation):
    """What a trainer needs as well. ``text`` is for the policy, everything else for the trainer's records."""

    task_id: str = Field(description="content hash of the task; episodes of one task form a group")
    state_key: str = Field(
        description="canonical key of the state: equal keys if and only if the futures are equal up to the step limit"
    )
    text_key: str = Field(description="the state as a text-only method sees it")
    admissible_actions: list[str] = Field(
        description="texts of admissible actions; empty after the end, and where the list would reveal the answer"
    )
    lists_all_actions: bool = Field(description="whether that list is complete")
    action_valid: bool = Field(description="whether the last action was parsed and admissible")
    action_effective: bool = Field(description="whether the last action changed the state")
    success: bool = Field(description="whether the task is solved")
    score: float = Field(description="graded outcome, in [0, 1]")
    elapsed_steps: int = Field(description="environment steps since the start, rejected ones included")
    terminated: bool = Field(description="whether the task is over")
    truncated: bool = Field(description="whether the step limit cut the episode")
    raw_reward: float = Field(description="reward of the environment, without shaping")
    shaping: float = Field(default=0.0, description="potential difference that was added to the reward")
    extra: dict[str, Any] = Field(default_factory=dict, description="values of this environment alone")


class PlayState(State):
    """State of a session, which ``state`` returns: for the trainer. ``step_count`` counts environment steps."""

    task_id: str = Field(default="", description="content hash of the task; empty before the first reset")
    state_key: str = Field(default="", description="canonical key of the state")
    success: bool = Field(default=False, description="whether the task is solved")
    score: float = Field(default=0.0, description="graded outcome so far, in [0, 1]")
    done: bool = Field(default=True, description="whether no episode is running")
    snapshot: str = Field(
        default="",
        description="JSON text from which reset(injected_state=…) continues, in any session of a server of this environment",
    )


class PlayClient(EnvClient[PlayAction, TextObservation, PlayState]):
    """Client of a server of ``creditflow serve-env``: ``PlayClient(base_url=…)``, or ``.sync()`` of it.

    ``reset`` takes what ``ServedEnv.reset`` takes; ``step`` a ``PlayAction`` or its text. Observations are ``FullObservation``
    or, if the server sends texts only, ``TextObservation``.
    """

    def _step_payload(self, action: PlayAction | str) -> dict[str, Any]:
        return {"action": action if isinstance(action, str) else action.action}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TextObservation]:
        fields = {**payload.get("observation", {}), "reward": payload.get("reward"), "done": payload.get("done", False)}
        kind = FullObservation if "state_key" in fields else TextObservation
        return StepResult(observation=kind(**fields), reward=fields["reward"], done=fields["done"])

    def _parse_state(self, payload: dict[str, Any]) -> PlayState:
        return PlayState(**payload)

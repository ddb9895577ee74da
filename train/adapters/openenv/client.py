"""The types of the protocol, which ``GET /schema`` publishes, and a trainer's side of it: ``PlayClient`` and ``HindsightRubric``."""

from __future__ import annotations

from typing import Any, Final

from openenv.core import EnvClient
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubrics.trajectory import TrajectoryRubric
from pydantic import Field

from creditflow.envs.errors import EpisodeError
from creditflow.wrappers.dense_reward import Truncation, make_store
from creditflow.wrappers.feature_potential import Store, Version
from creditflow.wrappers.hindsight import relabel
from creditflow.wrappers.recorder import stop_reason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = [
    "MAX_ACTION",
    "FullObservation",
    "HindsightRubric",
    "PlayAction",
    "PlayClient",
    "PlayState",
    "TextObservation",
]


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
    """Client of a server of ``creditflow serve env``: ``PlayClient(base_url=…)``, or ``.sync()`` of it.

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


class HindsightRubric(TrajectoryRubric):
    """Scores an episode by its graded outcome, and each of its steps by its reward plus a potential's difference.

    OpenEnv calls a rubric at every step but never its ``compute_step_rewards``: the trainer does, after each episode. It never shows
    the rubric the first observation, which ``begin`` takes. The rubrics of several sessions may share a store.

    Args:
        scheme, gamma: as for ``relabel``.
        store: a store, or a fixed version; default a new store, which learns each episode whose rewards are computed.
        beta, truncation: as for ``relabel``.
        **parameters: of the new store.

    Raises:
        ConfigError: a scheme without a potential, or a wrong parameter.
    """

    def __init__(
        self,
        scheme: str,
        *,
        gamma: float,
        store: Store | Version | None = None,
        beta: float = 1.0,
        truncation: Truncation = "end",
        **parameters: Any,
    ) -> None:
        super().__init__()
        self.store = make_store(scheme, gamma=gamma, **parameters) if store is None else store
        self._options: dict[str, Any] = {"scheme": scheme, "gamma": gamma, "beta": beta, "truncation": truncation}
        self.reset()

    def reset(self) -> None:
        """Forget the episode."""
        super().reset()
        self._first: FullObservation | None = None
        self._rewards: list[float] = []

    def begin(self, observation: FullObservation) -> None:
        """Begin an episode with the observation of ``reset``."""
        self.reset()
        self._first = observation

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        """Return the graded outcome, in [0, 1]."""
        return float(trajectory[-1][1].score)

    def compute_step_rewards(self) -> list[float]:
        """Return one reward for each step of the episode; the first call lets the store learn it.

        An episode that began at a snapshot, whose first steps are missing, is shaped and not learned from.

        Raises:
            EpisodeError: the episode is not over, or ``begin`` was not called.
        """
        first = self._first
        if first is None or not self._trajectory or not self._trajectory[-1][1].done:
            raise EpisodeError(
                "rewards in hindsight are those of a whole episode: call begin() with the observation of reset, then the rubric with "
                "each action and observation until done"
            )
        if not self._rewards:
            store = self.store
            if first.elapsed_steps and isinstance(store, Store):
                store = store.snapshot()
            self._rewards = relabel([_episode(first, self._trajectory)], store=store, **self._options)[0].tolist()
        return list(self._rewards)


def _episode(first: FullObservation, steps: list[tuple[Any, Any]]) -> Trajectory:
    """The record of a finished episode."""
    turns, before = list[Turn](), first
    for action, after in steps:
        turn = Turn(
            before.state_key,
            action if isinstance(action, str) else action.action,
            after.state_key,
            float(after.reward or 0.0),
            admissible=after.action_valid,
            effective=after.action_effective,
            observation=before.text,
            text_key=before.text_key,
        )
        turns.append(turn)
        before = after
    task, success = before.task_id, before.success
    reason = stop_reason({**before.extra, "success": success}, before.terminated)
    return Trajectory(task, task, task, tuple(turns), success, before.score, reason, before.state_key, before.text_key)

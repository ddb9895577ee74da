"""``PlayClient``: OpenEnv's client with our types."""

from __future__ import annotations

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from creditflow.train.adapters.openenv.models import FullObservation, PlayAction, PlayState, TextObservation

__all__ = ["PlayClient"]


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

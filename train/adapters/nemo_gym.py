"""NeMo Gym: a resource server of our environments, for its gymnasium agent.

An ``app.py`` of two lines starts it::

    from creditflow.train.adapters.nemo_gym import CreditServer
    CreditServer.run_webserver()

``play`` in the server's configuration has ``EpisodeConfig``'s sections; a row of the data set names its task in ``task``, the content
as a mapping or JSON text. The last step's ``info`` carries the episode's record. Read and tested at commit 07d6b0d (0.7).
"""

from __future__ import annotations

from typing import Any

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from resources_servers.gymnasium import GymnasiumServer, extract_text

from creditflow.envs.errors import EpisodeError
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode, task_content
from creditflow.train.settings.reading import read_dataclass
from creditflow.wrappers.credit.bridge import FIELD
from creditflow.wrappers.records.stop_reasons import STOP_REASONS, TRUNCATED

__all__ = ["CreditServer", "CreditServerConfig"]


class CreditServerConfig(BaseResourcesServerConfig):
    """NeMo Gym's settings, and ``play``: sections ``env``, ``prompting``, ``budget`` of ``EpisodeConfig``."""

    play: dict[str, Any] = {}


class CreditServer(GymnasiumServer):
    """One episode for each session."""

    config: CreditServerConfig

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str, dict[str, Any]]:
        """Start the row's task; the observation is the first prompt."""
        play = read_dataclass(EpisodeConfig, self.config.play, "play")
        episode = TextEpisode(play, task_content(metadata), group_id=str(metadata.get("task_id", "task")))
        self.session_state[session_id] = episode
        return "\n\n".join(message["content"] for message in episode.messages), {"state_key": episode.info["state_key"]}

    async def step(
        self, action: Any, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take the action that a completion states; one that states none is an invalid action."""
        del metadata
        episode = self.session_state.get(session_id)
        if episode is None:
            raise EpisodeError("no episode is running in this session: call /reset first")
        reply = episode.step(extract_text(action))
        info = {"state_key": episode.info["state_key"], "valid": episode.last_valid}
        if not reply.done:
            return reply.text, reply.reward, False, False, info
        played = episode.trajectory
        truncated = STOP_REASONS[played.stop_reason] == TRUNCATED
        info |= {FIELD: episode.record(), "success": played.success, "score": played.score}
        return "", reply.reward, not truncated, truncated, info

"""A taskset of verifiers v1 over our environments, with the environment and the harness that play it.

verifiers imports a taskset by the name of an installed module, so one line in a module of one's own names ours::

    # credit_tasks.py
    from creditflow.train.adapters.verifiers.tasks import CreditEnv, CreditHarness, CreditTaskset, __all__

Then ``credit_tasks`` is a taskset id for ``vf-eval``, for ``load_environment`` and for prime-rl. The environment's replies are the
user's messages; the harness asks for one completion per turn in this process, without sandbox or tools. A trace carries
its episode's record in ``info["creditflow"]``; ``credit.py`` reads it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import cache
from typing import Any

from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.releases import VERIFIERS
from creditflow.train.adapters.text_episode import EpisodeConfig, TextEpisode, panel_tasks
from creditflow.train.adapters.verifiers.credit import completion_text
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import EnvConfig
from creditflow.wrappers.credit.bridge import FIELD

VERIFIERS.require()

import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.runtimes import ProgramResult
from verifiers.v1.types import UserMessage

__all__ = ["CreditEnv", "CreditHarness", "CreditTaskset"]


class CreditTasksetConfig(vf.TasksetConfig):
    """Which tasks are played, and how they are shown.

    Attributes:
        env, options: our environment and its arguments.
        panel: "NAME:SPLIT" of an embedded panel; "" takes the source that the options name.
        count: only the first tasks; 0 takes all.
        prompting: a section as in ``PromptingConfig``.
    """

    env: str = "sokoban"
    options: dict[str, Any] = {}
    panel: str = ""
    count: int = 0
    prompting: dict[str, Any] = {}


class CreditData(vf.TaskData):
    """A task's wire data; ``content`` is the task itself."""

    content: dict[str, Any] = {}


class CreditTask(vf.Task[CreditData, vf.State, vf.TaskConfig]):
    """A task; the environment scores it."""

    @property
    def key(self) -> str:
        """The task's id, a hash of its content, by which episodes are grouped."""
        return str(self.data.id)


class CreditTaskset(vf.Taskset[CreditTask, CreditTasksetConfig]):
    """Tasks of one of our environments, with their first prompts."""

    def __init__(self, config: CreditTasksetConfig) -> None:
        super().__init__(config)
        prompting = read_dataclass(PromptingConfig, dict(config.prompting), "taskset.prompting")
        self.play = EpisodeConfig(env=EnvConfig(name=config.env, options=dict(config.options)), prompting=prompting)

    def load(self) -> Iterator[CreditTask]:
        """The tasks in the order of their panel."""
        for task in panel_tasks(self.play.env, panel=self.config.panel, count=self.config.count):
            content = dict(task.content)
            *system, user = TextEpisode(self.play, content, group_id=task.task_id).messages
            prompts = {"prompt": user["content"], "system_prompt": system[0]["content"] if system else None}
            yield CreditTask(CreditData(id=task.task_id, content=content, **prompts), self.config.task)


class CreditHarness(vf.Harness[vf.HarnessConfig]):
    """One completion per turn, asked for in this process."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any
    ) -> ProgramResult:
        """Sample the next completion; the trace records it."""
        del trace, runtime, mcp_urls
        system, prompt = self.resolve_prompt(data)
        messages = [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or ())
        wire = [{"role": "system", "content": system}] if system else []
        wire += [message_to_wire(message) for message in messages]
        http = DefaultAsyncHttpxClient(verify=_certificates())
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, http_client=http) as client:
            try:
                await client.chat.completions.create(model=ctx.model, messages=wire)
            except (
                APIStatusError
            ) as error:  # also how verifiers ends an exchange at a limit, which the trace then names
                return ProgramResult(1, "", str(error))
        return ProgramResult(0, "", "")


class CreditEnvConfig(vf.EnvConfig):
    """One seat, the policy, in this process."""

    player: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})


class CreditEnv(vf.Env[CreditEnvConfig]):
    """Plays a task: completions are steps, the environment's messages are the user's."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play one episode; its trace carries reward, metrics and record."""
        if not isinstance(self.taskset, CreditTaskset):
            raise TrajectoryError(f"CreditEnv plays CreditTaskset, got {type(self.taskset).__name__}")
        async with agents.player.interaction(task) as interaction:
            replica = int(interaction.trace.id[:8], 16)
            episode = TextEpisode(self.taskset.play, task.data.content, group_id=str(task.data.id), replica=replica)
            segment = await interaction.turn()
            while not segment.terminated:
                reply = episode.step(completion_text(segment.messages[-1]))
                if reply.done:
                    break
                segment = await interaction.turn(reply.text)
        trace = interaction.trace
        episode.stop("env_error" if trace.errors else "token_limit")
        played = episode.trajectory
        trace.info[FIELD] = episode.record()
        trace.record_reward("return", played.episode_return)
        trace.record_metrics({"success": float(played.success), "score": played.score})


@cache
def _certificates() -> ssl.SSLContext:
    """Read once: reading them takes longer than a turn."""
    return ssl.create_default_context()

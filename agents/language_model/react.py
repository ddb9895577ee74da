"""ReAct and Reflexion: a language model prompted with chain of thought, and with reflections on its failed trials.

ReAct (Yao et al. 2023, arXiv 2210.03629): one line of thought and one action per turn, in one growing conversation.
Reflexion (Shinn et al. 2023, arXiv 2303.11366): after a failed episode the model writes a reflection on it; the
prompt of the next trial of the same task begins with the last few reflections. Trials of one task are not independent
samples: their number is in ``Trajectory.trial``, and a group never mixes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.base import Decision, RecordedHistory, View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["ReactAgent", "ReflexionAgent"]

MAX_REFLECTIONS: Final = 3  # in the prompt of the next trial, as published
MAX_TRANSCRIPT: Final = 6_000  # characters of a failed episode that the reflection prompt shows, from its end
_REFLECT: Final = (
    "An attempt at a task has failed. This is what happened, its end last:\n\n{episode}\n\nIt ended with: {stop}.\n\n"
    "In at most three sentences, say where the attempt went wrong and what the next attempt should do instead. Name "
    "places, objects and queries. Write only that."
)
_LESSONS: Final = "Earlier attempts at this task failed. What you wrote down after them:\n{notes}\n\n"


class ReactAgent:
    """ReAct over any language model.

    Args:
        model: the language model; its own prompt and dialect are replaced.
    """

    name = "react"

    def __init__(self, model: LanguageModelAgent) -> None:
        self.model = model
        self._models = {
            kind: model.with_prompting(prompt, "react", name=self.name, reflections=self.reflections)
            for kind, prompt in (("search", "react-search-v1"), ("other", "react-v1"))
        }

    @property
    def sampling(self) -> Sampling:
        """The model's sampling settings."""
        return self.model.sampling

    def with_sampling(self, sampling: Sampling) -> ReactAgent:
        """The same agent with other sampling settings."""
        return type(self)(self.model.with_sampling(sampling))

    def reflections(self, view: View) -> str:
        """Text on earlier trials for the prompt; always "" for ReAct."""
        del view
        return ""

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        kinds = {_kind(view.env) for view in views}
        if len(kinds) > 1:
            raise ConfigError("a batch must not mix search questions with other tasks: play them separately")
        return self._models[kinds.pop()].act(views) if kinds else []

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """Give ``child`` the history of ``parent`` up to its first ``turns`` turns."""
        self._models[_kind(parent)].fork(parent, child, turns)

    def resume(self, history: RecordedHistory, envs: Sequence[AgentEnv[Any, Any, Any]]) -> None:
        """Give the environments in which an episode continues the history of its recorded turns."""
        self._models[_kind(envs[0])].resume(history, envs)


class ReflexionAgent(ReactAgent):
    """ReAct with reflections on failed trials, kept by task.

    Args:
        model: the language model that acts and reflects.
    """

    name = "reflexion"

    def __init__(self, model: LanguageModelAgent) -> None:
        self._reflections: dict[str, list[str]] = {}
        super().__init__(model)

    def reflections(self, view: View) -> str:
        """The last few reflections on the view's task."""
        recent = self._reflections.get(view.info["task_id"], [])[-MAX_REFLECTIONS:]
        return _LESSONS.format(notes="\n".join(f"- {text}" for text in recent)) if recent else ""

    def reset(self) -> None:
        """Drop all reflections."""
        self._reflections.clear()

    def reflect(self, failed: Sequence[Trajectory], *, seed: int = 0, iteration: int = 0) -> list[str]:
        """Generate a reflection on every failed episode, and keep it for the task.

        Each reflection has its own random numbers, whichever other episodes failed.

        Args:
            failed: trajectories with texts; one per task.
            seed, iteration: seed of the sampling, together with task, replica and trial.
        """
        chat, sampling = self.model.conversations.chat, self.sampling
        requests = []
        for episode in failed:
            text = _REFLECT.replace("{stop}", episode.stop_reason).replace("{episode}", _transcript(episode))
            task = int.from_bytes(hashlib.blake2b(episode.task_id.encode(), digest_size=8).digest(), "big")
            rng = np.random.default_rng([seed, iteration, episode.seed, task, episode.replica, episode.trial])
            uniforms = rng.random(sampling.max_new_tokens)
            requests.append(
                GenerationRequest(f"reflection on {episode.trajectory_id}", chat.first_prompt_ids("", text), uniforms)
            )
        completions = self.model.backend.generate(requests, sampling, chat.end_ids) if requests else []
        reflections = [" ".join(chat.decode_completion(completion.ids.tolist()).split()) for completion in completions]
        for episode, reflection in zip(failed, reflections, strict=True):
            if reflection:
                self._reflections.setdefault(episode.task_id, []).append(reflection)
        return reflections


def _kind(env: AgentEnv[Any, Any, Any]) -> Literal["search", "other"]:
    return "search" if env.env_name == "wikisearch" else "other"


def _transcript(trajectory: Trajectory) -> str:
    """Observations, thoughts and actions of an episode; of a long one only the end."""
    lines = [
        f"seen: {turn.observation}\n" + (f"thought: {turn.thought}\n" if turn.thought else "") + f"done: {turn.action}"
        for turn in trajectory.turns
    ]
    text = "\n".join(lines)
    return text if len(text) <= MAX_TRANSCRIPT else "…" + text[-MAX_TRANSCRIPT:]

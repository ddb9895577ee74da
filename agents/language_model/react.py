"""ReAct and Reflexion: a language model that is prompted, not trained, to think aloud and to learn from its failures.

ReAct (Yao et al. 2023, arXiv 2210.03629): one line of thought, one action, turn by turn, in one growing conversation.
Reflexion (Shinn et al. 2023, arXiv 2303.11366): after a failed episode the model writes down what to do differently; the
next trial of the same task begins with what was written after the last few. Trials of one task are not independent
draws: they carry their number in ``Trajectory.trial``, and a group never mixes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from creditflow.agents.backends.base import Job, Sampling
from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["ReactAgent", "ReflexionAgent"]

REMEMBERED: Final = 3  # reflections shown at the next trial, as published
LONGEST: Final = 6_000  # characters of an episode that a reflection is written about; its end says most
_REFLECT: Final = (
    "An attempt at a task has failed. This is what happened, its end last:\n\n{episode}\n\nIt ended with: {stop}.\n\n"
    "In at most three sentences, say where the attempt went wrong and what the next attempt should do instead. Name "
    "places, objects and queries. Write only that."
)
_LESSONS: Final = "Earlier attempts at this task failed. What you wrote down after them:\n{notes}\n\n"


class ReactAgent:
    """ReAct over any language model.

    Args:
        model: answers; its own prompt and dialect are put aside.
    """

    name = "react"

    def __init__(self, model: LanguageModelAgent) -> None:
        self.model = model
        self._talks = {
            kind: model.with_prompting(prompt, "react", name=self.name, history="append", lessons=self.lessons)
            for kind, prompt in (("search", "react-search-v1"), ("other", "react-v1"))
        }

    @property
    def sampling(self) -> Sampling:
        """How the model is sampled."""
        return self.model.sampling

    def with_sampling(self, sampling: Sampling) -> ReactAgent:
        """The same agent, sampled in another way."""
        return type(self)(self.model.with_sampling(sampling))

    def lessons(self, view: View) -> str:
        """What the prompt says of earlier trials of this episode: nothing, unless a subclass keeps some."""
        del view
        return ""

    def act(self, views: Sequence[View]) -> list[Decision]:
        """One decision per view."""
        kinds: set[Literal["search", "other"]] = {
            "search" if view.env.env_name == "wikisearch" else "other" for view in views
        }
        if len(kinds) > 1:
            raise ConfigError("one batch holds search questions and other tasks: play them apart")
        return self._talks[kinds.pop()].act(views) if kinds else []


class ReflexionAgent(ReactAgent):
    """ReAct that remembers, per task, what it wrote after failed trials.

    Args:
        model: answers and reflects.
    """

    name = "reflexion"

    def __init__(self, model: LanguageModelAgent) -> None:
        self._notes: dict[str, list[str]] = {}
        super().__init__(model)

    def lessons(self, view: View) -> str:
        """The last few reflections on the view's task."""
        notes = self._notes.get(view.info["task_id"], [])[-REMEMBERED:]
        return _LESSONS.format(notes="\n".join(f"- {note}" for note in notes)) if notes else ""

    def forget(self) -> None:
        """Begin anew, as before any trial."""
        self._notes.clear()

    def reflect(self, failed: Sequence[Trajectory], *, seed: int = 0) -> list[str]:
        """Write down, and remember for their tasks, what went wrong in some episodes.

        Args:
            failed: with texts; one per task.
            seed: of the sampling.
        """
        chat, sampling = self.model.conversations.chat, self.sampling
        jobs = []
        for one in failed:
            text = _REFLECT.replace("{stop}", one.stop_reason).replace("{episode}", _story(one))
            draws = np.random.default_rng([seed, one.seed, one.trial, one.replica]).random(sampling.max_new_tokens)
            jobs.append(Job(f"reflection on {one.trajectory_id}", chat.begin("", text), draws))
        answers = self.model.backend.generate(jobs, sampling, chat.end_ids) if jobs else []
        notes = [" ".join(chat.read(answer.ids.tolist()).split()) for answer in answers]
        for one, note in zip(failed, notes, strict=True):
            if note:
                self._notes.setdefault(one.task_id, []).append(note)
        return notes


def _story(trajectory: Trajectory) -> str:
    """What was seen, thought and done; its end, if it is long."""
    lines = [
        f"seen: {turn.observation}\n" + (f"thought: {turn.thought}\n" if turn.thought else "") + f"done: {turn.action}"
        for turn in trajectory.turns
    ]
    text = "\n".join(lines)
    return text if len(text) <= LONGEST else "…" + text[-LONGEST:]

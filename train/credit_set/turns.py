"""Episodes of the policies as turns for a credit set: the prompt that a judge reads, and the action that it rates.

One of the policies is a word n-gram language model, so that a credit set is built without torch. It writes actions word by
word. Words are sampled from a back-off trigram model (Witten and Bell 1991) of actions that a noisy expert took on training
tasks, or from a cache model (Kuhn and De Mori 1990): the bigrams of the possible actions, or of the observation where actions
are not listed. Like larger language models it copies names from the prompt, repeats itself, misjudges the state, and sometimes
writes an action that is rejected. ``--agent hf:PATH`` replaces it by a neural model.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np

from creditflow.agents.base import Agent, Decision, View
from creditflow.agents.prompts.template import Prompt, slots_of
from creditflow.agents.registry import make_agent
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import EpisodeError
from creditflow.envs.tasks import Task, load_panel
from creditflow.train.credit_set.settings import NGRAM, PANEL, SETTINGS
from creditflow.train.rollout.engine import RolloutEngine, RolloutReport
from creditflow.train.rollout.play import play_group
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group

__all__ = ["MAX_HISTORY", "NgramAgent", "PlayedTurn", "Player", "judge_prompt"]

ORDER: Final = 3
CACHE_WEIGHT: Final = 0.9  # probability that an action begins with the cache model, if actions are listed
SWITCH: Final = 0.02  # probability that the next word is sampled from the other model
MAX_WORDS: Final = 40  # per action
START: Final = "\n"  # before and after every action; in a text, the end of a line
_WORD: Final = re.compile(r"\n|[^\S\n]*(?:\w+|[^\w\s])")  # a word with the space before it


class _Counts:
    """How often each word followed a context.

    Args:
        escapes: whether to back off from a known context too, with the Witten–Bell probability types / (types + tokens).
    """

    def __init__(self, *, escapes: bool) -> None:
        self._escapes = escapes
        self._next: dict[tuple[str, ...], Counter[str]] = {}
        self._tables: dict[tuple[str, ...], tuple[list[str], list[int]]] = {}

    def add(self, words: Sequence[str], order: int, *, begin: int = 0) -> None:
        """Count all contexts of fewer than ``order`` words before each word from index ``begin`` on."""
        for i in range(begin, len(words)):
            for length in range(min(order, i + 1)):
                self._next.setdefault(tuple(words[i - length : i]), Counter())[words[i]] += 1
        self._tables.clear()

    def table(self, context: tuple[str, ...]) -> tuple[list[str], list[int]]:
        """Words after a context, sorted, and their cumulative counts; empty for an unknown context."""
        table = self._tables.get(context)
        if table is None:
            counts = self._next.get(context) or Counter[str]()
            words = sorted(counts)
            table = self._tables[context] = words, list(accumulate(counts[word] for word in words))
        return table

    def sample(self, context: tuple[str, ...], rng: np.random.Generator) -> str:
        """Sample the next word; backs off to shorter contexts."""
        words, cumulative = self.table(context)
        total = cumulative[-1] if words else 0
        if context and (not words or (self._escapes and rng.random() * (total + len(words)) >= total)):
            return self.sample(context[1:], rng)
        return words[bisect_right(cumulative, rng.random() * total)] if words else START


class NgramAgent:
    """Writes actions by a trigram model with a cache.

    Args:
        groups: rollouts on whose valid actions it is trained.
    """

    name = "ngram"

    def __init__(self, groups: Iterable[Group]) -> None:
        self._model = _Counts(escapes=True)
        for group in groups:
            for trajectory in group.trajectories:
                last: list[str] = []
                for turn in trajectory.turns:
                    if turn.valid:
                        words = _words(turn.action)
                        context = [*last[-1:], START]
                        self._model.add([*context, *words, START], ORDER, begin=len(context))
                        last = words

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Write one action per view, from the observation and, where prompts list them, the admissible actions."""
        return [Decision(self._write(view)) for view in views]

    def _write(self, view: View) -> str:
        listed = () if view.env.actions_reveal_answer else view.info["admissible_actions"]
        cache = _Counts(escapes=False)
        cache.add(_words("\n".join(["", *(listed or [str(view.observation)]), ""])), 2)
        words = [*(_words(view.turns[-1].action)[-1:] if view.turns else []), START]
        begin = len(words)
        copies = bool(listed) and view.rng.random() < CACHE_WEIGHT
        while len(words) < begin + MAX_WORDS:
            source, order = (cache, 2) if copies else (self._model, ORDER)
            word = source.sample(tuple(words[1 - order :]), view.rng)
            if word == START and len(words) > begin:
                break
            if word != START:
                words.append(word)
            copies ^= view.rng.random() < SWITCH
        return "".join(words[begin:])


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


MAX_HISTORY: Final = 8_000  # characters of past turns in a prompt, which holds as many of the last turns as fit
TRAINING_TASKS: Final = 48  # number of training tasks of the n-gram model
TRAINING_NOISE: Final = 0.2

_HEAD: Final = "Task: {task}\n\nStep {step} of at most {steps}.\n\n"
_PAST: Final = "What happened so far:\n{history}\n\n"
_NOW: Final = "{refused}Observation now:\n{observation}"
_ACTIONS: Final = "\n\nPossible actions:\n{actions}"
_TURN: Final = "[step {step}] observation: {observation}\n[step {step}] action: {action}"
_REFUSED: Final = "The last action was rejected: {reason}\n\n"
JUDGE: Final = Prompt(
    "judge-v1", "", _HEAD + _NOW + _ACTIONS, "", _HEAD + _PAST + _NOW + _ACTIONS, _TURN, _REFUSED
)  # fmt: skip
# for environments whose list of actions gives the answer away
JUDGE_UNLISTED: Final = Prompt("judge-unlisted-v1", "", _HEAD + _NOW, "", _HEAD + _PAST + _NOW, _TURN, _REFUSED)


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """One turn of an episode.

    Attributes:
        index: number of the turn in its episode, from 0.
        prompt: what a judge reads: task, past turns, observation, and the possible actions if they may be shown.
        action: text of the action.
        response: a language model's full text; "" for other agents.
        valid: whether the action was parsed and admissible.
        actions: listed admissible actions, sorted.
    """

    index: int
    prompt: str
    action: str
    response: str
    valid: bool
    actions: tuple[str, ...]


class Player:
    """Plays one environment with every policy of a credit set.

    Args:
        env: name of the environment.
        policies: names of the policies.
        seed: seed of the set.
    """

    def __init__(self, env: str, policies: Sequence[str], seed: int) -> None:
        self.env, self.seed, self.policies = env, seed, tuple(policies)
        self._group = GroupEnv(env, size=1, panel=PANEL, max_steps=SETTINGS[env].max_steps)
        self.base: AgentEnv[Any, Any, Any] = self._group.members[0].base
        self._engine = RolloutEngine(lambda: self._group)
        rows = load_panel(env, PANEL.partition(":")[0]).rows
        self.splits = {row.task_id: row.split for row in rows}
        order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
        self._ids = [rows[i].task_id for i in order.tolist()]
        self._agents = {policy: self._agent(policy) for policy in policies}

    def task(self, number: int) -> tuple[Task, int]:
        """Task of a job, and its replica: the number of complete passes over the panel before it."""
        return self.base.tasks.get(self._ids[number % len(self._ids)]), number // len(self._ids)

    def play(self, task: Task, replica: int, policy: str) -> list[PlayedTurn]:
        """Play one episode, and return all its turns.

        Raises:
            EpisodeError: the environment failed.
        """
        index = self.policies.index(policy)
        seed, iteration = self.seed * len(self.policies) + index, replica
        recording, report = _Recording(self._agents[policy]), RolloutReport()
        [group] = self._engine.play(recording, [task], seed=seed, iteration=iteration, report=report)
        if report.errors:
            raise EpisodeError(f"{policy} on {task.task_id}: {report.errors[0]}")
        return [
            PlayedTurn(t, prompt, turn.action, turn.response, turn.valid, actions)
            for t, (turn, (prompt, actions)) in enumerate(
                zip(group.trajectories[0].turns, recording.seen, strict=False)
            )
        ]

    def _agent(self, policy: str) -> Agent:
        if policy != NGRAM:
            return make_agent(policy)
        train = [task_id for task_id in sorted(self.splits) if self.splits[task_id] == "train"]
        chosen = np.random.default_rng(0).permutation(len(train))[:TRAINING_TASKS].tolist()
        expert = NoisyExpert(TRAINING_NOISE)
        return NgramAgent(play_group(self._group, expert, self.base.tasks.get(train[i]), seed=0) for i in chosen)


class _Recording:
    """An agent whose views are recorded as prompts for a judge."""

    def __init__(self, agent: Agent) -> None:
        self.name, self._agent = agent.name, agent
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def act(self, views: Sequence[View]) -> Any:
        """Record one view, and choose one action."""
        [view] = views
        self.seen.append((judge_prompt(view), tuple(sorted(view.info["admissible_actions"]))))
        return self._agent.act(views)


def judge_prompt(view: View) -> str:
    """The prompt that a judge reads before a turn, with at most ``MAX_HISTORY`` characters of past turns, the latest ones."""
    prompt = JUDGE_UNLISTED if view.env.actions_reveal_answer else JUDGE
    window = length = 0
    for turn in reversed(view.turns):
        length += len(turn.observation) + len(turn.action) + 60
        if length > MAX_HISTORY:
            break
        window += 1
    return prompt.fill("windowed" if window else "first", slots_of(prompt, view, window))

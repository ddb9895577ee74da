"""Label a log of search rollouts, count what is skipped and why, and write a sample for a person to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.grading.judge import ModelJudge
from creditflow.envs.wikisearch.questions import Question
from creditflow.train.annotate.success.labelling.labellers import JudgeLabeller, Labeller, RuleLabeller
from creditflow.train.annotate.success.labelling.labels import Labels
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["LabelReport", "judge_labeller", "label_log", "write_audit"]


@dataclass(frozen=True, slots=True)
class LabelReport:
    """The labels of a log.

    Attributes:
        labels: labels of the usable trajectories, in order.
        skipped: reason → number of trajectories.
    """

    labels: tuple[Labels, ...]
    skipped: Mapping[str, int]

    @property
    def success(self) -> float:
        """Success rate of the labelled trajectories."""
        return float(np.mean([entry.success for entry in self.labels])) if self.labels else float("nan")


def judge_labeller(spec: str, cache: str | None = None) -> JudgeLabeller:
    """The labeller for "URL#MODEL": the model MODEL of the OpenAI-compatible server at URL.

    Raises:
        ConfigError: not of that form.
    """
    url, sign, model = spec.partition("#")
    if not (url and sign and model):
        raise ConfigError(f"a judge is written URL#MODEL, as in http://127.0.0.1:8000/v1#qwen, got {short_repr(spec)}")
    return JudgeLabeller(ModelJudge(url, model, cache=cache), f"judge:{model}")


def label_log(groups: Sequence[Group], labeller: Labeller | None = None) -> LabelReport:
    """Labels of every usable trajectory.

    Skipped are episodes that ended by an error or a malformed completion, episodes without a tool turn, and those whose
    labels do not match their turns (as in the paper's filter).

    Args:
        groups: the rollouts; their tasks are the questions.
        labeller: default ``RuleLabeller()``.

    Raises:
        DataError: a group without a question or golden steps.
    """
    labeller = labeller or RuleLabeller()
    labels: list[Labels] = []
    skipped: Counter[str] = Counter()
    for group in groups:
        question = _question(group)
        for member, turns, first in zip(group.trajectories, group.episodes, group.first_turns.tolist(), strict=True):
            # what the prefix of a branch found is known to the branch: label the full episode, keep the branch's turns
            episode = replace(member, turns=turns, tokens=None, parent="", fork_turn=-1)
            reason = _unusable(episode, own_turns=len(member.turns))
            turn_labels = () if reason else labeller.label(episode, question)
            if not reason and len(turn_labels) != len(turns):
                reason = "its labels do not match its turns"
            if reason:
                skipped[reason] += 1
            else:
                labels.append(
                    Labels(group.group_id, member.trajectory_id, turn_labels[first:], member.success, labeller.name)
                )
    return LabelReport(tuple(labels), dict(skipped))


def _question(group: Group) -> Question:
    try:
        question = Question.from_json(group.task)
    except DataError as error:
        raise DataError(f"group {group.group_id!r} carries no question to label by: {error}") from error
    if not question.steps:
        raise DataError(
            f"group {group.group_id!r}: its question has no golden steps, which pivots are defined by; use questions with "
            "a decomposition (the embedded encyclopedia's, MuSiQue's)"
        )
    return question


def _unusable(episode: Trajectory, own_turns: int) -> str:
    if episode.stop_reason in ("env_error", "format"):
        return f"the episode ended by {episode.stop_reason}"
    if not any(turn.queries or turn.doc_ids for turn in episode.turns):
        return "no tool was used"
    if not own_turns:
        return "the branch ended where it began"
    return ""


def write_audit(path: str | Path, groups: Sequence[Group], labels: Sequence[Labels], count: int, seed: int) -> int:
    """Write some labelled episodes as text, sampled uniformly; returns how many."""
    chosen = np.random.default_rng(seed).permutation(len(labels))[:count]
    members = {
        (group.group_id, member.trajectory_id): (group, member, first)
        for group in groups
        for member, first in zip(group.trajectories, group.first_turns.tolist(), strict=True)
    }
    with atomic_writer(path) as stream:
        for index in sorted(chosen.tolist()):
            entry = labels[index]
            group, member, first = members[entry.group_id, entry.trajectory_id]
            question = Question.from_json(group.task)
            lines = [
                f"== {entry.trajectory_id} | {entry.labeller} | {member.stop_reason}",
                f"question: {question.text}   golden: {' | '.join(question.answers)}",
                *(f"  step {k}: {step.question} -> {step.answer}" for k, step in enumerate(question.steps, 1)),
            ]
            for t, (turn, label) in enumerate(zip(member.turns, entry.turn_labels, strict=True), first + 1):
                lines.append(
                    f"[{label or '.'}] turn {t}: {turn.action}   passages: {', '.join(turn.doc_ids) or 'none'}"
                )
            text = "\n".join(lines) + "\n\n"
            stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))
    return len(chosen)

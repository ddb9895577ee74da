"""Read released Search-R1 trajectories as groups, which every scheme and analysis can use.

A row is a JSON object with ``question``, ``answers`` and ``response`` (all text after the prompt, with its tags), and
perhaps ``id``, ``model``, ``metric`` (``{"em": …}``) and ``stop_reason``, as Search-R1's evaluation writes them.

States are those of WikiSearch: the state key names the question and the set of passages seen, the text key the last
text retrieved. Rollouts of one model on one question form a group; ``--group-by task`` puts all models together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading.json_text import read_json_rows
from creditflow.envs.wikisearch.grading.scoring import exact_match
from creditflow.envs.wikisearch.protocol.transcript import Exchange, read_passages, read_transcript
from creditflow.envs.wikisearch.questions import Question, question_task
from creditflow.train.adapters.logs.rows import ImportReport, Tally, own_name
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log
from creditflow.wrappers.records.stop_reasons import ANSWERED, StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["DISAGREEING", "UNANSWERED", "UNREAD", "WITHOUT_TAGS", "read_search_r1"]

_CUT = ("length", "max_tokens")  # stop reasons of an engine that reached its token limit


WITHOUT_TAGS: Final = "rollouts in which the model never wrote a think tag"
UNREAD: Final = "turns without a complete search or answer block"
UNANSWERED: Final = "rollouts without an answer"
DISAGREEING: Final = "rollouts whose recorded exact match differs from ours"


def read_search_r1(path: str | Path) -> ImportReport:
    """Read a file of released trajectories: JSON lines or a JSON list, gzip or not.

    Raises:
        DataError: the file or a row is malformed; names the row.
    """
    members: dict[str, list[Trajectory]] = {}
    payloads: dict[str, dict[str, Any]] = {}
    tally, order = Tally(strict=True), list[str]()
    for where, row in read_json_rows(path, nan_as_null=True):
        try:
            group_id, question, turns = _row(row)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        task = question_task(question)
        reader = _Reader(task.task_id, question)
        replica = len(members.setdefault(group_id := f"{task.task_id}#{group_id}", []))
        trajectory, agrees = reader.trajectory(row, turns, group_id, replica)
        if (name := own_name(row.get("id"))) and all(member.trajectory_id != name for member in members[group_id]):
            trajectory = replace(trajectory, trajectory_id=name)
        members[group_id].append(trajectory)
        order.append(group_id)
        payload = payloads.setdefault(group_id, {**task.content, "documents": {}})
        payload["documents"].update(reader.documents)
        tally.rows += 1
        tally.note(WITHOUT_TAGS, int("<think>" not in "".join(turn.text for turn in turns)))
        tally.note(UNREAD, sum(turn.call is None for turn in turns))
        tally.note(UNANSWERED, int(trajectory.stop_reason not in ANSWERED))
        tally.note(DISAGREEING, int(not agrees))
    if not members:
        raise DataError(f"{path} contains no trajectories")
    groups = tuple(Group(tuple(rollouts), payloads[name]) for name, rollouts in members.items())
    numbers = {name: number for number, name in enumerate(members)}
    return ImportReport("searchr1", Log(groups, tuple(numbers[name] for name in order)), tally)


def _row(row: Any) -> tuple[str, Question, list[Exchange]]:
    """The model, the question and the turns of a row."""
    if not isinstance(row, Mapping):
        raise DataError(f"a trajectory is a JSON object, got {short_repr(row)}")
    for name in ("question", "response"):
        if not isinstance(row.get(name), str):
            raise DataError(f"a trajectory needs a text under {name!r}; keys: {sorted(map(str, row))[:12]}")
    answers = row.get("answers")
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise DataError("a trajectory needs a list of texts under 'answers'")
    model = str(row.get("model", ""))
    name = str(row.get("id", "")).removeprefix(f"{model}_")
    return model or "model", Question(name, row["question"], tuple(answers)), read_transcript(row["response"])


class _Reader:
    """One rollout's turns as ``Turn`` records; collects the passages it saw."""

    def __init__(self, task_id: str, question: Question) -> None:
        self._task_id, self._question = task_id, question
        self.documents: dict[str, dict[str, str]] = {}

    def trajectory(
        self, row: Mapping[str, Any], exchanges: Sequence[Exchange], group_id: str, replica: int
    ) -> tuple[Trajectory, bool]:
        """The rollout, and whether its recorded exact match equals ours."""
        last = exchanges[-1].call if exchanges else None
        answered = last is not None and last.tool == "answer"
        ours = answered and last is not None and bool(exact_match(last.items[0], self._question.answers))
        metric = row.get("metric")
        recorded = metric.get("em") if isinstance(metric, Mapping) else None
        success = ours if not isinstance(recorded, int | float) else answered and recorded >= 1.0
        turns, state, text = [], self._state(""), self._text(self._question.text, False)
        observation = f"Question: {self._question.text}"
        for exchange in exchanges:
            ids = self._take(exchange)
            ending = exchange.call is not None and exchange.call.tool == "answer"
            fresh = self._state("right" if success else "wrong") if ending else self._state("")
            call = exchange.call
            turns.append(
                Turn(
                    state_key=state,
                    action=f"<{_TAGS[call.tool]}>{call.items[0]}</{_TAGS[call.tool]}>" if call else exchange.text,
                    next_state_key=fresh,
                    reward=float(success and ending),
                    parsed=call is not None,
                    effective=fresh != state,
                    observation=observation,
                    thought=exchange.thought,
                    response=exchange.text,
                    text_key=text,
                    invalid_reason=exchange.reason,
                    queries=call.items if call is not None and call.tool == "search" else (),
                    doc_ids=ids,
                )
            )
            state = fresh
            if exchange.observation:
                observation, text = exchange.observation, self._text(exchange.observation, False)
        reason: StopReason = "env_limit"
        if answered:
            reason = "success" if success else "failed"
            text = self._text(observation, True)
        elif row.get("stop_reason") in _CUT:
            reason = "token_limit"
        return Trajectory(
            trajectory_id=f"{group_id}/{replica}",
            group_id=group_id,
            task_id=self._task_id,
            turns=tuple(turns),
            success=success,
            score=float(success),
            stop_reason=reason,
            final_state_key=state,
            final_text_key=text,
            policy=str(row.get("model", "")),
            replica=replica,
        ), not isinstance(recorded, int | float) or (recorded >= 1.0) == ours

    def _take(self, exchange: Exchange) -> tuple[str, ...]:
        """Collect the passages of a turn; return their ids."""
        ids = []
        for title, text in read_passages(exchange.information or ""):
            name = blake2b(f"{title}\n{text}".encode("utf-8", "replace"), digest_size=8).hexdigest()
            self.documents[name] = {"title": title, "text": text}
            ids.append(name)
        return tuple(dict.fromkeys(ids))

    def _state(self, end: str) -> str:
        seen = "\n".join([self._task_id, *sorted(self.documents), end])
        return blake2b(seen.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def _text(self, shown: str, answered: bool) -> str:
        return blake2b(
            shown.encode("utf-8", "replace"), digest_size=16, key=b"answered" if answered else b""
        ).hexdigest()


_TAGS = {"search": "search", "visit": "access", "answer": "answer"}

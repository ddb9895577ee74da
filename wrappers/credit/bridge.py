"""The bridge between a trainer and credit: flat columns of turns in, an advantage per turn and per token out. NumPy only.

Any trainer can name the group, the episode and the state of each turn, its reward and how its episode ended. Every
scheme turns this into one number per turn, which applies to the turn's sampled tokens:

>>> from creditflow import credit
>>> turns = credit.TurnColumns(
...     group=["task", "task", "task"], trajectory=["a", "a", "b"], turn=[0, 1, 0],
...     state=["hall", "study", "hall"], reward=[0.0, 1.0, 0.0], ended=["success", "success", "failed"],
... )
>>> result = credit.advantages("grpo", turns, mask=np.array([[1, 1], [1, 0], [0, 1]], bool))
>>> result.per_turn.round(2)
array([ 0.71,  0.71, -0.71])
>>> result.per_token.round(2)
array([[ 0.71,  0.71],
       [ 0.71,  0.  ],
       [ 0.  , -0.71]])

There are three steps, which adapters also call one by one. Columns or records become groups (``TurnColumns.grouped``,
``make_group``), a scheme scores them (``assign_groups``), and its numbers go to completions and tokens
(``per_completion``, ``over_mask``, ``over_spans``). ``train/adapters/contract.py`` contains the cases that every
adapter must pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr
from creditflow.envs.foreign.keys import content_key
from creditflow.envs.reading.failures import naming
from creditflow.envs.sums import settled_sum
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.registry import assigned, make
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import decode_line
from creditflow.wrappers.records.trajectory import NO_VALUES, Trajectory, Turn, is_number

__all__ = [
    "FIELD",
    "Advantages",
    "GroupedTurns",
    "Played",
    "TurnColumns",
    "advantages",
    "assign_episodes",
    "assign_groups",
    "assign_turns",
    "make_episode",
    "make_group",
    "numbers",
    "over_mask",
    "over_spans",
    "per_completion",
    "per_run",
    "read_record",
    "require_plain",
    "sampled_runs",
    "state_text",
]

FIELD: Final = "creditflow"  # where a trainer's own record of an episode carries ours
_LARGEST_TURN: Final = 2**53  # float64 represents every integer up to here

Played = tuple[Trajectory, Mapping[str, Any]]  # an episode and its task's payload
Incomplete = Literal["refuse", "zero", "keep"]


def numbers(values: Any) -> NDArray[np.float64]:
    """A tensor or array as float64. Tensors are moved off their device, and masked items are NaN.

    Raises:
        TrajectoryError: the values are not numbers.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        if (dtype := np.asarray(values).dtype).kind in "cmM":  # which NumPy would cut to a number
            raise TypeError(f"they are of {dtype}")
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TrajectoryError(f"expected an array of numbers, got {short_repr(values)}: {error}") from error


_NO_TEXT: Final = "value "  # begins the key of a state that is no text
_ESCAPED: Final = f"{_NO_TEXT}text "  # begins the key of a text that begins like one


def state_text(state: Any) -> str:
    """What identifies a state, as text: equal states and no others have equal texts.

    Texts are kept as they are, so that similarity can compare them. Other values are identified by their content
    (``content_key``): the type of an array's numbers, the sign of a zero and the width of a text do not matter.

    >>> state_text("You are in a room."), state_text(36)
    ('You are in a room.', 'value int:36')
    >>> state_text(np.array([1, 0], np.int8)) == state_text(np.array([1.0, -0.0])) != state_text("[1,0]")
    True

    Raises:
        TrajectoryError: the state is missing (None, NaN), or has no content to compare.
    """
    state = _plain(state)
    if _missing(state):
        raise TrajectoryError(
            f"the state is missing: expected a text, an array or plain lists and numbers, got {short_repr(state)}"
        )
    if isinstance(state, str):
        return str(state) if not state.startswith(_NO_TEXT) else _ESCAPED + state
    try:
        return _NO_TEXT + content_key(state)
    except ConfigError as error:
        raise TrajectoryError(
            f"a state is a text, an array or plain lists and numbers, got {type(state).__name__}: {error}"
        ) from None


def make_episode(
    name: str,
    *,
    states: Sequence[str],
    rewards: Sequence[float],
    actions: Sequence[str] = (),
    valid: Sequence[bool] = (),
    ended: Any,
    score: float | None = None,
    group_id: str = "",
    task_id: str = "",
    values: Sequence[Mapping[str, float]] = (),
) -> Trajectory:
    """An episode that was played elsewhere.

    Args:
        name: of the episode.
        states: T or T + 1 texts: what identifies the state before each turn, and the final one. Equal texts mean equal
            states. Without the final one the episode ends in a state that no other visits.
        rewards: T numbers, at least one.
        actions: T texts, or none.
        valid: T flags, or none: whether the turn's action could be parsed and executed.
        ended: a stop reason ("success", "failed", "env_limit", …), or whether the task was solved.
        score: graded outcome in [0, 1], by default 1 for a success and otherwise 0.
        group_id, task_id: of its group and task. Each defaults to the other.
        values: T mappings of annotations, or none.

    Raises:
        TrajectoryError: lengths that do not fit, a reward that is not a finite number, or an unknown stop reason.
    """
    n = len(rewards)
    if not n or len(states) not in (n, n + 1) or any(len(column) not in (0, n) for column in (actions, valid, values)):
        raise TrajectoryError(
            f"episode {name!r}: {n} rewards need {n} or {n + 1} states and {n} actions (and at least one turn), got "
            f"{len(states)} states and {len(actions)} actions"
        )
    _require_finite(name, rewards)
    reason = _stop_reason(ended)
    keys = [*states] if len(states) > n else [*states, f"{name} #last"]
    turns = tuple(
        Turn(
            keys[t],
            actions[t] if actions else "",
            keys[t + 1],
            float(rewards[t]),
            parsed=not valid or bool(valid[t]),
            effective=keys[t] != keys[t + 1],
            text_key=keys[t],
            observation=keys[t],
            values=values[t] if values else NO_VALUES,
        )
        for t in range(n)
    )
    success = reason == "success"
    return Trajectory(
        name,
        group_id or task_id,
        task_id or group_id,
        turns,
        success,
        float(success) if score is None else score,
        reason,
        keys[-1],
        keys[-1],
    )


@dataclass(frozen=True, slots=True, eq=False)
class GroupedTurns:
    """The groups of a batch, and the turn of each row.

    Attributes:
        groups: in order of first appearance.
        group, turn: int64 (N,): the group of each row and the row's turn among all turns of that group, or −1 for rows
            that are no turn. Copies of a row share their turn.
    """

    groups: tuple[Group, ...]
    group: NDArray[np.int64]
    turn: NDArray[np.int64]

    def spread(self, per_group: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """(N,): the number of each row's turn, from one flat array for each group, and zero for rows that are no turn."""
        spread = np.zeros(len(self.group), per_group[0].dtype if per_group else np.float64)
        for g, flat in enumerate(per_group):
            rows = self.group == g
            spread[rows] = flat[self.turn[rows]]
        return spread


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TurnColumns:
    """A batch of N turns as columns: sequences, arrays, tensors or columns of a data frame, of length N, read by position.

    Rows of groups and episodes may stand in any order.

    Attributes:
        group, trajectory: name of the turn's group (episodes of one task that are compared) and of its episode.
        state: what identifies the state before the turn: a key, the text or image shown, an array.
        reward: the environment's reward of the turn (no return, no penalty), in its own unit.
        ended: how the turn's episode ended: a stop reason ("success", "failed", "env_limit", "token_limit", …) or
            whether it succeeded (True, False, 1 or 0). It is read at the episode's last turn. Without it a positive sum of
            rewards (``settled_sum``) is a success and any other end a limit, as in the released code of forks of verl-agent.
        turn: number of the turn in its episode, from 0 without gaps. With it rows may stand anywhere and copies of a row
            count once. Without it the rows of an episode must stand in the order they were played, each once.
        next_state: what identifies the state after the turn. Without it the last state of an episode counts as one that no
            other visits.
        action: texts, for schemes that read them.
        valid: whether the action was valid, by default all.
        score: graded outcome in [0, 1], read at the episode's last turn. The default is 1 for a success and otherwise 0
            (without ``ended``: the sum of rewards, if it lies in [0, 1]).
        active: False for rows that are not turns, such as padding and rows of finished episodes. By default all rows are
            turns.
        values: annotations by name ("value.pica", …), for schemes that read them, with NaN where there is none.
        tasks: payload of the task by group, for schemes that read it.
        called: the trainer's names for these columns, for messages.
    """

    group: Any
    trajectory: Any
    state: Any
    reward: Any
    ended: Any = None
    turn: Any = None
    next_state: Any = None
    action: Any = None
    valid: Any = None
    score: Any = None
    active: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Sequence[Group]) -> TurnColumns:
        """The turns of groups as columns, in order."""
        members = [member for group in groups for member in group.trajectories for _ in member.turns]
        turns = [turn for group in groups for turn in group.turns]
        return cls(
            group=[member.group_id for member in members],
            trajectory=[f"{member.group_id}/{member.trajectory_id}" for member in members],
            state=[turn.state_key for turn in turns],
            reward=[turn.reward for turn in turns],
            ended=[member.stop_reason for member in members],
            turn=[t for group in groups for member in group.trajectories for t in range(len(member.turns))],
            next_state=[turn.next_state_key for turn in turns],
            action=[turn.action_key or turn.action for turn in turns],
            valid=[turn.valid for turn in turns],
            score=[member.score for member in members],
            tasks={group.group_id: group.task for group in groups},
        )

    def grouped(self) -> GroupedTurns:
        """The turns as groups.

        Raises:
            TrajectoryError: columns have unequal lengths, an episode is in two groups, turns are not in the order in
                which they were played, turns are missing, or copies of a row differ.
        """
        n = len(self.group)
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("values", "tasks", "called")}
        for name, column in {**columns, **self.values}.items():
            if column is not None and len(column) != n:
                raise TrajectoryError(f"{self._called(name)} has {len(column)} rows, {self._called('group')} has {n}")
        active = np.ones(n, np.bool_) if self.active is None else self._flags("active")
        rewards = self._column("reward")
        cells = _Cells({name: list(column) for name, column in columns.items() if column is not None}, self._called)
        tasks = {_name(name): task for name, task in self.tasks.items()}
        members: dict[str, dict[str, list[int]]] = {}
        owner: dict[str, str] = {}
        for i in np.flatnonzero(active).tolist():
            group_name, episode_name = cells.name("group", i), cells.name("trajectory", i)
            if owner.setdefault(episode_name, group_name) != group_name:
                raise TrajectoryError(
                    f"trajectory {episode_name!r} has rows in the groups {owner[episode_name]!r} and {group_name!r}"
                )
            members.setdefault(group_name, {}).setdefault(episode_name, []).append(i)
        group, turn = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        groups = []
        for g, (group_name, episodes) in enumerate(members.items()):
            trajectories, start = [], 0
            for episode_name, rows in episodes.items():
                ordered, position = self._timeline(episode_name, rows, cells)
                group[rows], turn[rows] = g, start + position
                trajectories.append(self._episode(group_name, episode_name, ordered, rewards, cells))
                start += len(ordered)
            groups.append(Group(tuple(trajectories), tasks.get(group_name, {})))
        return GroupedTurns(tuple(groups), group, turn)

    def _called(self, name: str) -> str:
        return self.called.get(name, name)

    def _column(self, name: str) -> NDArray[np.float64]:
        """float64 (N,): a column of numbers or flags."""
        with naming(self._called(name)):
            column = numbers(getattr(self, name))
            if column.ndim != 1:
                raise TrajectoryError(f"expected one number a row, got an array of the shape {column.shape}")
        return column

    def _flags(self, name: str) -> NDArray[np.bool_]:
        """bool (N,): a column of truth values."""
        column = self._column(name)
        flags: NDArray[np.bool_] = column == 1.0
        if len(wrong := column[~flags & (column != 0.0)]):
            raise TrajectoryError(f"{self._called(name)} must contain True and False (or 1 and 0), got {wrong[0]:g}")
        return flags

    def _timeline(self, name: str, rows: list[int], cells: _Cells) -> tuple[list[int], NDArray[np.int64]]:
        """One row for every turn, in order, and the position of each of ``rows`` in it."""
        if self.turn is None:
            return rows, np.arange(len(rows))
        column, called = self._column("turn")[rows], self._called("turn")
        if not np.array_equal(column, np.rint(column)) or not (np.abs(column) < _LARGEST_TURN).all():
            raise TrajectoryError(
                f"trajectory {name!r}: {called} must contain whole numbers, got {short_repr(column.tolist())}"
            )
        turns = column.astype(np.int64)
        _, first, position = np.unique(turns, return_index=True, return_inverse=True)
        for i, p in zip(rows, position.tolist(), strict=True):
            original = rows[int(first[p])]
            if i != original and (differing := self._difference(i, original, cells)):
                raise TrajectoryError(
                    f"trajectory {name!r} has two different rows of {called} {turns[int(first[p])]}: {self._called(differing)} "
                    "differs; copies of a row must be whole"
                )
        if not np.array_equal(turns[first], np.arange(len(first))):
            raise TrajectoryError(
                f"trajectory {name!r} has rows of the {called}s {turns[first].tolist()[:20]}: {called}s are counted from 0 "
                f"without gaps, and credit needs every {called} of an episode; call it before rows are dropped"
            )
        return [rows[i] for i in first.tolist()], position.reshape(-1)

    def _difference(self, row: int, original: int, cells: _Cells) -> str:
        """The first column in which two rows that should be copies differ, or "" if none does."""
        for name, column in cells.columns.items():
            if name != "turn" and _content(column[row]) != _content(column[original]):
                return name
        one, other = self._annotations(row), self._annotations(original)
        return next((name for name in self.values if one.get(name) != other.get(name)), "")

    def _episode(
        self, group: str, name: str, rows: list[int], rewards: NDArray[np.float64], cells: _Cells
    ) -> Trajectory:
        states = [cells.state("state", i) for i in rows]
        if self.next_state is not None:
            following = [cells.state("next_state", i) for i in rows]
            for t, (after, before) in enumerate(zip(following, states[1:], strict=False)):
                if after != before:
                    raise TrajectoryError(
                        f"trajectory {name!r}: {self._called('next_state')} of its row {t} is not the "
                        f"{self._called('state')} of its row {t + 1}; rows were shuffled or left out. Pass "
                        f"{self._called('turn')}, the number of each row's turn in its episode"
                    )
            states.append(following[-1])
        paid = rewards[rows].tolist()
        _require_finite(name, paid)
        try:
            total = settled_sum(paid)
        except OverflowError:
            raise TrajectoryError(f"trajectory {name!r}: the sum of its rewards exceeds float64") from None
        ended = cells.columns["ended"][rows[-1]] if self.ended is not None else total > 0.0 or "env_limit"
        score: float | None = None
        if self.score is not None:
            score = float(self._column("score")[rows[-1]])
        elif self.ended is None and 0.0 <= total <= 1.0:
            score = total
        with naming(f"trajectory {name!r}: {self._called('ended')}"):
            stop_reason = _stop_reason(ended)
        return make_episode(
            name,
            group_id=group,
            states=states,
            rewards=paid,
            actions=[] if self.action is None else [cells.name("action", i) for i in rows],
            valid=[] if self.valid is None else self._flags("valid")[rows].tolist(),
            ended=stop_reason,
            score=score,
            values=[self._annotations(i) for i in rows] if self.values else (),
        )

    def _annotations(self, row: int) -> dict[str, float]:
        annotations = {name: float(numbers(column)[row]) for name, column in self.values.items()}
        return {name: value for name, value in annotations.items() if not np.isnan(value)}


@dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """The credit of a batch.

    Attributes:
        per_turn: float64 (N,), what multiplies the importance ratio of each of the turn's tokens, and 0 for rows that
            are no turn, for turns that the scheme leaves out of the loss, and for incomplete groups.
        in_loss: bool (N,), False for exactly those.
        per_token: float64 (B, T), ``per_turn`` on the sampled tokens, or None without a mask.
        token_in_loss: bool (B, T), the mask less the tokens of turns outside the loss, or None without a mask.
        groups, credits: the groups that were scored and their credit, whose ``aggregation`` specifies how the scheme's
            paper averages token losses.
    """

    per_turn: NDArray[np.float64]
    in_loss: NDArray[np.bool_]
    per_token: NDArray[np.float64] | None
    token_in_loss: NDArray[np.bool_] | None
    groups: tuple[Group, ...]
    credits: tuple[Credit, ...]


def advantages(
    scheme: str | Scheme,
    turns: TurnColumns,
    *,
    mask: Any = None,
    spans: Any = None,
    group_size: int = 0,
    incomplete: Incomplete = "refuse",
) -> Advantages:
    """Score a batch of turns by any scheme.

    Args:
        scheme: a scheme or its name.
        turns: N turns, all of one batch, because groups are compared within it.
        mask: (B, T), nonzero on sampled tokens. Without ``spans`` row i holds turn i (B = N).
        spans: int (N, 3): the row of ``mask`` in which each turn stands, its first token and the one after its last.
            Tokens of the environment may lie within. They are not sampled.
        group_size: number of episodes in a complete group, or 0 to require at least two.
        incomplete: smaller groups are an error ("refuse"), get no credit ("zero"), or are scored as they are ("keep").

    Raises:
        TrajectoryError: turns that do not fit together (``TurnColumns.grouped``), incomplete groups, or spans that do not fit
            the mask (``over_spans``).
        ConfigError: a scheme whose annotations or task fields the columns lack, which credits tokens or learns a critic, or
            which reads texts of turns (see ``assign_groups``).
    """
    chosen = make(scheme) if isinstance(scheme, str) else scheme
    grouped = turns.grouped()
    scorable = [len(group) >= (group_size or 2) or incomplete == "keep" for group in grouped.groups]
    if incomplete == "refuse":
        for group, complete in zip(grouped.groups, scorable, strict=True):
            if not complete:
                raise _incomplete(group.group_id, len(group), group_size)
    if group_size and (large := next((group for group in grouped.groups if len(group) > group_size), None)):
        raise TrajectoryError(f"group {large.group_id!r} has {len(large)} episodes, expected {group_size}")
    scored = [group for group, complete in zip(grouped.groups, scorable, strict=True) if complete]
    credits_ = assign_groups(scored, chosen)
    by_group = dict(zip([group.group_id for group in scored], credits_, strict=True))
    in_loss, per_turn = [], []
    for group in grouped.groups:
        credit, n = by_group.get(group.group_id), len(group.turns)
        in_loss.append(np.zeros(n, np.bool_) if credit is None else credit.flat_loss_mask)
        per_turn.append(np.zeros(n) if credit is None else np.where(credit.flat_loss_mask, credit.flat_advantages, 0.0))
    turn_advantages, turn_in_loss = grouped.spread(per_turn), grouped.spread(in_loss).astype(np.bool_)
    per_token = token_in_loss = None
    if mask is not None:
        sampled = numbers(mask) != 0.0
        if spans is None:
            if sampled.ndim != 2 or len(sampled) != len(turn_advantages):
                raise TrajectoryError(
                    f"without spans each row of the mask must be one turn: expected ({len(turn_advantages)}, T), got "
                    f"{sampled.shape}"
                )
            spans = np.array([(row, 0, sampled.shape[1]) for row in range(len(sampled))], np.int64).reshape(-1, 3)
        per_token = over_spans(turn_advantages, spans, sampled)
        token_in_loss = over_spans(turn_in_loss.astype(np.float64), spans, sampled) > 0.0
    elif spans is not None:
        raise ConfigError("spans are positions of turns in a token mask; pass mask, (B, T), too")
    return Advantages(turn_advantages, turn_in_loss, per_token, token_in_loss, tuple(scored), tuple(credits_))


def read_record(text: Any, name: str) -> Played:
    """The episode of a record (a line of our log), under another name.

    Raises:
        TrajectoryError: there is no record, or it is damaged.
    """
    if not isinstance(text, str) or not text:
        raise TrajectoryError(
            f"episode {name!r} has no record under {FIELD!r}, but {type(text).__name__}: play it in a creditflow "
            "environment, or pass a function that reads its turns"
        )
    trajectory, task = decode_line(text, ())
    return replace(trajectory, trajectory_id=name), task or {}


def make_group(name: str, played: Sequence[Played], *, alone: Literal["refuse", "keep"] = "refuse") -> Group:
    """The group of these episodes of one task, in their order.

    Args:
        name: of the group.
        played: episodes and payloads.
        alone: a group of one has nothing to compare with: "refuse" it, or "keep" it.

    Raises:
        TrajectoryError: no episode, a single one, episodes of several tasks, or a damaged payload.
    """
    if len(played) < (2 if alone == "refuse" else 1):
        raise _incomplete(name, len(played), 0)
    task: dict[str, Any] = {}
    for trajectory, payload in played:
        seen = payload.get("documents", {})
        if not isinstance(seen, Mapping):
            raise TrajectoryError(
                f"episode {trajectory.trajectory_id!r}: 'documents' of its task must be an object, got {short_repr(seen)}"
            )
        documents = {**task.get("documents", {}), **seen}
        payload = payload or task
        task = {**payload, "documents": documents} if documents else dict(payload)
    return Group(tuple(replace(member, group_id=name, replica=i) for i, (member, _) in enumerate(played)), task)


def require_plain(scheme: Scheme) -> None:
    """Raise ConfigError for a scheme that reads annotations, which no other trainer writes."""
    if needed := (*scheme.needs, *scheme.requires_tokens):
        raise ConfigError(
            f"scheme {scheme.name!r} needs {', '.join(needed)}, which annotators write and these turns lack: pass columns of "
            "numbers as TurnColumns(values={name: column}), or use creditflow's own trainer or the TRL adapter"
        )


def assign_groups(groups: Sequence[Group], scheme: Scheme) -> list[Credit]:
    """The credit of each group, as numbers per turn.

    Raises:
        ConfigError: a scheme that credits tokens, learns a critic, or reads annotations, texts or fields of searches of which
            the turns have none.
    """
    fields_read = [*(name for name in scheme.texts if name != "observation"), *scheme.search_fields]
    turns = [turn for group in groups for turn in group.turns]
    if fields_read and turns and not any(getattr(turn, name) for turn in turns for name in fields_read):
        raise ConfigError(
            f"scheme {scheme.name!r} reads {', '.join(fields_read)} of turns, and these turns have none of them: columns of turns "
            "and conversations do not carry them. Score a log that has them (credit.make(…).assign(group)), or play in a "
            "creditflow environment, whose records do"
        )
    annotated = {name for group in groups for turn in group.turns[:1] for name in turn.values}
    if scheme.requires_tokens or not annotated.issuperset(scheme.needs):
        require_plain(scheme)
    credits_ = assigned(scheme, groups) if groups else []
    for credit in credits_:
        if credit.value_targets is not None or credit.token_advantages is not None:
            raise ConfigError(f"scheme {scheme.name!r} credits tokens or trains a critic; only numbers per turn travel")
    return credits_


def assign_turns(groups: Sequence[Group], scheme: Scheme) -> list[tuple[NDArray[np.float64], ...]]:
    """For every group G arrays float64 (T_i,): advantages per turn, 0 for turns that the scheme leaves out of the loss.

    A group of one (``make_group(alone="keep")``) has nothing to compare with and gets zeros.

    Raises:
        ConfigError: see ``assign_groups``.
    """
    assigned = []
    for group, credit in zip(groups, assign_groups(groups, scheme), strict=True):
        turns = zip(credit.advantages, credit.loss_mask, strict=True)
        assigned.append(tuple(np.where(in_loss & (len(group) > 1), per_turn, 0.0) for per_turn, in_loss in turns))
    return assigned


def assign_episodes(
    played: Sequence[Played], names: Sequence[str], scheme: Scheme
) -> list[tuple[Trajectory, NDArray[np.float64]]]:
    """Every episode, as a member of its group, with its advantages per turn, float64 (T_i,), in the order given.

    Args:
        played: episodes and payloads.
        names: the group of each episode.
        scheme: any scheme without annotations.

    Raises:
        TrajectoryError: see ``make_group``.
        ConfigError: see ``require_plain`` and ``assign_groups``.
    """
    require_plain(scheme)
    members: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        members.setdefault(name, []).append(i)
    groups = []
    for name, rows in members.items():
        groups.append(make_group(name, [played[i] for i in rows]))
    scored: dict[int, tuple[Trajectory, NDArray[np.float64]]] = {}
    for rows, group, numbers in zip(members.values(), groups, assign_turns(groups, scheme), strict=True):
        scored |= zip(rows, zip(group.trajectories, numbers, strict=True), strict=True)
    return [scored[i] for i in range(len(played))]


def per_completion(played: Trajectory, per_turn: NDArray[np.float64], completions: int) -> list[float]:
    """A number for each sampled completion: its turn's, or 0 if the environment failed at it, because that is no turn.

    Args:
        played: the episode.
        per_turn: float64 (T,), of its turns.
        completions: how many the trainer sampled: T, or T + 1 if the environment failed at the last one.

    Raises:
        TrajectoryError: another number of completions.
    """
    failed = int(played.stop_reason == "env_error" and completions == len(per_turn) + 1)
    if completions != len(per_turn) + failed:
        raise TrajectoryError(
            f"episode {played.trajectory_id!r} has {len(per_turn)} turns and {completions} sampled completions: was one lost, "
            "added, cut or encoded anew?"
        )
    return [*per_turn.tolist(), *[0.0] * failed]


def per_run(played: Trajectory, per_turn: NDArray[np.float64], runs: int) -> list[float]:
    """A number for each run of sampled tokens (``per_completion``). An empty completion has no run.

    Where the environment failed, as many runs as turns can mean two things: every turn has one and the completion at which it
    failed has none, or a turn's completion was empty. Which turn a run belongs to is then unknown.

    Args:
        played: the episode.
        per_turn: float64 (T,), of its turns.
        runs: how many runs of sampled tokens there are.

    Raises:
        TrajectoryError: another number of runs than turns, or turns that may be empty beside a failure.
    """
    empty = [t for t, turn in enumerate(played.turns) if not turn.response and not turn.action]
    if empty and played.stop_reason == "env_error" and runs == len(per_turn):
        raise TrajectoryError(
            f"episode {played.trajectory_id!r} ended with env_error, and the completion of its turn {empty[0]} is empty: expected "
            f"{runs + 1} runs of sampled tokens, got {runs}, so that which run is which turn is unknown; leave the episode "
            "out, or keep the tokens of each completion apart"
        )
    return per_completion(played, per_turn, runs)


def sampled_runs(mask: Sequence[int]) -> list[tuple[int, int]]:
    """First position of every run of ones, and the one after its last: completions, where the environment wrote between them.

    >>> sampled_runs([1, 1, 0, 1])
    [(0, 2), (3, 4)]
    """
    runs, position = list[tuple[int, int]](), 0
    for sampled, run in groupby(mask, key=bool):
        start, position = position, position + len(list(run))
        if sampled:
            runs.append((start, position))
    return runs


def over_mask(played: Trajectory, per_turn: NDArray[np.float64], mask: Sequence[int]) -> list[float]:
    """A number for each token of a response: its completion's (``per_completion``) on each run of ones, 0 elsewhere.

    Raises:
        TrajectoryError: another number of runs than turns. (A mask of zeros, as of a row that a trainer drops, is one of zeros.)
    """
    row = [0.0] * len(mask)
    if runs := sampled_runs(mask):
        for (start, stop), number in zip(runs, per_run(played, per_turn, len(runs)), strict=True):
            row[start:stop] = [number] * (stop - start)
    return row


def over_spans(
    per_span: NDArray[np.float64], spans: Any, mask: NDArray[np.bool_], *, exact: bool = False
) -> NDArray[np.float64]:
    """float64 (B, T): each span's number on its sampled tokens, 0 everywhere else.

    Args:
        per_span: float64 (S,).
        spans: int (S, 3): row, first token, and the one after the last.
        mask: bool (B, T), True on sampled tokens.
        exact: require that all tokens of a span are sampled.

    Raises:
        TrajectoryError: a span outside the mask, two spans of one token, or, in a row that has spans, sampled tokens that
            belong to none.

    >>> over_spans(np.array([1.0, -2.0]), [(0, 0, 2), (0, 2, 5)], np.array([[False, True, False, True, True]]))
    array([[ 0.,  1.,  0., -2., -2.]])
    """
    table = np.asarray(spans, np.int64).reshape(-1, 3)
    if len(table) != len(per_span) or mask.ndim != 2:
        raise TrajectoryError(
            f"expected a span of each of {len(per_span)} turns and a mask (B, T), got {len(table)} spans and {mask.shape}"
        )
    owner = np.full(mask.shape, -1, np.int64)
    for s, (row, start, stop) in enumerate(table.tolist()):
        if not (0 <= row < mask.shape[0] and 0 <= start <= stop <= mask.shape[1]):
            raise TrajectoryError(
                f"span {s} is tokens {start} to {stop} of row {row}, the mask has {mask.shape[0]} rows of "
                f"{mask.shape[1]} tokens: was the response cut?"
            )
        if (owner[row, start:stop] >= 0).any():
            raise TrajectoryError(f"span {s}: a token of row {row} belongs to two turns")
        if exact and not mask[row, start:stop].all():
            raise TrajectoryError(f"span {s}: the mask leaves out sampled tokens of row {row}")
        owner[row, start:stop] = s
    covered = np.zeros(len(mask), np.bool_)
    covered[table[:, 0]] = True
    if len(lost := np.argwhere(mask & (owner < 0) & covered[:, None])):
        row, token = lost[0].tolist()
        end = int(table[table[:, 0] == row, 2].max())
        raise TrajectoryError(
            f"row {row}: its turns end at token {end} and leave out the sampled token {token + 1} of {mask.shape[1]}: was the "
            "response cut or extended?"
        )
    inside = mask & (owner >= 0)
    out = np.zeros(mask.shape)
    out[inside] = per_span[owner[inside]]
    return out


def _incomplete(name: str, count: int, expected: int) -> TrajectoryError:
    of = f" of {expected}" if expected else ""
    return TrajectoryError(
        f"group {name!r} has {count}{of} episode{'s' * (count != 1)}: credit compares episodes of one task; "
        "sample at least two per task, and compute credit where whole groups are"
    )


def _stop_reason(ended: Any) -> Any:
    """A stop reason, from one or from whether the episode succeeded: True, False, 1 or 0, of Python or NumPy."""
    ended = _plain(ended)
    if isinstance(ended, str):
        return str(ended)  # Trajectory checks it
    if isinstance(ended, bool | int | float) and ended in (0, 1):
        return "success" if ended else "failed"
    raise TrajectoryError(
        "an end is a stop reason or whether the episode succeeded (True or False, 1 or 0), got "
        f"{short_repr(ended)}: pass a stop reason for an end that is neither"
    )


def _require_finite(name: str, rewards: Iterable[float]) -> None:
    for t, reward in enumerate(rewards):
        if not is_number(reward):
            raise TrajectoryError(f"episode {name!r}: turn {t}: reward must be finite, got {short_repr(reward)}")


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of columns by row number, whatever labels a column has; ``called`` names a column in messages."""

    columns: Mapping[str, list[Any]]
    called: Any

    def name(self, column: str, row: int) -> str:
        """A name or an action."""
        with naming(f"{self.called(column)} of row {row}"):
            return _name(self.columns[column][row])

    def state(self, column: str, row: int) -> str:
        """What identifies a state."""
        with naming(f"{self.called(column)} of row {row}"):
            return state_text(self.columns[column][row])


def _plain(value: Any) -> Any:
    """A tensor as an array, and a single number, flag or text of NumPy or a tensor as Python's."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return value.item() if isinstance(value, np.generic) or (type(value) is np.ndarray and not value.shape) else value


def _missing(cell: Any) -> bool:
    """Whether a plain cell has no value: None, NaN, a masked item, or pandas' NA and NaT (which equal nothing either)."""
    if cell is None or cell is np.ma.masked or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float | np.datetime64 | np.timedelta64) and bool(cell != cell)  # NaN differs from itself


def _name(cell: Any) -> str:
    """A name or an action as text: numbers as they are written, whole ones without a point, other values by their content."""
    cell = _plain(cell)
    if _missing(cell):
        raise TrajectoryError(f"a name is missing: expected a text or a number, got {short_repr(cell)}")
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, np.ndarray | Mapping | list | tuple | set | frozenset | bytes):
        return state_text(cell)
    try:
        return str(cell)
    except (ValueError, RecursionError) as error:
        raise TrajectoryError(f"names and actions are texts, got {short_repr(cell)}") from error


def _content(cell: Any) -> str:
    """What two copies of a cell have in common, a missing one included."""
    cell = _plain(cell)
    return "missing" if _missing(cell) else state_text(cell)

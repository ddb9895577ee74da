"""Episodes of other libraries as trajectories: state keys, rewards, success, ends, groups.

A foreign log seldom says what a state is. ``ImportSettings.state_key`` names it: "observation" (equal texts are one state),
"history" (equal texts and responses up to the turn, which is exact for a deterministic environment and merges
nothing else), "none" (every visit has a key of its own), or a field.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, Literal, cast

from creditflow.envs.errors import ConfigError, DataError, TrajectoryError, short_repr
from creditflow.train.adapters.logs.rows import (
    MISSING,
    Row,
    RowError,
    Tally,
    at_path,
    given_name,
    key_of,
    number,
    truth,
)
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import Log
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = [
    "CUTS",
    "ENDS",
    "End",
    "Episode",
    "Exchange",
    "ImportSettings",
    "as_word",
    "end_of",
    "group_episodes",
    "require_known_ends",
    "require_length",
]

KEYS: Final = ("observation", "history", "none")
LONGEST: Final = (
    50_000  # messages or turns of a rollout; a hostile line may have millions, each of which takes a kilobyte
)
REMAINDER: Final = 1e-6  # relative; smaller differences of sums of rewards are rounding errors of the writer
ROUNDING: Final = 1e-9  # relative; a sum that falls short of a threshold by less reaches it: 0.7 + 0.2 + 0.1 reaches 1


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """How a log is read where its format leaves a choice.

    Attributes:
        state_key: "observation", "history", "none", or the path of a field: of a turn, or of a row with one entry per turn
            (and perhaps one more for the state after the last).
        id: path of the field that names a rollout; "" for the format's own rule.
        group: path of the field that names a row's group; "" for the format's own rule.
        reward: path of the reward; "" for the format's own; TRL: names of columns with weights, "a,b*0.5".
        success: path of the field that says whether a rollout succeeded; "" for the reward.
        success_at: a rollout counts as successful if that number is at least this.
        done: path of the field that says how a rollout ended (``ENDS``); "" for the format's own rule.
        messages: plain messages: path of the list of messages; "" for "messages".
        turns: how a text without messages is cut into turns (verl): "roles", "search" or "single".
        strict: whether the first row that cannot be read is an error.
    """

    state_key: str = "observation"
    id: str = ""
    group: str = ""
    reward: str = ""
    done: str = ""
    messages: str = ""
    success: str = ""
    success_at: float = 1.0
    turns: str = "roles"
    strict: bool = False

    def __post_init__(self) -> None:
        if not self.state_key:
            raise ConfigError(f"state_key is one of {', '.join(KEYS)} or the path of a field, got an empty text")
        if not abs(self.success_at) < float("inf"):
            raise ConfigError(f"success_at must be a finite number, got {self.success_at}")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn: what the agent saw, and what it wrote.

    Attributes:
        observation: texts since its last response.
        response: everything it wrote.
        action: the part that acts: tool calls, else the response without its thought.
        thought: its reasoning.
        parsed: whether the action could be parsed.
        reward: recorded reward of the turn.
        fields: recorded fields of the turn; a state key among them names the state before it.
        after: recorded fields of the environment's reply; a state key among them names the state after the turn.
        values: recorded numbers.
        images: names of images in the observation.
        messages: number of messages that the turn consists of.
        results: number of results of tools that were shown after it.
    """

    observation: str
    response: str
    action: str
    thought: str = ""
    parsed: bool = True
    reward: float = 0.0
    fields: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    messages: int = 1
    results: int = 0


@dataclass(frozen=True, slots=True)
class Episode:
    """One rollout as a library wrote it.

    Attributes:
        where: position in the file.
        task: what names the task; equal values are one task.
        group: what names the group among the task's, such as the training step.
        turns: its turns, at least one.
        reward: recorded outcome.
        row: the row, in which fields are looked up.
        last_observation: text after the last response; None if there is none.
        end: how it ended: "failed", why it was cut, or "" if it ended by itself and its outcome says the rest.
        policy: name of the model.
        values: recorded numbers of the rollout.
        id: the file's own name of the rollout, kept as the trajectory's id; "" for its place in the file.
        task_id: the file's own name of the task, kept; "" for a digest of ``task``.
        messages: the conversation as JSON messages, if its turns do not contain all of it.
        parent: the id of an earlier rollout of its group, whose first turns are this one's too; "" for none.
    """

    where: str
    task: Any
    group: Any
    turns: tuple[Exchange, ...]
    reward: float
    row: Mapping[str, Any]
    last_observation: str | None = None
    end: str = ""
    policy: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    id: str = ""
    task_id: str = ""
    messages: tuple[str, ...] = ()
    parent: str = ""


def require_length(count: int) -> None:
    """Raise RowError if a rollout has too many messages or turns."""
    if count > LONGEST:
        raise RowError(f"a rollout has more than {LONGEST:,} messages")


def group_episodes(source: str, episodes: Iterable[Episode], settings: ImportSettings, tally: Tally) -> Log:
    """Collect episodes into groups; the lines of the log stand in the order of the file.

    Args:
        source: name of the library, the first part of the task ids that the file does not give.
        episodes: rollouts in file order.
        settings: choices of the user.
        tally: counts, to which what is left out or adjusted is added.

    Raises:
        DataError: with ``strict``, a rollout that has no id, group, state or success where the settings look for them.
    """
    members: dict[str, dict[str, Trajectory]] = {}
    order = list[str]()
    seen = set[tuple[str, str]]()
    full_episodes: dict[tuple[str, str], Trajectory] = {}
    for episode in episodes:
        try:
            task_id, group_id = _names(source, episode, settings)
            rollouts = members.get(group_id, {})
            if rollouts and next(iter(rollouts.values())).task_id != task_id:
                raise RowError("its group has rollouts of another task", short_repr(group_id))
            name = _id(episode, rollouts, settings, tally)
            trajectory = _trajectory(episode, name, group_id, task_id, len(rollouts), settings, tally)
        except RowError as error:
            tally.leave_out(episode.where, error)
        except TrajectoryError as error:
            tally.leave_out(episode.where, RowError("it is not a valid trajectory", str(error)))
        else:
            parent = full_episodes.get((group_id, episode.parent))
            stored = _branch(trajectory, parent, settings, tally) if episode.parent else trajectory
            before = parent.turns[: stored.fork_turn] if parent and stored.parent else ()
            full_episodes[group_id, name] = replace(stored, turns=(*before, *stored.turns), parent="", fork_turn=-1)
            members.setdefault(group_id, {})[name] = stored
            order.append(group_id)
            texts = (group_id, _history_keys([*(turn.observation for turn in episode.turns), ""], episode.turns)[-1])
            tally.note(
                "rollouts with the texts of another one of their group: equal samples, or copies under another id",
                int(texts in seen),
            )
            seen.add(texts)
    numbers = {group_id: number for number, group_id in enumerate(members)}
    groups = tuple(Group(tuple(rollouts.values())) for rollouts in members.values())
    return Log(groups, tuple(numbers[group_id] for group_id in order))


def _names(source: str, episode: Episode, settings: ImportSettings) -> tuple[str, str]:
    """The ids of the task and of the group."""
    name = at_path(episode.row, settings.group) if settings.group else episode.group
    if name is MISSING:
        raise RowError(f"there is no group under {settings.group!r}")
    task_id = episode.task_id or f"{source}1:{_digest(episode.task)}"
    if name in (None, ""):
        return task_id, task_id
    if settings.group and not episode.task_id:  # the user says what belongs together, also where prompts differ
        return f"{source}1:{_digest(name)}", given_name(name)
    # a log that names its tasks names its groups too: both are kept
    return task_id, given_name(name) if episode.task_id else f"{task_id}#{key_of(name)}"


def _id(episode: Episode, rollouts: Mapping[str, Any], settings: ImportSettings, tally: Tally) -> str:
    """The id of a rollout: the file's, or its place in the file where it has none or repeats one."""
    position = episode.where.rpartition(": ")[2]
    if settings.id:
        value = at_path(episode.row, settings.id)
        if value is MISSING or value in (None, ""):
            raise RowError(f"there is no id under {settings.id!r}")
        if (name := given_name(value)) in rollouts:
            raise RowError(f"another rollout of its group has the same id under {settings.id!r}", short_repr(name))
        return name
    if episode.id and episode.id not in rollouts:
        return episode.id
    tally.note("ids repeat within a group; these rollouts are named by their place in the file", int(bool(episode.id)))
    name = position
    while name in rollouts:  # somebody's id may read like a place in the file
        name += "'"
    return name


def _digest(value: Any) -> str:
    key = key_of([value])
    return key.removeprefix("hash:")


def _trajectory(
    episode: Episode,
    trajectory_id: str,
    group_id: str,
    task_id: str,
    replica: int,
    settings: ImportSettings,
    tally: Tally,
) -> Trajectory:
    name = f"{group_id}/{replica}"  # unlike ids, unique in the log: for states that no other rollout visits
    states = _state_keys(episode, name, settings, tally)
    texts = [_text_key(turn.observation) for turn in episode.turns]
    texts.append(_unseen(name) if episode.last_observation is None else _text_key(episode.last_observation))
    # an end that says that the episode failed or broke outweighs its reward; a limit does not, as success may come in the last turn
    success = episode.end not in ("failed", "env_error") and _success(episode, settings)
    reason = "success" if success else episode.end or "failed"
    tally.note("score is the reward cut to [0, 1]", int(not 0.0 <= episode.reward <= 1.0))
    turns = []
    for t, (turn, reward) in enumerate(zip(episode.turns, _rewards(episode, tally), strict=True)):
        tally.turns += 1
        tally.empty += not turn.response
        turns.append(
            Turn(
                state_key=states[t],
                action=turn.action,
                next_state_key=states[t + 1],
                reward=reward,
                parsed=turn.parsed,
                effective=states[t] != states[t + 1],
                observation=turn.observation,
                thought=turn.thought,
                response=turn.response,
                text_key=texts[t],
                values=dict(turn.values),
                images=turn.images,
            )
        )
    return Trajectory(
        trajectory_id=trajectory_id,
        group_id=group_id,
        task_id=task_id,
        turns=tuple(turns),
        success=success,
        score=min(max(episode.reward, 0.0), 1.0),
        stop_reason=cast(StopReason, reason),
        final_state_key=states[-1],
        final_text_key=texts[-1],
        policy=episode.policy,
        replica=replica,
        values=dict(episode.values),
        messages=episode.messages,
    )


def _branch(trajectory: Trajectory, parent: Trajectory | None, settings: ImportSettings, tally: Tally) -> Trajectory:
    """A rollout without the turns that its parent stores: those that show, say and pay the same and lead to the same state."""
    if parent is None:
        tally.note("rollouts whose parent is no earlier rollout of their group: they are episodes of their own")
        return trajectory
    by_field, fork = settings.state_key not in KEYS, 0
    ours, theirs = _states(trajectory), _states(parent)
    for t, (turn, other) in enumerate(zip(trajectory.turns, parent.turns, strict=False)):
        said = (turn.response, turn.action, turn.reward) == (other.response, other.action, other.reward)
        texts = ours[t][1] == theirs[t][1] and ours[t + 1][1] == theirs[t + 1][1]
        if not said or not texts or (by_field and ours[t + 1] != theirs[t + 1]):
            break
        fork = t + 1
    if not fork:
        tally.note("rollouts that begin with no turn of their parent: they are episodes of their own")
        return trajectory
    tally.note("turns that rollouts share with their parents, stored once", fork)
    turns, state = trajectory.turns[fork:], theirs[fork][0]  # the same state, also where keys name visits
    if turns:
        turns = (replace(turns[0], state_key=state, effective=state != turns[0].next_state_key), *turns[1:])
    end = trajectory.final_state_key if turns else state
    return replace(trajectory, turns=turns, final_state_key=end, parent=parent.trajectory_id, fork_turn=fork)


def _states(trajectory: Trajectory) -> list[tuple[str, str]]:
    """T+1 pairs: the key of each state, and that of its text."""
    before = [(turn.state_key, turn.text_key) for turn in trajectory.turns]
    return [*before, (trajectory.final_state_key, trajectory.final_text_key)]


def _success(episode: Episode, settings: ImportSettings) -> bool:
    if not settings.success:
        return _reaches(episode.reward, settings.success_at)
    value = at_path(episode.row, settings.success)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        value = value.strip().lower() == "true"
    if isinstance(value, bool) and settings.success_at != 1.0:
        raise ConfigError(f"{settings.success!r} is true or false, on which success_at has no effect; leave it out")
    return value if isinstance(value, bool) else _reaches(number(value, settings.success), settings.success_at)


def _reaches(value: float, threshold: float) -> bool:
    return value >= threshold or math.isclose(value, threshold, rel_tol=ROUNDING)


def _rewards(episode: Episode, tally: Tally) -> list[float]:
    """The recorded rewards of turns if they add up to the outcome; else the outcome is the last turn's reward."""
    rewards = [turn.reward for turn in episode.turns]
    largest = max(map(abs, [*rewards, episode.reward]))
    if any(rewards) and abs(math.fsum(rewards) - episode.reward) <= REMAINDER * largest:
        return rewards
    tally.note(
        "rewards of turns do not add up to the outcome; only the outcome is used, at the last turn", int(any(rewards))
    )
    return [0.0] * (len(rewards) - 1) + [episode.reward]


def _state_keys(episode: Episode, name: str, settings: ImportSettings, tally: Tally) -> list[str]:
    """T+1 keys."""
    mode, turns = settings.state_key, episode.turns
    if mode == "none":
        return [key_of(["visit", name, t]) for t in range(len(turns) + 1)]
    if mode in ("observation", "history"):
        tally.note("the state after the last response is not recorded", int(episode.last_observation is None))
        observations = [*(turn.observation for turn in turns), episode.last_observation or ""]
        if mode == "history":
            keys = _history_keys(observations, turns)
        else:
            keys = [_shown_key(text, name, t, episode) for t, text in enumerate(observations)]
            unshown = sum(not text for text in observations[1 : len(turns)])
            tally.note("turns before which nothing was shown: each is a state of its own", unshown)
        return [*keys[:-1], _unseen(name)] if episode.last_observation is None else keys
    return _field_keys(episode, name, mode, tally)


def _shown_key(text: str, name: str, t: int, episode: Episode) -> str:
    """The key of what was shown; before the first turn nothing means the start of the task, later it tells no state from another."""
    if text:
        return _text_key(text)
    return key_of(["start", episode.task]) if t == 0 else key_of(["nothing shown", name, t])


def _history_keys(observations: Sequence[str], turns: Sequence[Exchange]) -> list[str]:
    """One key for each text shown (T+1), of all texts and responses up to it."""
    digest, keys = blake2b(digest_size=16), list[str]()
    for t, text in enumerate(observations):
        _tell(digest, text)
        keys.append("hash:" + digest.hexdigest())
        if t < len(turns):
            _tell(digest, turns[t].response)
    return keys


def _field_keys(episode: Episode, name: str, path: str, tally: Tally) -> list[str]:
    """Keys from a field of every turn, or from a list of the row."""
    states = [at_path(turn.fields, path) for turn in episode.turns]
    listed = at_path(episode.row, path)
    if MISSING in states and isinstance(listed, list):
        if len(listed) not in (len(states), len(states) + 1):
            raise RowError(f"{path!r} has not one state for each turn", f"{len(listed)} for {len(states)} turns")
        states = listed
    if MISSING in states:
        return _keys_after(episode, path, tally)
    keys = [key_of(value) for value in states]
    if len(keys) == len(episode.turns):
        tally.note("the state after the last response is not recorded")
        keys.append(_unseen(name))
    return keys


def _keys_after(episode: Episode, path: str, tally: Tally) -> list[str]:
    """Keys from a field of the environment's replies; a turn without a reply leaves the state as it is."""
    states = [at_path(turn.after, path) for turn in episode.turns]
    if all(value is MISSING for value in states):
        raise RowError(f"there is no state under {path!r}")
    tally.note("the state before the first turn is named by the task alone")
    keys = [key_of(["start", episode.task])]
    for value in states:
        keys.append(keys[-1] if value is MISSING else key_of(value))
    return keys


def _unseen(name: str) -> str:
    """A state that no other trajectory visits."""
    return key_of(["after", name])


def _text_key(observation: str) -> str:
    return key_of([observation])


def _tell(digest: Any, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    digest.update(len(data).to_bytes(8, "big") + data)


# How an episode ended, in the words of trainers, servers and benchmarks. A limit says nothing about the state in which it cut an
# episode, so it must not be taken for an end of the task. A row says it in the field that ``--done`` names, or in ``done``; and one of
# ``CUTS`` that is true, in the row or in its ``info``, is a limit whatever ``done`` says, as in Gym's old interface.
End = Literal["", "failed", "env_limit", "token_limit", "env_error"]  # "": by itself
CUTS: Final = ("truncated", "is_truncated", "TimeLimit.truncated")
ENDS: Final[Mapping[str, End]] = {
    **dict.fromkeys(
        (
            "true",
            "done",
            "stop",
            "stopped",
            "success",
            "succeeded",
            "solved",
            "terminated",
            "complete",
            "completed",
            "finished",
            "end",
            "end_turn",
            "end_of_turn",
            "eos",
            "eos_token",
            "stop_sequence",
            "stop_token",
            "tool_calls",
            "tool_use",
            "function_call",
            "user_stop",
            "agent_stop",
            "submitted",
            "exit",
            "yes",
            "1",
            "1.0",
        ),
        "",
    ),
    **dict.fromkeys(
        ("failed", "failure", "fail", "too_many_errors", "agent_error", "invalid_agent_message", "format"), "failed"
    ),
    **dict.fromkeys(
        (
            "false",
            "truncated",
            "max_turns",
            "max_turns_reached",
            "max_turns_exceeded",
            "max_steps",
            "max_steps_reached",
            "max_steps_exceeded",
            "max_iterations",
            "interrupted",
            "incomplete",
            "unfinished",
            "turn_limit",
            "step_limit",
            "env_limit",
            "tool_limit",
            "max_tool_calls",
            "recursion_limit",
            "timeout",
            "time_limit",
            "limit",
            "exit_cost",
            "no",
            "0",
            "0.0",
        ),
        "env_limit",
    ),
    **dict.fromkeys(
        (
            "length",
            "max_tokens",
            "max_length",
            "token_limit",
            "context_length",
            "context_length_exceeded",
            "context_window_exceeded",
            "model_length",
            "exit_context",
            "prompt_too_long",
            "max_output_tokens",
        ),
        "token_limit",
    ),
    **dict.fromkeys(
        (
            "error",
            "env_error",
            "exception",
            "crashed",
            "abort",
            "aborted",
            "cancelled",
            "canceled",
            "content_filter",
            "infrastructure_error",
            "user_error",
            "api_error",
            "exit_error",
            "exit_environment_error",
        ),
        "env_error",
    ),
}
UNKNOWN: Final = (
    "rollouts of which the file does not say how they ended count as ended by themselves; if limits cut some, name the "
    "field that says so: --done FIELD"
)


def end_of(row: Row, field: str, tally: Tally) -> End:
    """How the rollout of a row ended.

    Args:
        row: the row.
        field: path of the field that says it; "" for "done".
        tally: where an end that is not said is noted, and an unknown word remembered.

    Raises:
        RowError: there is nothing under a field that was named, or neither a word nor true or false.
    """
    value = at_path(row, field or "done")
    places = (row, at_path(row, "info"))
    cut = any(truth(at_path(place, name), name) for place in places for name in CUTS)
    if value is MISSING or value is None or value == "":
        if field:
            raise RowError(f"there is no end under {field!r}")
        if not cut:
            tally.note(UNKNOWN)
        return "env_limit" if cut else ""
    if field.rpartition(".")[2] in CUTS or field in CUTS:  # true says that a limit cut it
        return "env_limit" if truth(value, field) else ""
    end = end_of_word(value, field or "done", tally)
    return "env_limit" if cut and end in ("", "failed") else end


def end_of_word(value: Any, field: str, tally: Tally) -> End:
    """The end that a word, true or false names; an unknown word is remembered, so that the import fails with all of them."""
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        return "" if value else "env_limit"
    if not isinstance(value, str):
        raise RowError(f"{field!r} is neither true, false nor a word", short_repr(value))
    word = as_word(value)
    if word not in ENDS:
        tally.unknown_ends[value] += 1
        return ""
    return ENDS[word]


def as_word(end: str) -> str:
    """A way to end as ``ENDS`` writes it: "FinishReason.MAX_TOKENS" is "max_tokens"."""
    word = end.strip().lower().replace("-", "_").replace(" ", "_")
    return word if word in ENDS else word.rpartition(".")[2]


def require_known_ends(path: str, tally: Tally) -> None:
    """Raise DataError, with all of them, if ends of rollouts are called by unknown words."""
    if tally.unknown_ends:
        words = ", ".join(f"{short_repr(word, 60)} ({count})" for word, count in tally.unknown_ends.most_common(10))
        raise DataError(
            f"{path}: unknown ways to end: {words}. Known are {', '.join(ENDS)}. Write one of these instead; or, if the field does "
            "not say how an episode ended, name another one with --done"
        )

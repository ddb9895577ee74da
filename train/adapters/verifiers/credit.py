"""Credit for verifiers' episodes: one number per completion, on the sampled tokens of its node of the trace.

A trace is one episode with one outcome, however many branches it has: the completions of all of them are its turns, in the order
of sampling, so a group counts each trace once, and a node that several branches share has one number.

``MessageNode.advantages`` is verifiers' own field for credit per sampled token, which prime-rl trains on. The numbers per turn
are also in ``trace.info["creditflow_advantages"]``, for traces without token ids (the eval client records none) and for tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from creditflow.envs.errors import TrajectoryError
from creditflow.train.adapters.logs.rows import RowError
from creditflow.train.adapters.logs.verifiers import rejected_summaries, turns_of_trace
from creditflow.train.adapters.text_episode import with_thought
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.credit.bridge import (
    FIELD,
    Played,
    assign_turns,
    make_episode,
    make_group,
    per_completion,
    read_record,
    require_plain,
)
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["ADVANTAGES", "completion_text", "credit_episodes", "read_messages", "read_recorded", "sampled_nodes"]


def sampled_nodes(trace: Any) -> list[tuple[Any, bool]]:
    """The nodes that the model sampled, on all branches, in the order of sampling, and whether each is a turn.

    All are turns but attempts at a summary that the harness rejected, on which verifiers does not train either. A renderer may
    encode an earlier completion anew, which begins another branch; its sampled tokens stay where they were sampled.
    """
    rejected = rejected_summaries(_plain(trace))
    return [(node, i not in rejected) for i, node in enumerate(trace.nodes) if node.sampled]


def read_recorded(trace: Any) -> Played:
    """The trajectory of a trace that ``CreditEnv`` played.

    A completion that was no step of the environment, such as a summary or a sub-agent's, is a turn that leaves the state as it is.

    Raises:
        TrajectoryError: no record, or one whose completions are not those of the trace.
    """
    played, task = read_record(trace.info.get(FIELD), trace.id)
    texts = [completion_text(node.message) for node, is_turn in sampled_nodes(trace) if is_turn]
    recorded = [turn.response for turn in played.turns]
    failed = played.stop_reason == "env_error"  # perhaps at a completion that is no turn then
    if len(texts) in (len(recorded), len(recorded) + failed) or not all(recorded):
        for t, (response, text) in enumerate(zip(recorded, texts, strict=False)):
            if response not in ("", text):
                raise TrajectoryError(
                    f"trace {trace.id!r}: turn {t} of its record has another completion than its node"
                )
        return played, task
    steps = _places(recorded, texts)
    if steps is None:
        raise TrajectoryError(
            f"trace {trace.id!r} has {len(texts)} sampled completions and a record of {len(recorded)} turns, whose completions are "
            "not among them in this order, or at several places: was one lost or rewritten?"
        )
    if failed and len(texts) - 1 not in steps:
        texts.pop()
    return _with_pauses(played, texts, steps), task


def _places(recorded: Sequence[str], texts: Sequence[str]) -> list[int] | None:
    """The places of texts among others, in order; None if there are none or several."""

    def earliest(recorded: Sequence[str], texts: Sequence[str]) -> list[int] | None:
        places, at = list[int](), 0
        for response in recorded:
            while at < len(texts) and texts[at] != response:
                at += 1
            if at == len(texts):
                return None
            places.append(at)
            at += 1
        return places

    first, last = earliest(recorded, texts), earliest(recorded[::-1], texts[::-1])
    return first if last is not None and first == [len(texts) - 1 - at for at in reversed(last)] else None


def _with_pauses(played: Trajectory, texts: Sequence[str], steps: Sequence[int]) -> Trajectory:
    """The episode with a turn for each completion; those that are no step of the environment change nothing."""
    turns, remaining = list[Turn](), dict(zip(steps, played.turns, strict=True))
    for at, text in enumerate(texts):
        if at in remaining:
            turns.append(remaining.pop(at))
            continue
        state, shown = next(
            ((later.state_key, later.text_key) for later in remaining.values()),
            (played.final_state_key, played.final_text_key),
        )
        turns.append(Turn(state, text, state, effective=False, response=text, text_key=shown))
    return replace(played, turns=tuple(turns))


def completion_text(message: Any) -> str:
    """A completion as the model wrote it: some servers and renderers take its reasoning apart."""
    return with_thought(message.reasoning_content, str(message.content or ""))


def read_messages(*, success: Callable[[Any], bool | str]) -> Callable[[Any], Played]:
    """A reader of other environments' traces: a state is what the model was shown since its last completion.

    The completions of all branches are one episode, in the order of sampling. The trace's reward is the last turn's. Equal texts
    are equal states, so it suits environments whose messages identify the state; an environment that can name its states should
    record them.

    Args:
        success: whether a trace solved its task, or how it ended: a stop reason, where a limit may have cut it.
    """

    def read(trace: Any) -> Played:
        try:
            turns = turns_of_trace(_plain(trace)).turns
        except RowError as error:
            raise TrajectoryError(f"trace {trace.id!r}: {error}") from error
        played = make_episode(
            trace.id,
            task_id=str(trace.task.key or trace.task.hash),
            states=[turn.observation for turn in turns],
            actions=[turn.action for turn in turns],
            rewards=[*[0.0] * (len(turns) - 1), trace.reward],
            ended=success(trace),
            values=[turn.values for turn in turns],
        )
        return played, {}

    return read


def _plain(trace: Any) -> list[dict[str, Any]]:
    """The nodes of a trace as its log has them, without tokens and credit."""
    return [
        {
            "parent": node.parent,
            "message": node.message.model_dump(exclude_none=True),
            "sampled": node.sampled,
            "semantic_parents": [link.model_dump() for link in node.semantic_parents],
        }
        for node in trace.nodes
    ]


ADVANTAGES: Final = f"{FIELD}_advantages"  # in a trace's info: the numbers per turn


def credit_episodes(
    episodes: Sequence[Any],
    scheme: Scheme,
    *,
    agent: str = "player",
    read: Callable[[Any], Played] | None = None,
    alone: Literal["refuse", "zero"] = "refuse",
) -> list[Group]:
    """Write the credit of whole groups into their traces; returns the groups.

    Episodes are grouped by ``episode.group``, where a trainer sets it, else by the task's key. Traces that failed in verifiers
    (``ok`` is false) get no credit, as they are not trained on.

    Args:
        episodes: ``verifiers.v1.Episode``, all of a batch.
        scheme: the scheme.
        agent: the seat that is credited; "" credits every trainable one.
        read: the trajectory of a trace; default ``read_recorded``. ``read_messages(…)`` is for other environments.
        alone: a group of which one trace, or none, is left: "refuse" it, or give "zero" credit.

    Raises:
        TrajectoryError: a group of one, a trace without record or with lost turns, a reward that is not finite.
        ConfigError: a scheme that reads annotations, credits tokens or learns a critic.
    """
    require_plain(scheme)
    read = read or read_recorded
    members: dict[str, list[Any]] = {}
    for episode in episodes:
        name = str(episode.group.id if episode.group is not None else episode.task.key)
        for trace in episode.traces:
            if trace.ok and trace.agent.trainable and agent in ("", trace.agent.name):
                members.setdefault(name if agent else f"{name}/{trace.agent.name}", []).append(trace)
    if not members and alone == "refuse":
        raise TrajectoryError(f"no finished trace of the agent {agent!r} among {len(episodes)} episodes")
    incomplete: Literal["refuse", "keep"] = "refuse" if alone == "refuse" else "keep"
    groups = list[Group]()
    for name, traces in members.items():
        groups.append(make_group(name, [read(trace) for trace in traces], alone=incomplete))
    spread: list[tuple[Any, list[tuple[Any, float]]]] = []
    for traces, group, numbers in zip(members.values(), groups, assign_turns(groups, scheme), strict=True):
        for trace, member, advantages in zip(traces, group.trajectories, numbers, strict=True):
            _require_masks(trace)
            nodes = sampled_nodes(trace)
            of_turns = iter(per_completion(member, advantages, sum(is_turn for _, is_turn in nodes)))
            spread.append((trace, [(node, next(of_turns) if is_turn else 0.0) for node, is_turn in nodes]))
    for trace, credited in spread:  # written only when the whole batch fits
        trace.info[ADVANTAGES] = [number for _, number in credited]
        for node, number in credited:
            node.advantages = [number] * sum(node.mask)
    return groups


def _require_masks(trace: Any) -> None:
    """Raise TrajectoryError unless each token of a trace has a mask bit."""
    for node in trace.nodes:
        if len(node.mask) != len(node.token_ids):
            raise TrajectoryError(
                f"trace {trace.id!r}: a node has {len(node.token_ids)} ids and {len(node.mask)} mask bits"
            )

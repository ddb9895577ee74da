"""Credit on verifiers' own types: every sampled token has its turn's number, no other token has any; broken traces are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.strategies import groups
from helpers.trainers.verifiers_traces import episodes_of, trace_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.contract import ContractCase, OnTokens, check_end
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import encode_line
from creditflow.wrappers.records.trajectory import Trajectory

pytestmark = pytest.mark.verifiers


@st.composite
def played_groups(draw: st.DrawFn) -> tuple[Group, list[list[tuple[int, int]]]]:
    group = draw(groups(min_size=2, max_size=4, min_turns=1, max_turns=5))
    counts = st.tuples(st.integers(1, 4), st.integers(1, 4))
    return group, [[draw(counts) for _ in one.turns] for one in group.trajectories]


@given(played_groups())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_each_sampled_token_has_its_turns_number_and_no_other_token_has_any(
    drawn: tuple[Group, list[list[tuple[int, int]]]],
) -> None:
    from creditflow.train.adapters.verifiers.credit import credit_episodes

    group, spans = drawn
    scheme = credit.make("gigpo")
    traces = [trace_of(one, counts) for one, counts in zip(group.trajectories, spans, strict=True)]
    credit_episodes(episodes_of(traces), scheme)
    expected = scheme.assign(group)
    for trace, counts, numbers, kept in zip(traces, spans, expected.advantages, expected.loss_mask, strict=True):
        [branch] = trace.branches
        wanted = np.concatenate(
            [
                [0.0] * shown + [x] * sampled
                for (shown, sampled), x in zip(counts, np.where(kept, numbers, 0.0), strict=True)
            ]
        )
        mask = np.concatenate([[False] * shown + [True] * sampled for shown, sampled in counts])
        assert branch.sampled_mask == mask.tolist()
        assert branch.advantages == wanted.tolist()


def test_the_end_passes_the_contract() -> None:
    from creditflow.train.adapters.verifiers.credit import credit_episodes

    def end(case: ContractCase, scheme: Scheme) -> OnTokens:
        episodes, traces = [], []
        for group in case.groups:
            made = [trace_of(episode, case.counts(episode)) for episode in group.trajectories]
            traces += made
            episodes += episodes_of(made, group.group_id)
        credit_episodes(episodes, scheme)
        return [[node.advantages for node in trace.nodes if node.sampled] for trace in traces]

    check_end(end)


def pair() -> list[Trajectory]:
    from helpers.episodes.token_groups import GROUPS

    return [replace(one, tokens=None) for one in GROUPS["one turn"].trajectories[:2]]


def refused(traces: list[Any], match: str, **others: Any) -> None:
    from creditflow.train.adapters.verifiers.credit import credit_episodes

    with pytest.raises(TrajectoryError, match=match):
        credit_episodes(episodes_of(traces), credit.make("grpo"), **others)
    assert all(node.advantages is None for trace in traces for node in trace.nodes)


def test_a_group_of_one_is_refused() -> None:
    refused([trace_of(pair()[0], [(1, 1)])], "group 'task' has 1 episode: credit compares")


def test_a_lost_turn_is_refused() -> None:
    a, b = pair()
    refused([trace_of(a, [(1, 1)]), trace_of(b, [(1, 1), (1, 1)])], "has 1 turns and 2 sampled completions")


def test_a_trace_without_record_or_with_a_damaged_one_is_refused() -> None:
    a, b = pair()
    bare = trace_of(b, [(1, 1)])
    del bare.info["creditflow"]
    refused([trace_of(a, [(1, 1)]), bare], "has no record under 'creditflow'")
    bare.info["creditflow"] = encode_line(b, None).replace('"turns"', '"turn"')
    refused([trace_of(a, [(1, 1)]), bare], "turns must be a list, got None")
    bare.info["creditflow"] = encode_line(b, None)[:40]
    refused([trace_of(a, [(1, 1)]), bare], "JSON")


def test_a_reward_that_is_not_a_number_is_refused() -> None:
    a, b = pair()
    broken = trace_of(b, [(1, 1)])
    broken.record_reward("return", float("nan"))
    from creditflow.train.adapters.verifiers.credit import read_messages

    refused([trace_of(a, [(1, 1)]), broken], "turn 0: reward must be finite, got nan", read=read_messages(success=bool))


def said(trace: Any, messages: list[Any], text: str, tokens: int = 2) -> Any:
    """Let the model answer these messages; returns its node."""
    from verifiers.v1.graph import prepare_turn
    from verifiers.v1.types import AssistantMessage, Response, TurnTokens

    width = len(messages)
    spans = TurnTokens(
        prompt_ids=[10 * len(trace.nodes) + i for i in range(width)],
        completion_ids=list(range(1000, 1000 + tokens)),
        completion_logprobs=[-1.0] * tokens,
        message_spans=[(i, i + 1) for i in range(width)],
    )
    answer = AssistantMessage(content=text)
    response = Response(id="", created=0, model="", message=answer, finish_reason="stop", tokens=spans)
    prepare_turn(trace, messages).commit(response)
    return trace.nodes[-1]


def link(node: Any, source: int, kind: str) -> None:
    from verifiers.v1.semantic import ParentLink

    node.semantic_parents.append(ParentLink(node=source, type=kind))


def compacted(played: Trajectory) -> Any:
    """The trace of an episode, whose harness then asks a sub-agent, tries twice to summarise, and goes on from the second summary."""
    from verifiers.v1.types import UserMessage

    trace = trace_of(played, [(1, 1)] * len(played.turns))
    said(trace, [UserMessage(content="sub-agent: look")], "a door")
    history = trace.branches[0].messages
    for text in ("too long", "I went"):
        node = said(trace, [*history, UserMessage(content="summarise")], text, tokens=3)
        link(node, 0, "compaction_attempt")
    summary = len(trace.nodes) - 1
    link(said(trace, [UserMessage(content="so far: I went")], "stop"), summary, "compaction")
    return trace


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "graphgpo"])
def test_every_completion_of_a_trace_with_branches_has_one_number_and_a_rejected_summary_none(scheme: str) -> None:
    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes, read_messages

    a, b = pair()
    traces = [compacted(a), compacted(b)]
    traces[0].record_reward("solved", 1.0)
    read = read_messages(success=lambda trace: trace.reward > 0)
    [group] = credit_episodes(episodes_of(traces), credit.make(scheme), read=read)
    expected = credit.make(scheme).assign(group).advantages
    for trace, member, numbers in zip(traces, group.trajectories, expected, strict=True):
        texts = [node.message.content for node in trace.nodes if node.sampled]
        assert texts == [*[f"action {t}" for t in range(len(texts) - 4)], "a door", "too long", "I went", "stop"]
        assert [turn.action for turn in member.turns] == [text for text in texts if text != "too long"]
        assert trace.info[ADVANTAGES] == [*numbers[:-2].tolist(), 0.0, *numbers[-2:].tolist()]
        for node, number in zip((node for node in trace.nodes if node.sampled), trace.info[ADVANTAGES], strict=True):
            assert node.advantages == [number] * sum(node.mask)
        for branch in trace.branches:  # as verifiers and prime-rl train on them
            assert not np.array(branch.advantages)[~np.array(branch.sampled_mask)].any()
        if scheme == "grpo":  # prime-rl's own: the trace's advantage on all of its completions
            assert len(set(numbers.tolist())) == 1
            assert numbers[0] != 0.0
    [summary] = [node for node in traces[0].nodes if node.message.content == "I went"]
    assert summary.advantages is not None
    assert any(summary.advantages)


def test_completions_that_are_no_steps_of_our_environment_are_turns_that_change_nothing() -> None:
    from verifiers.v1.types import UserMessage

    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes

    played = [
        replace(one, turns=tuple(replace(turn, response=f"action {t}") for t, turn in enumerate(one.turns)))
        for one in pair()
    ]
    plain, traces = ([made(one) for one in played] for made in (lambda one: trace_of(one, [(1, 1)]), compacted))
    [before] = credit_episodes(episodes_of(plain), credit.make("grpo"))
    [after] = credit_episodes(episodes_of(traces), credit.make("grpo"))
    for old, new, trace in zip(before.trajectories, after.trajectories, traces, strict=True):
        assert new.turns[: len(old.turns)] == old.turns
        assert {turn.state_key for turn in new.turns[len(old.turns) :]} == {old.final_state_key}
        assert (new.final_state_key, new.episode_return, new.success) == (
            old.final_state_key, old.episode_return, old.success,
        )  # fmt: skip
        assert len(trace.info[ADVANTAGES]) == sum(node.sampled for node in trace.nodes)
    again = [trace_of(one, [(1, 1)]) for one in played]
    said(again[1], [UserMessage(content="again")], "action 0")  # which of the two is the step?
    refused(again, "at several places")


def test_a_record_of_other_completions_is_refused() -> None:
    a, b = (replace(one, turns=tuple(replace(t, response="action 0") for t in one.turns)) for one in pair())
    traces = [trace_of(one, [(1, 1)]) for one in (a, b)]
    traces[1].nodes[-1].message.content = "rewritten"
    refused(traces, "turn 0 of its record has another completion than its node")


def test_reasoning_that_a_server_took_apart_is_part_of_the_completion() -> None:
    from verifiers.v1.types import AssistantMessage

    from creditflow.train.adapters.verifiers.credit import completion_text

    message = AssistantMessage(content="<action>up</action>", reasoning_content="why")
    assert completion_text(message) == "<think>why</think><action>up</action>"


def test_schemes_whose_numbers_cannot_travel_are_refused() -> None:
    from creditflow.train.adapters.verifiers.credit import credit_episodes

    traces = [trace_of(one, [(1, 1)]) for one in pair()]
    with pytest.raises(ConfigError, match="which annotators write"):
        credit_episodes(episodes_of(traces), credit.make("ppo_gae"))


def test_other_environments_are_read_from_their_messages() -> None:
    from creditflow.train.adapters.verifiers.credit import ADVANTAGES, credit_episodes, read_messages

    a, b = (trace_of(one, [(2, 1), (1, 2)]) for one in pair())
    a.record_reward("solved", 1.0)
    b.nodes[-1].message.content = "another action"
    [group] = credit_episodes(
        episodes_of([a, b]), credit.make("gigpo"), read=read_messages(success=lambda trace: trace.reward > 0)
    )
    states = [[turn.state_key for turn in one.turns] for one in group.trajectories]
    assert states[0] == states[1]
    assert [one.success for one in group.trajectories] == [True, False]
    assert a.info[ADVANTAGES][1] > b.info[ADVANTAGES][1]


def test_groups_are_the_trainers_and_members_the_trainable_traces_of_the_seat() -> None:
    from verifiers.v1.episode import GroupInfo

    from creditflow.train.adapters.verifiers.credit import credit_episodes

    a, b = pair()
    traces = [trace_of(one, [(1, 1)]) for one in (a, b, a, b, a, b)]
    traces[4].agent.name, traces[5].agent.trainable = "judge", False
    episodes = episodes_of(traces)
    for i, episode in enumerate(episodes):
        episode.group = GroupInfo(id=f"step {i // 2 % 2}")
    groups = credit_episodes(episodes, credit.make("grpo"))
    assert [(group.group_id, len(group)) for group in groups] == [("step 0", 2), ("step 1", 2)]
    assert [trace.nodes[-1].advantages is None for trace in traces] == [False] * 4 + [True] * 2
    every = credit_episodes(episodes, credit.make("grpo"), agent="", alone="zero")
    assert {group.group_id: len(group) for group in every} == {
        "step 0/player": 2,
        "step 1/player": 2,
        "step 0/judge": 1,
    }
    assert not any(traces[4].nodes[-1].advantages)


def test_states_of_other_environments_leave_out_system_messages_and_actions_keep_tool_calls() -> None:
    from verifiers.v1.types import SystemMessage, ToolCall

    from creditflow.train.adapters.verifiers.credit import read_messages

    trace = trace_of(pair()[0], [(2, 1), (1, 2)])
    read = read_messages(success=bool)
    before, _ = read(trace)
    system, answer = trace.nodes[0], trace.nodes[1].message
    answer.tool_calls = [ToolCall(id="1", name="open", arguments='{"door": 2}')]
    after, _ = read(trace)
    assert after.turns[0].action == 'open({"door": 2})'
    answer.tool_calls = [ToolCall(id="2", name="open", arguments='{ "door":2 }')]
    assert read(trace)[0].turns[0] == after.turns[0]
    assert read_messages(success=lambda _: "env_limit")(trace)[0].stop_reason == "env_limit"
    assert after.turns[1] == before.turns[1]
    system.message = SystemMessage(content="You walk.")
    assert read(trace)[0].turns[0].observation == ""
    assert read(trace)[0].turns[1] == before.turns[1]


def test_a_node_whose_mask_has_another_length_than_its_ids_is_refused() -> None:
    a, b = (trace_of(one, [(1, 2)]) for one in pair())
    b.nodes[-1].mask.append(True)
    refused([a, b], "a node has 2 ids and 3 mask bits")


def test_verifiers_has_no_field_for_a_reward_of_a_turn() -> None:
    """The page on dense rewards names credit instead. When this fails, a potential's rewards per turn have a place to go."""
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.trace import Trace

    assert [name for name in MessageNode.model_fields if "reward" in name] == []
    assert "advantages" in MessageNode.model_fields
    assert [name for name in Trace.model_fields if "reward" in name] == ["rewards"]  # by name of reward function

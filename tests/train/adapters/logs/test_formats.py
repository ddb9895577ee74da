"""Each library's log: groups, turns, states, and rewards are those that it recorded."""

from __future__ import annotations

import json

import pytest
from helpers.foreign_logs import ROOMS, SAMPLES, as_lines, sample
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import SOURCES, read_log
from creditflow.train.adapters.logs.rows import key_of
from creditflow.train.adapters.logs.verifiers import turns_of_trace
from creditflow.wrappers.records import jsonl

FIELDS = {  # where each sample names its states
    "messages": "",
    "openenv": "metadata.state",
    "trl": "",
    "verifiers": "",
    "verifiers before v1": "room",
    "verl": "",
    "verl-agent": "anchor_obs",
}


def read(tmp_path, name, rows=None, **settings):
    source, data = sample(name)
    path = tmp_path / "log.jsonl"
    path.write_bytes(data if rows is None else as_lines(rows))
    return read_log(source, path, ImportSettings(**settings))


def same_pattern(found, expected):
    """Whether two lists of names are equal up to a renaming."""
    return [found.index(x) for x in found] == [expected.index(x) for x in expected]


@pytest.mark.parametrize("name", SAMPLES)
def test_groups_turns_and_outcomes_are_those_recorded(name, tmp_path):
    report = read(tmp_path, name, **({"reward": "solved"} if name == "trl" else {}))
    assert [len(group) for group in report.groups] == [2, 2]
    assert len({group.task_id for group in report.groups}) == 2
    for group in report.groups:
        assert [(m.success, m.score, m.episode_return) for m in group.trajectories] == [
            (False, 0.0, 0.0),
            (True, 1.0, 1.0),
        ]
        assert [len(m.turns) for m in group.trajectories] == [2, 2]
        assert [turn.reward for turn in group.turns] == [0.0, 0.0, 0.0, 1.0]
        assert {m.turns[0].thought for m in group.trajectories} == {"east?"}
        assert all("room A" in m.turns[0].observation for m in group.trajectories)
    assert not report.tally.left_out
    prefixes = {group.task_id.partition("1:")[0] for group in report.groups}
    assert prefixes <= set(SOURCES) or (name, prefixes) == ("messages", {"rooms/0", "rooms/1"})  # kept as given


MODES = [
    (name, mode)
    for name, path in FIELDS.items()
    for mode in ("observation", "history", "none", "field")
    if path or mode != "field"
]


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_states_are_equal_where_the_chosen_key_says_so(name, mode, tmp_path):
    report = read(tmp_path, name, state_key=FIELDS[name] if mode == "field" else mode)
    for at, group in zip((0, 2), report.groups, strict=True):
        keys = [turn.state_key for member in group.trajectories for turn in member.turns]
        rooms = [*ROOMS[at], *ROOMS[at + 1]]
        if mode == "none":
            assert len(set(keys)) == 4
        elif mode == "history":
            # equal responses and observations so far: the first states alone
            assert same_pattern(keys, ["start", 1, "start", 2])
        elif name == "openenv" and mode == "field":
            assert same_pattern(keys, ["start", rooms[1], "start", rooms[3]])
        elif mode == "observation" and name != "verl-agent":
            # the prompt is another text than the tool's message about the same room
            assert same_pattern(keys, ["prompt", rooms[1], "prompt", rooms[3]])
        else:
            assert same_pattern(keys, rooms)
        assert all(len(key) <= 64 and key.isprintable() for key in keys)
    ends = [member.final_state_key for group in report.groups for member in group.trajectories]
    assert len(set(ends)) == (3 if name == "openenv" and mode == "field" else 4)


def node(parent, said, role="user", **fields):
    """A message of a trace."""
    return {"parent": parent, "message": {"role": role, "content": said}, "sampled": role == "assistant", **fields}


def attempt(parent, said, **fields):
    return node(parent, said, "assistant", semantic_parents=[{"node": 1, "type": "compaction_attempt"}], **fields)


# a task, two turns and a sub-agent's, the second with its report; a rejected summary and one from which the model goes on
COMPACTED = [
    node(None, "You walk.", "system"),
    node(0, "room A"),
    node(1, "call a helper", "assistant"),
    node(None, "You help.", "system"),
    node(3, "look around"),
    node(4, "a door", "assistant"),
    node(2, "it saw a door"),
    node(6, "go", "assistant"),
    node(7, "summarise"),
    attempt(8, "too long"),
    attempt(8, "I went"),
    node(None, "You walk.", "system"),
    node(11, "so far: I went"),
    node(12, "stop", "assistant", semantic_parents=[{"node": 10, "type": "compaction"}]),
    node(13, "done"),
]


def compacted(tmp_path, nodes=COMPACTED):
    rows = json.loads(json.dumps(SAMPLES["verifiers"]))
    rows[0]["traces"][0]["nodes"] = nodes
    report = read(tmp_path, "verifiers", rows)
    return report, report.groups[0].trajectories[0]


def test_the_turns_of_a_trace_are_the_completions_of_all_its_branches_in_the_order_of_sampling(tmp_path):
    report, member = compacted(tmp_path)
    assert [(turn.observation, turn.response) for turn in member.turns] == [
        ("room A", "call a helper"),
        ("You help.\n\nlook around", "a door"),
        ("it saw a door", "go"),
        ("summarise", "I went"),
        ("so far: I went", "stop"),
    ]
    assert [turn.values["parent.turn"] for turn in member.turns] == [-1.0, -1.0, 0.0, 2.0, -1.0]
    assert member.final_text_key == key_of(["done"])
    assert member.messages == ()
    notes = report.tally.notes
    assert [count for note, count in notes.items() if "several contexts" in note or "rejected attempts" in note] == [
        1,
        1,
    ]


@st.composite
def traces(draw):
    """Messages of a trace, each after any earlier one or none, and which of them is a completion."""
    nodes = [node(None, "start")]
    for i in range(1, draw(st.integers(2, 9))):
        parent = draw(st.none() | st.integers(0, i - 1))
        role = draw(st.sampled_from(["user", "assistant"]))
        nodes.append(node(parent, f"{role} {i}", role))
    return [*nodes, node(0, "last", "assistant")]


@given(traces())
def test_every_completion_is_a_turn_that_shows_what_its_own_path_adds(nodes):
    def path(i):
        return [*(path(nodes[i]["parent"]) if nodes[i]["parent"] is not None else []), i]

    found = turns_of_trace(nodes)
    sampled = [i for i, one in enumerate(nodes) if one["sampled"]]
    assert [turn.response for turn in found.turns] == [nodes[i]["message"]["content"] for i in sampled]
    before = {i: [k for k in path(i)[:-1] if nodes[k]["sampled"]] for i in sampled}
    parents = [sampled.index(before[i][-1]) if before[i] else -1 for i in sampled]
    linear = parents == list(range(-1, len(sampled) - 1))
    assert [turn.values.get("parent.turn") for turn in found.turns] == [
        None if linear else parent for parent in parents
    ]
    for turn, i in zip(found.turns, sampled, strict=True):
        since = path(i)[:-1][path(i).index(before[i][-1]) + 1 if before[i] else 0 :]
        assert turn.observation == "\n\n".join(nodes[k]["message"]["content"] for k in since)


def test_a_prompt_that_states_completions_anew_continues_them(tmp_path):
    """Some templates drop earlier thoughts, which begins another branch of the same conversation."""
    nodes = [
        node(None, "room A"),
        node(0, "<think>hm</think>go", "assistant"),
        node(None, "room A"),
        {**node(2, "go", "assistant"), "sampled": False},
        node(3, "room B"),
        node(4, "stop", "assistant"),
    ]
    _, member = compacted(tmp_path, nodes)
    assert [(turn.observation, turn.response) for turn in member.turns] == [
        ("room A", "<think>hm</think>go"), ("room B", "stop"),
    ]  # fmt: skip
    assert not any(turn.values for turn in member.turns)


def test_a_log_of_traces_with_branches_is_written_read_and_written_byte_by_byte(tmp_path):
    report, _ = compacted(tmp_path)
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    jsonl.write_jsonl(first, report.log)
    jsonl.write_jsonl(second, jsonl.read_log(first))
    assert first.read_bytes() == second.read_bytes()


def test_agents_of_one_episode_form_groups_of_their_own(tmp_path):
    rows = json.loads(json.dumps(SAMPLES["verifiers"]))
    for row in rows:
        judge = json.loads(json.dumps(row["traces"][0]))
        judge["agent"]["name"] = "judge"
        row["traces"].append(judge)
    report = read(tmp_path, "verifiers", rows)
    assert [len(group) for group in report.groups] == [2, 2, 2, 2]


def test_a_rollout_without_any_reward_is_left_out_not_failed(tmp_path):
    for name, path in (
        ("verifiers", ("traces", 0, "rewards", "solved")),
        ("trl", ("solved",)),
        ("verifiers before v1", ("reward",)),
    ):
        rows = json.loads(json.dumps(SAMPLES[name]))
        place = rows[1]
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = None
        if name == "verifiers":
            place["style"] = None
        if name == "trl":
            rows[1]["format"] = None
        report = read(tmp_path, name, rows)
        assert report.rollouts == 3
        assert sum(report.tally.left_out.values()) == 1


def test_trls_columns_are_summed_with_the_weights_that_are_given(tmp_path):
    assert [m.episode_return for g in read(tmp_path, "trl").groups for m in g.trajectories] == [0.5, 1.5, 0.5, 1.5]
    weighted = read(tmp_path, "trl", reward="solved*2,format*0.5")
    assert [m.episode_return for g in weighted.groups for m in g.trajectories] == [0.25, 2.25, 0.25, 2.25]
    assert weighted.groups[0].trajectories[1].values == {
        "reward.solved": 1.0,
        "reward.format": 0.5,
        "advantage.recorded": 0.5,
    }
    with pytest.raises(ConfigError, match=r"NAME\*WEIGHT"):
        read(tmp_path, "trl", reward="solved*much")


def test_success_is_a_field_or_a_reward_of_at_least_the_threshold(tmp_path):
    for settings in ({"success": "verify_metrics.solved"}, {"success_at": 0.5}, {}):
        assert [m.success for g in read(tmp_path, "openenv", **settings).groups for m in g.trajectories] == [
            False,
            True,
        ] * 2
    assert not any(m.success for g in read(tmp_path, "openenv", success_at=2.0).groups for m in g.trajectories)
    with pytest.raises(DataError, match="'solved' is not a finite number"):
        read(tmp_path, "openenv", success="solved")


def test_a_cut_episode_is_truncated_and_not_failed(tmp_path):
    assert read(tmp_path, "openenv").groups[1].trajectories[0].stop_reason == "env_limit"
    assert read(tmp_path, "verifiers before v1").groups[1].trajectories[0].stop_reason == "token_limit"


def test_a_group_may_be_named_by_a_field(tmp_path):
    rows = [{**row, "batch": i % 2} for i, row in enumerate(SAMPLES["openenv"])]
    assert [len(g) for g in read(tmp_path, "openenv", rows, group="batch").groups] == [2, 2]
    with pytest.raises(DataError, match="no group under 'nothing'"):
        read(tmp_path, "openenv", rows, group="nothing")


def test_recorded_rewards_of_turns_are_kept_where_they_add_up_to_the_outcome(tmp_path):
    rows = json.loads(json.dumps(SAMPLES["verl-agent"]))
    for row in rows:
        if row["traj_uid"] == "t1":
            row["rewards"] = 0.75 if row["anchor_obs"] == "room A" and "After 0" in row["input"] else 0.25
    assert [t.reward for t in read(tmp_path, "verl-agent", rows).groups[0].trajectories[1].turns] == [0.75, 0.25]
    for row in rows:
        row["rewards"] = 5.0
    report = read(tmp_path, "verl-agent", rows)
    assert [t.reward for t in report.groups[0].trajectories[1].turns] == [0.0, 1.0]
    assert any("do not add up" in note for note in report.tally.notes)


def test_rows_of_verl_agent_are_ordered_by_turn_and_copies_are_dropped(tmp_path):
    rows = [{**row, "turn": int("After 1" in row["input"])} for row in SAMPLES["verl-agent"]]
    report = read(tmp_path, "verl-agent", sorted(rows, key=lambda row: -row["turn"]))
    assert report.tally.notes["copied rows dropped"] == 4
    for group in report.groups:
        assert [[t.action for t in m.turns] for m in group.trajectories] == [["go 0", "go 1"]] * 2
    for row in rows:
        del row["traj_uid"]
    with pytest.raises(DataError, match="one line in the trainer adds it"):
        read(tmp_path, "verl-agent", rows)


def test_decoded_text_is_cut_at_roles_at_search_tags_or_not_at_all(tmp_path):
    assert [len(m.turns) for g in read(tmp_path, "verl", turns="single").groups for m in g.trajectories] == [1] * 4
    searched = (
        "Hm. <search>Nile</search>\n\n<information>Doc 1(Title: Nile) Long.</information>\n\n<answer>yes</answer>"
    )
    rows = [{**row, "output": searched} for row in SAMPLES["verl"]]
    member = read(tmp_path, "verl", rows, turns="search").groups[0].trajectories[0]
    assert [turn.action for turn in member.turns] == ["<search>Nile</search>", "<answer>yes</answer>"]
    assert "Long." in member.turns[1].observation
    with pytest.raises(ConfigError, match="did you mean 'roles'"):
        read(tmp_path, "verl", turns="role")


def test_verls_uid_names_the_sample_and_equal_prompts_do_without_it(tmp_path):
    rows = [{**row, "input": "same"} for row in SAMPLES["verl"]]
    assert [len(g) for g in read(tmp_path, "verl", rows).groups] == [2, 2]
    for row in rows:
        del row["uid"]
    assert [len(g) for g in read(tmp_path, "verl", rows).groups] == [4]
    rows = [{**row, "step": i} for i, row in enumerate(rows)]
    assert [len(g) for g in read(tmp_path, "verl", rows).groups] == [1] * 4


def test_a_history_is_its_texts_and_responses_each_with_its_own_ends(tmp_path):
    def row(first, between, prompt="Go."):
        said = [("assistant", first), ("user", between), ("assistant", "stop"), ("user", "over")]
        messages = [{"role": "user", "content": prompt}, *({"role": role, "content": text} for role, text in said)]
        return {"messages": messages, "reward": 0.0, "done": True, "task": {"n": 0}, "tool_trace": []}

    rows = [row("left", "a wall"), row("left", "a wall"), row("right", "a wall"), row("lef", "ta wall")]
    [group] = read(tmp_path, "openenv", rows, state_key="history", strict=True).groups
    keys = [[*(turn.state_key for turn in one.turns), one.final_state_key] for one in group.trajectories]
    assert keys[0] == keys[1]  # the same texts and responses
    assert {one[0] for one in keys} == {keys[0][0]}
    assert len({one[1] for one in keys}) == len({one[2] for one in keys}) == 3


def test_further_outputs_of_a_verl_rollout_are_left_out_and_its_sample_names_the_group(tmp_path):
    names = ("a_b_0_0", "a_b_1_0", "a_b_1_1", "c_0_0", "c")  # SAMPLE_ROLLOUT_OUTPUT, or a name of another form
    row = {"input": "user\nGo.\nassistant\n", "output": "left", "score": 1.0, "step": 3}
    report = read(tmp_path, "verl", [{**row, "uid": name} for name in names])
    assert [len(group) for group in report.groups] == [2, 2]
    [(reason, count)] = report.tally.left_out.items()
    assert (reason.partition(",")[0], count) == ("a further output of a rollout", 1)


def test_the_largest_score_of_a_verl_agent_rollout_is_its_outcome(tmp_path):
    rows = json.loads(json.dumps(SAMPLES["verl-agent"]))
    for row in rows:  # the trainer takes a penalty for invalid actions off the score of their rows
        if row["traj_uid"] == "t1" and "After 1" in row["input"]:
            row["score"] -= 0.1
    report = read(tmp_path, "verl-agent", rows)
    assert [one.episode_return for one in report.groups[0].trajectories] == [0.0, 1.0]
    assert any("different scores" in note for note in report.tally.notes)


def test_scores_of_a_trace_count_by_their_weights(tmp_path):
    rows = json.loads(json.dumps(SAMPLES["verifiers"]))
    for row in rows:
        [trace] = row["traces"]
        trace["rewards"] = {"solved": {"score": 1.0, "weight": 0.5}, "format": {"score": 0.5, "weight": -1.0}}
    report = read(tmp_path, "verifiers", rows, success_at=0.0)
    assert {one.episode_return for group in report.groups for one in group.trajectories} == {0.0}


@pytest.mark.parametrize("field", ["anchor_obs", "rewards", "is_action_valid", "score", "note"])
@pytest.mark.parametrize("numbered", [True, False])
def test_turns_of_verl_agent_that_differ_in_any_field_are_kept_and_whole_copies_dropped(tmp_path, field, numbered):
    [row] = [row for row in SAMPLES["verl-agent"] if row["traj_uid"] == "t0"][:1]
    changed = {"anchor_obs": "room Z", "rewards": 0.25, "is_action_valid": False, "score": 0.5, "note": "x"}
    rows = [row, {**row, field: changed[field]}, row]
    if numbered:
        rows = [{**each, "turn": t} for t, each in enumerate(rows[:2])]
        rows.append(rows[0])
    report = read(tmp_path, "verl-agent", rows)
    assert [len(member.turns) for member in report.groups[0].trajectories] == [2]
    assert report.tally.notes["copied rows dropped"] == 1

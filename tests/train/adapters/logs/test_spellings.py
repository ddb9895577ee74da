"""A conversation is one log however it is spelled; ends, copies, templates and rewards are understood, or said to be missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.foreign_logs import as_lines

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.adapters.logs.episodes import ImportSettings
from creditflow.train.adapters.logs.reading import read_log
from creditflow.train.adapters.logs.rows import ImportReport
from creditflow.wrappers.records.trajectory import Trajectory

Json = dict[str, Any]
THOUGHT, TASK, ROOM = "north is unknown", "Find the safe.", "You are in room 2."
ARGUMENTS = {"to": "north", "steps": 2}
SPACED, SWAPPED = '{ "to" : "north",  "steps":2 }', '{"steps": 2, "to": "north"}'


def user(content: Any, **fields: Any) -> Json:
    return {"role": "user", "content": content, **fields}


def agent(content: Any, **fields: Any) -> Json:
    return {"role": "assistant", "content": content, **fields}


def tool(content: Any, call: str = "c1") -> Json:
    return {"role": "tool", "tool_call_id": call, "content": content}


def call(arguments: Any, id_: str = "c1", name: str = "go") -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat(calling: Json, answer: Json | None = None, **fields: Any) -> Json:
    return {"messages": [user(TASK), calling, answer or tool(ROOM), agent("open it")], **fields}


SPELLINGS: dict[str, Json] = {
    "openai, arguments as text": chat(agent(None, tool_calls=[call(SPACED)], reasoning_content=THOUGHT)),
    "openai, other key order": chat(agent(None, tool_calls=[call(SWAPPED)], reasoning=THOUGHT)),
    "openai, arguments as object": chat(agent("", tool_calls=[call(ARGUMENTS)], thinking=THOUGHT)),
    "openai, other call id": chat(agent(None, tool_calls=[call(SPACED, "x9")], reasoning=THOUGHT), tool(ROOM, "x9")),
    "openai, details of the reasoning": chat(
        agent(None, tool_calls=[call(SPACED)], reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}])
    ),
    "calls as JSON text": chat(agent(None, tool_calls=json.dumps([call(ARGUMENTS)]), reasoning=THOUGHT)),
    "calls as list of JSON texts": chat(agent(None, tool_calls=[json.dumps(call(ARGUMENTS))], reasoning=THOUGHT)),
    "call without function": chat(agent(None, tool_calls=[{"name": "go", "args": ARGUMENTS}], reasoning=THOUGHT)),
    "legacy function_call": chat(
        agent(None, function_call={"name": "go", "arguments": SWAPPED}, reasoning=THOUGHT),
        {"role": "function", "name": "go", "content": ROOM},
    ),
    "thought in tags": chat(agent(f"<think>{THOUGHT}</think>", tool_calls=[call(SPACED)])),
    "thought and call in tags": chat(
        agent(f"<think>\n{THOUGHT}\n</think>\n<tool_call>\n{json.dumps({'name': 'go', 'arguments': ARGUMENTS})}\n</tool_call>"),
        user(f"<tool_response>\n{ROOM}\n</tool_response>"),
    ),
    "glaive": chat(
        agent(f"<think>{THOUGHT}</think><functioncall> {{\"name\": \"go\", \"arguments\": '{SPACED}'}}"),
        {"role": "function", "content": ROOM},
    ),
    "roles tool_call and tool_response": {
        "messages": [
            user(TASK), {"role": "assistant", "content": None, "reasoning": THOUGHT},
            {"role": "tool_call", "content": json.dumps({"name": "go", "arguments": ARGUMENTS})},
            {"role": "tool_response", "content": ROOM}, agent("open it"),
        ]
    },
    "anthropic": chat(
        agent([{"type": "thinking", "thinking": THOUGHT, "signature": "s1"}, {"type": "tool_use", "id": "t1", "name": "go", "input": ARGUMENTS}]),
        user([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": ROOM}]}]),
    ),
    "anthropic, other id": chat(
        agent([{"type": "thinking", "thinking": THOUGHT}, {"type": "tool_use", "id": "t2", "name": "go", "input": ARGUMENTS}]),
        user([{"type": "tool_result", "tool_use_id": "t2", "content": ROOM}]),
    ),
    "sharegpt": {
        "conversations": [
            {"from": "human", "value": TASK}, {"from": "gpt", "value": "", "reasoning": THOUGHT},
            {"from": "function_call", "value": json.dumps({"name": "go", "arguments": ARGUMENTS})},
            {"from": "observation", "value": ROOM}, {"from": "gpt", "value": "open it"},
        ]
    },
    "responses api": {
        "messages": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]},
            {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": THOUGHT}]},
            {"type": "function_call", "id": "f1", "call_id": "c7", "name": "go", "arguments": SPACED},
            {"type": "function_call_output", "call_id": "c7", "output": ROOM},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "open it"}]},
        ]
    },
    "content in parts": chat(agent([{"type": "text", "text": ""}], tool_calls=[call(SPACED)], reasoning=THOUGHT), tool([{"type": "text", "text": ROOM}])),
    "reasoning as its own message": {
        "messages": [user(TASK), agent(f"<think>{THOUGHT}</think>"), agent(None, tool_calls=[call(SPACED)]), tool(ROOM), agent("open it")]
    },
}  # fmt: skip


def read(tmp_path: Path, rows: list[Json], source: str = "messages", **settings: Any) -> ImportReport:
    path = tmp_path / "in.jsonl"
    path.write_bytes(as_lines(rows))
    return read_log(source, path, ImportSettings(**settings))


def only(report: ImportReport) -> Trajectory:
    [group] = report.groups
    [trajectory] = group.trajectories
    return trajectory


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("reward", [1, "1.0"])
def test_a_conversation_is_one_log_however_it_is_spelled(spelling: str, reward: Any, tmp_path: Path) -> None:
    first = only(
        read(tmp_path, [{**SPELLINGS["openai, arguments as text"], "reward": 1.0, "task_id": "t", "done": True}])
    )
    found = only(read(tmp_path, [{**SPELLINGS[spelling], "reward": reward, "task_id": "t", "done": True}]))
    assert [turn.action for turn in found.turns] == ['go({"steps": 2, "to": "north"})', "open it"]
    assert [turn.thought for turn in found.turns] == [THOUGHT, ""]
    assert [turn.observation for turn in found.turns] == [TASK, ROOM]
    assert [turn.state_key for turn in found.turns] == [turn.state_key for turn in first.turns]
    assert (found.success, found.score) == (True, 1.0)


def test_parallel_calls_and_their_results_in_another_order_are_one_action_and_one_state(tmp_path: Path) -> None:
    def row(order: tuple[int, ...], answers: tuple[int, ...], name: str) -> Json:
        calls = [call({"x": i}, f"{name}{i}", "look") for i in order]
        results = [tool(f"seen {i}", f"{name}{i}") for i in answers]
        return {
            "messages": [user(TASK), agent(None, tool_calls=calls), *results, agent("end")],
            "reward": 0,
            "task_id": "t",
            "done": True,
        }

    [group] = read(tmp_path, [row((1, 2), (1, 2), "a"), row((2, 1), (2, 1), "b"), row((1, 2), (2, 1), "c")]).groups
    assert len({tuple((turn.state_key, turn.action) for turn in member.turns) for member in group.trajectories}) == 1


@pytest.mark.parametrize(
    "mark",
    [{"weight": 0}, {"is_demo": True}, {"trainable": False}, {"loss_mask": 0}, {"loss_mask": [0, 0]}, {"weight": 0.0}],
)
def test_a_message_that_is_not_trained_on_is_shown_and_no_turn(mark: Json, tmp_path: Path) -> None:
    messages = [user("show me"), agent("like this", **mark), user(TASK), agent("go"), user(ROOM)]
    found = only(read(tmp_path, [{"messages": messages, "reward": 1, "task_id": "t", "done": True}]))
    assert [turn.action for turn in found.turns] == ["go"]
    assert "like this" in found.turns[0].observation


def test_an_unknown_role_is_an_error_that_lists_the_known(tmp_path: Path) -> None:
    row = {
        "messages": [user(TASK), agent("go"), {"role": "referee", "content": "foul"}],
        "reward": 1,
        "task_id": "t",
        "done": True,
    }
    with pytest.raises(DataError, match=r"unknown role; known are assistant, model, .*'referee'"):
        read(tmp_path, [row], strict=True)


def test_a_system_message_is_kept_apart(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, user(TASK), agent("go")]
    found = only(read(tmp_path, [{"messages": messages, "reward": 1, "task_id": "t", "done": True}]))
    assert found.turns[0].observation == TASK
    assert [json.loads(message) for message in found.messages] == messages


@pytest.mark.parametrize("empty", ["", None, []])
def test_turns_before_which_nothing_was_shown_are_states_of_their_own(empty: Any, tmp_path: Path) -> None:
    messages = [user(TASK), agent("a"), tool(empty), agent("b"), tool(empty), agent("c"), tool("end")]
    rows = [{"messages": messages, "reward": i, "task_id": "t", "done": True} for i in range(2)]
    [group] = read(tmp_path, rows).groups
    keys = [turn.state_key for member in group.trajectories for turn in member.turns[1:]]
    assert len(set(keys)) == len(keys) == 4


@pytest.mark.parametrize("end", ["failed", "env_error", "Failure", "agent-error"])
def test_an_end_that_says_that_the_episode_failed_outweighs_its_reward(end: str, tmp_path: Path) -> None:
    found = only(read(tmp_path, [{"messages": [user(TASK), agent("go")], "reward": 1, "task_id": "t", "done": end}]))
    assert not found.success


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"done": True, "truncated": True}, "env_limit"), ({"done": True, "info": {"TimeLimit.truncated": True}}, "env_limit"),
        ({"done": True, "TimeLimit.truncated": True}, "env_limit"), ({"truncated": True}, "env_limit"),
        ({"done": True, "truncated": False}, "failed"), ({"done": 1}, "failed"), ({"done": 0}, "env_limit"), ({"done": "TRUE"}, "failed"),
        ({"done": "TerminationReason.MAX_STEPS"}, "env_limit"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["messages", "openenv", "verl", "trl"])
def test_limits_are_told_from_ends_in_every_format(source: str, fields: Json, reason: str, tmp_path: Path) -> None:
    row = {
        "messages": {"messages": [user(TASK), agent("go")], "reward": 0.0, "task_id": "t"},
        "openenv": {"messages": [user(TASK), agent("go")], "reward": 0.0, "task": "t", "episode_id": "e"},
        "verl": {"input": "p", "output": "go", "score": 0.0, "step": 1}, "trl": {"prompt": "p", "completion": "go", "acc": 0.0, "step": 1},
    }[source]  # fmt: skip
    assert only(read(tmp_path, [{**row, **fields}], source)).stop_reason == reason


@pytest.mark.parametrize("source", ["verl", "trl", "openenv", "verl-agent"])
def test_ends_that_a_file_does_not_say_are_reported(source: str, tmp_path: Path) -> None:
    row = {
        "input": "p", "output": "go", "score": 0.0, "step": 1, "prompt": "p", "completion": "go", "acc": 0.0, "traj_uid": "u",
        "messages": [user(TASK), agent("go")], "reward": 0.0, "task": "t",
    }  # fmt: skip
    assert any(
        "--done FIELD" in note
        for note in read(tmp_path, [row], source, reward="acc" if source == "trl" else "").tally.notes
    )


def test_unknown_words_for_ends_are_one_error_with_all_of_them(tmp_path: Path) -> None:
    rows = [
        {"messages": [user(TASK), agent("go")], "reward": 0.0, "done": word}
        for word in ("bored", "bored", "tired", "stop")
    ]
    with pytest.raises(DataError, match=r"unknown ways to end: 'bored' \(2\), 'tired' \(1\)"):
        read(tmp_path, rows)


def test_copies_of_a_row_are_counted_once_if_they_have_an_id_and_said_otherwise(tmp_path: Path) -> None:
    row = {"messages": [user(TASK), agent("go")], "reward": 0.0, "task_id": "t", "done": True}
    named = read(tmp_path, [{**row, "id": "a"}, {**row, "id": "a"}])
    assert (named.rollouts, named.tally.notes["copies of a row, with the same id, are counted once"]) == (1, 1)
    assert "stand twice" in read(tmp_path, [row, row]).to_text()


MARKS = {
    "chatml": ("<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"),
    "llama 3": ("<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    "llama 3, tool": ("<|eom_id|><|start_header_id|>ipython<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    "gemma": ("<end_of_turn>\n<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>"),
    "mistral": ("</s>[INST] ", " [/INST] ", "</s>"),
    "phi": ("<|end|>\n<|user|>\n", "<|end|>\n<|assistant|>\n", "<|end|>"),
    "deepseek": ("<｜end▁of▁sentence｜><｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    "chatml, skipped": ("\nuser\n", "\nassistant\n", ""), "llama, skipped": ("user\n\n", "assistant\n\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("template", MARKS)
def test_dumps_in_known_chat_templates_are_cut_at_their_marks(template: str, tmp_path: Path) -> None:
    environment, model, end = MARKS[template]
    output = f"go north{environment}{ROOM}{model}open it{end}"
    found = only(read(tmp_path, [{"input": "p", "output": output, "score": 1.0, "step": 1}], "verl"))
    assert [(turn.observation, turn.response) for turn in found.turns] == [("p", "go north"), (ROOM, "open it")]


def test_a_dump_in_an_unknown_template_is_left_out_with_its_reason(tmp_path: Path) -> None:
    row = {"input": "p", "output": "go<|turn_end|><|turn_user|>room<|turn_model|>end", "score": 1.0, "step": 1}
    with pytest.raises(DataError, match="special tokens of a chat template that is not known"):
        read(tmp_path, [row], "verl", strict=True)


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9])
def test_rewards_of_any_scale_are_kept(scale: float, tmp_path: Path) -> None:
    rows = [
        {"messages": [user(TASK), agent("a"), user("s"), agent("b")], "reward": r * scale, "task_id": "t", "done": True}
        for r in (4.0, 0.5)
    ]
    [group] = read(tmp_path, rows, success_at=4 * scale).groups
    assert [member.turns[-1].reward for member in group.trajectories] == [4 * scale, 0.5 * scale]
    assert [member.success for member in group.trajectories] == [True, False]


@pytest.mark.parametrize("parts", [[0.7, 0.2, 0.1], [0.1] * 10, [1 / 3] * 3, [1 / 49] * 49])
def test_rewards_that_add_up_to_the_threshold_are_a_success(parts: list[float], tmp_path: Path) -> None:
    messages = [message for i in range(len(parts)) for message in (user(f"s{i}"), agent("a"))]
    found = only(read(tmp_path, [{"messages": messages, "reward": parts, "task_id": "t", "done": True}]))
    assert found.success


def test_an_option_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": "p", "completion": "c", "acc": 1.0, "format": 0.5}]
    with pytest.raises(ConfigError, match="'fromat'; did you mean 'format'"):
        read(tmp_path, rows, "trl", reward="acc,fromat*0.5")


@pytest.mark.parametrize("extra", [1, -1])
def test_rewards_beside_steps_must_fit(extra: int, tmp_path: Path) -> None:
    entry = {"name": "look", "result": {"metadata": {"reward": 0.5}}}
    messages = [
        user(TASK),
        agent(None, tool_calls=[call({}, "a"), call({}, "b")]),
        tool("1", "a"),
        tool("2", "b"),
        agent("end"),
    ]
    row = {"messages": messages, "reward": 1.0, "task": "t", "episode_id": "e", "done": True}
    assert [turn.reward for turn in only(read(tmp_path, [{**row, "tool_trace": [entry] * 2}], "openenv")).turns] == [
        1.0,
        0.0,
    ]
    with pytest.raises(DataError, match="has not one entry for each result"):
        read(tmp_path, [{**row, "tool_trace": [entry] * (2 + extra)}], "openenv", strict=True)
    steps = [{"reward": 0.5}] * (1 + extra)
    old = {"example_id": 1, "prompt": [user("p")], "completion": [agent("a")], "reward": 0.5, "trajectory": steps}
    if steps:
        with pytest.raises(DataError, match="has not one step for each turn"):
            read(tmp_path, [old], "verifiers", strict=True)


def test_nan_is_read_as_null_and_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    row = json.dumps(
        {"messages": [user(TASK), agent("go")], "reward": 1.0, "task_id": "t", "done": True, "kl": float("nan")}
    )
    for text in (f"\ufeff{row}\n{row}\n", f"\ufeff[{row}, {row}]"):
        (tmp_path / "in.jsonl").write_text(text, encoding="utf-8")
        assert read_log("messages", tmp_path / "in.jsonl").rollouts == 2


def test_ids_that_read_like_places_overwrite_nobody(tmp_path: Path) -> None:
    row = {"messages": [user(TASK), agent("go")], "reward": 1.0, "task_id": 7.0, "done": True}
    [group] = read(
        tmp_path, [{**row, "id": "line 2"}, row, {**row, "id": "line 2", "reward": 0}, {**row, "task_id": "7"}]
    ).groups
    assert len({member.trajectory_id for member in group.trajectories}) == 4

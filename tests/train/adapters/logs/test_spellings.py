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
    [
        {"weight": 0}, {"weight": 0.0}, {"weight": "0"}, {"is_demo": True}, {"is_demo": 1}, {"is_demo": "True"}, {"trainable": False},
        {"trainable": "false"}, {"train": False}, {"training": False}, {"loss": False}, {"loss_mask": 0}, {"loss_mask": "0"},
        {"loss_mask": [0, 0]}, {"loss_mask": [0.0]},
    ],
)  # fmt: skip
def test_a_message_that_is_not_trained_on_is_shown_and_no_turn(mark: Json, tmp_path: Path) -> None:
    messages = [user("show me"), agent("like this", **mark), user(TASK), agent("go"), user(ROOM)]
    found = only(read(tmp_path, [{"messages": messages, "reward": 1, "task_id": "t", "done": True}]))
    assert [turn.action for turn in found.turns] == ["go"]
    assert "like this" in found.turns[0].observation


@pytest.mark.parametrize(
    "mark", [{"weight": None}, {"weight": 0.5}, {"weight": "1"}, {"is_demo": "false"}, {"trainable": "true"}, {"loss_mask": [0, 1]}, {"loss_mask": None}]
)  # fmt: skip
def test_a_message_that_is_trained_on_is_a_turn(mark: Json, tmp_path: Path) -> None:
    row = {"messages": [user(TASK), agent("go", **mark), user(ROOM)], "reward": 1, "task_id": "t", "done": True}
    assert [turn.action for turn in only(read(tmp_path, [row])).turns] == ["go"]


@pytest.mark.parametrize(
    ("part", "action", "thought"),
    [
        ({"type": "refusal", "refusal": "I cannot"}, "I cannot", ""), ({"type": "server_tool_use", "id": "s", "name": "go", "input": {}}, "go()", ""),
        ({"type": "mcp_tool_use", "id": "m", "name": "go", "input": {}}, "go()", ""), ({"type": "toolCall", "id": "t", "name": "go"}, "go()", ""),
        ({"functionCall": {"name": "go", "args": {}}}, "go()", ""), ({"type": "function", "id": "f", "function": {"name": "go"}}, "go()", ""),
        ({"text": "north?", "thought": True}, "", "north?"), ({"type": "thoughts", "text": "north?"}, "", "north?"),
        ({"type": "reasoning_content", "reasoning_content": "north?"}, "", "north?"), ({"type": "redacted_thinking", "data": "x"}, "", ""),
    ],
)  # fmt: skip
def test_a_part_of_a_message_is_read_by_its_type(part: Json, action: str, thought: str, tmp_path: Path) -> None:
    row = {"messages": [user(TASK), agent([part]), user(ROOM), agent("end")], "reward": 1, "task_id": "t", "done": True}
    turn = only(read(tmp_path, [row])).turns[0]
    assert (turn.action, turn.thought) == (action, thought)


EMPTY = {
    "type": None,
    "text": None,
    "image": None,
    "functionCall": None,
    "role": None,
    "from": None,
    "content": None,
    "parts": None,
    "weight": None,
}


@pytest.mark.parametrize(
    "part", [{"type": "text", "text": "go"}, {"text": "go"}, {"type": "text"}, {"functionCall": {"name": "go"}}, {"type": "tool_use", "name": "go"}]
)  # fmt: skip
@pytest.mark.parametrize("message", [{"role": "assistant"}, {"from": "gpt"}, {"type": "ai"}])
def test_empty_fields_that_tables_add_change_nothing(part: Json, message: Json, tmp_path: Path) -> None:
    row = {"reward": 1, "task_id": "t", "done": True}
    plain = [{**message, "content": [part]}, agent("end")]
    padded = [{**EMPTY, **message, "content": [{**EMPTY, **part}]}, {**EMPTY, **agent("end")}]
    first, second = (only(read(tmp_path, [{**row, "messages": [user(TASK), user("?"), *m]}])) for m in (plain, padded))
    assert [turn.action for turn in first.turns] == [turn.action for turn in second.turns]
    assert first.turns == second.turns


def test_a_part_of_an_unknown_type_is_an_error(tmp_path: Path) -> None:
    row = {
        "messages": [user(TASK), agent([{"type": "hologram", "id": "h1"}])],
        "reward": 1,
        "task_id": "t",
        "done": True,
    }
    with pytest.raises(DataError, match=r"unknown type: .*hologram"):
        read(tmp_path, [row], strict=True)


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({"content": "<thinking>why</thinking>go"}, "go"), ({"content": "<reasoning>why</reasoning>\ngo"}, "go"), ({"content": "[THINK]why[/THINK]go"}, "go"),
        ({"content": "<thought>why</thought>go"}, "go"), ({"content": "go <think>why</think>"}, "go"), ({"content": "why</think>go"}, "go"),
        ({"content": "go", "thoughts": "why"}, "go"), ({"content": "go", "thinking_blocks": [{"type": "thinking", "thinking": "why"}]}, "go"),
        ({"content": "why\n```\nls\n```", "thought": "why"}, "```\nls\n```"),
    ],
)  # fmt: skip
def test_an_action_contains_no_thought(fields: Json, action: str, tmp_path: Path) -> None:
    row = {"messages": [user(TASK), {"role": "assistant", **fields}], "reward": 1, "task_id": "t", "done": True}
    [turn] = only(read(tmp_path, [row])).turns
    assert (turn.action, turn.thought) == (action, "why")


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
        ({"done": "TerminationReason.MAX_STEPS"}, "env_limit"), ({"done": True, "truncated": 1}, "env_limit"), ({"truncated": "True"}, "env_limit"),
        ({"done": "1", "is_truncated": 1.0}, "env_limit"), ({"done": True, "info": {"TimeLimit.truncated": "true"}}, "env_limit"),
        ({"done": "", "truncated": "false"}, "failed"), ({"done": "max_turns_exceeded"}, "env_limit"), ({"done": "length"}, "token_limit"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("source", ["messages", "openenv", "verl", "verl-agent", "trl"])
def test_limits_are_told_from_ends_in_every_format(source: str, fields: Json, reason: str, tmp_path: Path) -> None:
    row = {
        "messages": {"messages": [user(TASK), agent("go")], "reward": 0.0, "task_id": "t"},
        "openenv": {"messages": [user(TASK), agent("go")], "reward": 0.0, "task": "t", "episode_id": "e"},
        "verl": {"input": "p", "output": "go", "score": 0.0, "step": 1},
        "verl-agent": {"input": "p", "output": "go", "score": 0.0, "step": 1, "traj_uid": "t"}, "trl": {"prompt": "p", "completion": "go", "acc": 0.0, "step": 1},
    }[source]  # fmt: skip
    assert only(read(tmp_path, [{**row, **fields}], source)).stop_reason == reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"stop_condition": "max_turns_reached"}, "env_limit"), ({"stop_condition": "step_limit"}, "env_limit"), ({"stop_condition": "timeout_reached"}, "env_limit"),
        ({"stop_condition": "prompt_too_long"}, "token_limit"), ({"is_truncated": "true"}, "token_limit"), ({"is_truncated": 0, "done": False}, "env_limit"),
        ({"error": {"error": "x"}}, "env_error"), ({"error": "", "done": True}, "failed"), ({"stop_condition": "no_tools_called"}, "failed"),
    ],
)  # fmt: skip
def test_ends_of_verifiers_are_its_conditions_or_the_fields_that_all_formats_share(
    fields: Json, reason: str, tmp_path: Path
) -> None:
    row = {"example_id": 3, "prompt": [user(TASK)], "completion": [agent("go")], "reward": 0.0}
    assert only(read(tmp_path, [{**row, **fields}], "verifiers")).stop_reason == reason
    own = read(tmp_path, [{**row, "stop_condition": "found_the_safe"}], "verifiers")
    assert (only(own).stop_reason, own.tally.notes["stop condition 'found_the_safe' counts as an end by itself"]) == (
        "failed",
        1,
    )


@pytest.mark.parametrize(("cut", "reason"), [(True, "env_limit"), ("false", "failed"), (0, "failed")])
def test_a_field_of_ends_may_be_one_that_says_that_a_limit_cut_them(cut: Any, reason: str, tmp_path: Path) -> None:
    row = {"messages": [user(TASK), agent("go")], "reward": 0.0, "task_id": "t", "info": {"truncated": cut}}
    assert only(read(tmp_path, [row], done="info.truncated")).stop_reason == reason


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
    others = read(tmp_path, [{**row, "id": "a", "started": "10:00"}, {**row, "id": "b", "started": "10:01"}])
    assert (others.rollouts, "copies under another id" in others.to_text()) == (2, True)


MARKS = {
    "chatml": ("<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"),
    "llama 3": ("<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    "llama 3, tool": ("<|eom_id|><|start_header_id|>ipython<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    "gemma": ("<end_of_turn>\n<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>"),
    "mistral": ("</s>[INST] ", " [/INST] ", "</s>"),
    "phi": ("<|end|>\n<|user|>\n", "<|end|>\n<|assistant|>\n", "<|end|>"),
    "deepseek": ("<｜end▁of▁sentence｜><｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    "llama 2": (" </s><s>[INST] ", " [/INST] ", " </s>"), "mistral, tool": ("</s>[TOOL_RESULTS]", "[/TOOL_RESULTS]", "</s>"),
    "command r": ("<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    "phi 4": ("<|im_end|><|im_start|>user<|im_sep|>", "<|im_end|><|im_start|>assistant<|im_sep|>", "<|im_end|>"),
    "granite": ("<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>"),
    "exaone": ("[|endofturn|]\n[|user|]", "[|endofturn|]\n[|assistant|]", "[|endofturn|]"), "gemma, skipped": ("\nuser\n", "\nmodel\n", "<pad><pad>"),
    "chatml, skipped": ("\nuser\n", "\nassistant\n", ""), "llama, skipped": ("user\n\n", "assistant\n\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("template", MARKS)
def test_dumps_in_known_chat_templates_are_cut_at_their_marks(template: str, tmp_path: Path) -> None:
    environment, model, end = MARKS[template]
    output = f"go north{environment}{ROOM}{model}open it{end}"
    found = only(read(tmp_path, [{"input": "p", "output": output, "score": 1.0, "step": 1}], "verl"))
    assert [(turn.observation, turn.response) for turn in found.turns] == [("p", "go north"), (ROOM, "open it")]


@pytest.mark.parametrize("template", [name for name in MARKS if name != "llama, skipped"])  # which leaves no mark
def test_an_end_of_a_sequence_is_no_part_of_an_action(template: str, tmp_path: Path) -> None:
    environment, _, end = MARKS[template]
    for output, after in (("go north", None), ("go north" + environment + ROOM, ROOM)):
        row = {"step": 1, "prompt": "p", "completion": output + end, "acc": 1.0}
        [turn] = only(read(tmp_path, [row], "trl")).turns
        assert turn.action == "go north", after


@pytest.mark.parametrize(
    "output",
    [
        "go<|turn_end|><|turn_user|>room<|turn_model|>end", "<|channel|>final<|message|>go<|end|><|start|>user<|message|>room", "go</s>USER: room ASSISTANT: end",
        "go<|END_OF_TURN|><|USER|>room", "go\n\n### Instruction:\nroom\n\n### Response:\nend", "go<seed:eos><seed:bos>user\nroom", "go[e~[\n]~b]user\nroom",
    ],
)  # fmt: skip
def test_a_dump_in_an_unknown_template_is_left_out_with_its_reason(output: str, tmp_path: Path) -> None:
    row = {"input": "p", "output": output, "score": 1.0, "step": 1}
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


@pytest.mark.parametrize("reward", ["acc,", ",", "acc,acc", "acc*nan", "acc*inf", "acc*", "*2"])
def test_every_entry_of_a_sum_of_rewards_names_a_column_and_a_finite_weight(reward: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="each name once"):
        read(tmp_path, [{"step": 1, "prompt": "p", "completion": "c", "acc": 1.0}], "trl", reward=reward)


@pytest.mark.parametrize("other", ["id", "task_id", "is_truncated", "run"])
def test_columns_that_name_a_rollout_or_its_end_are_no_rewards(other: str, tmp_path: Path) -> None:
    row = {"step": 1, "prompt": "p", "completion": "c", "acc": 0.5, other: 1}
    assert only(read(tmp_path, [row], "trl", id="run" if other == "run" else "")).turns[0].reward == 0.5


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("messages", {"success": "ok", "success_at": 5.0}, "has no effect"),
        ("trl", {"turns": "single"}, "has no effect"),
    ],
)
def test_an_option_without_effect_on_a_file_is_an_error(
    source: str, settings: Json, message: str, tmp_path: Path
) -> None:
    row = {
        "messages": [user(TASK), agent("go")],
        "reward": 1,
        "ok": True,
        "prompt": [user(TASK)],
        "completion": [agent("go")],
    }
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, [row], source, **settings)


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


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("form", ["lines", "list", "table"])
def test_a_field_that_nobody_reads_loses_no_row_whatever_number_it_has(number: str, form: str, tmp_path: Path) -> None:
    rows = [
        {"step": 1, "prompt": "p", "completion": f"c{i}", "acc": 0.5 + i, "kl": "@" if i else 0.1} for i in range(3)
    ]
    table = {"columns": [*rows[0]], "data": [[*row.values()] for row in rows]}
    written = {"lines": "\n".join(map(json.dumps, rows)), "list": json.dumps(rows), "table": json.dumps(table)}[form]
    path = tmp_path / "in.jsonl"
    path.write_text(written.replace('"@"', number) + "\n", encoding="utf-8")
    report = read_log("trl", path, ImportSettings(reward="acc"))
    assert (report.rollouts, report.tally.left_out) == (3, {})

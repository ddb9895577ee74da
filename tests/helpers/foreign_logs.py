"""Small logs in the formats of other libraries, with the fields that their own writers write.

Two tasks with two rollouts each; the second of a task succeeds. All walk through named rooms, so that the states are
known: rollout i sees room A, then room B (or A again), and ends.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["SAMPLES", "as_lines", "sample"]

ROOMS = (("A", "B"), ("A", "A"), ("A", "B"), ("A", "C"))


def _call(room: str) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "go", "arguments": json.dumps({"to": room})}}


def _messages(i: int) -> list[dict[str, Any]]:
    """Prompt, a tool call, its result, a final text."""
    first, second = ROOMS[i]
    return [
        {"role": "system", "content": "You walk."},
        {"role": "user", "content": f"Task {i // 2}. You are in room {first}."},
        {"role": "assistant", "content": "<think>east?</think>I go.", "tool_calls": [_call(second)]},
        {"role": "tool", "tool_call_id": "c", "content": f"You are in room {second}."},
        {"role": "assistant", "content": f"done {i}"},
    ]


def _plain(i: int) -> dict[str, Any]:
    return {
        "id": f"run-{i}", "task_id": f"rooms/{i // 2}", "messages": _messages(i), "reward": float(i % 2), "done": i != 2,
    }  # fmt: skip


def _openenv(i: int) -> dict[str, Any]:
    entry = {
        "tool_name": "go", "arguments": {"to": ROOMS[i][1]},
        "result": {"data": None, "done": False, "metadata": {"state": f"room {ROOMS[i][1]}"}, "error": None},
    }  # fmt: skip
    return {
        "episode_id": f"ep-{i:06d}", "messages": _messages(i), "reward": float(i % 2), "done": i != 2, "tool_trace": [entry],
        "metrics": {}, "verify_metrics": {"solved": bool(i % 2)}, "artifacts": {}, "task": {"n": i // 2}, "extra": {},
    }  # fmt: skip


def _verifiers_result(i: int) -> dict[str, Any]:
    steps = [
        {"reward": float(i % 2), "advantage": i % 2 - 0.5, "extras": {"room": room}, "is_truncated": False}
        for room in ROOMS[i]
    ]
    calls = [{**message, "tool_calls": list(map(json.dumps, message["tool_calls"]))} if "tool_calls" in message else message
             for message in _messages(i)]  # fmt: skip
    return {
        "example_id": i // 2, "prompt": calls[:2], "completion": calls[2:], "answer": "B", "reward": float(i % 2),
        "metrics": {"format": 0.5}, "error": None, "is_completed": True, "is_truncated": i == 2,
        "stop_condition": "max_turns_reached" if i == 2 else None, "trajectory": steps,
    }  # fmt: skip


def _node(parent: int | None, message: dict[str, Any], first: int) -> dict[str, Any]:
    sampled = message["role"] == "assistant"
    return {
        **({} if parent is None else {"parent": parent}), "message": message, "sampled": sampled, "semantic_parents": [],
        "timestamp": 1.0, "token_ids": [first, first + 1, first + 2], "mask": [False, sampled, sampled], "is_content": [],
        "logprobs": [-0.5, -0.25] if sampled else [], **({"advantages": [0.25, 0.75]} if sampled else {}),
    }  # fmt: skip


def _verifiers(i: int) -> dict[str, Any]:
    nodes = [_node(None if k == 0 else k - 1, message, 10 * k) for k, message in enumerate(_messages(i))]
    task = {"type": "Rooms", "data": {"idx": i // 2}, "key": f"rooms-{i // 2}"}
    trace = {
        "version": 1, "id": f"{i}", "task": task, "agent": {"config": {"model": "m"}, "name": "agent", "trainable": True},
        "nodes": nodes, "calls": [{"node": 2, "finish_reason": "tool_calls"}, {"node": 4, "finish_reason": "stop"}],
        "rewards": {"solved": {"score": float(i % 2), "weight": 1.0}, "style": {"score": 0.0, "weight": 0.5}},
        "metrics": {"turns": 2.0}, "is_completed": True, "ok": True, "stop_condition": "agent_completed", "errors": [],
    }  # fmt: skip
    return {
        "id": f"e{i}",
        "env": {"id": "rooms"},
        "task": task,
        "group": {"id": f"g{i // 2}"},
        "ok": True,
        "traces": [trace],
    }


def _verl(i: int) -> dict[str, Any]:
    first, second = ROOMS[i]
    return {
        "input": f"user\nTask {i // 2}. You are in room {first}.\nassistant\n",
        "output": f"<think>east?</think>I go.\nuser\nYou are in room {second}.\nassistant\ndone {i}",
        "gts": "B", "score": float(i % 2), "step": 3, "acc": bool(i % 2), "uid": f"s{i // 2}_{i % 2}_0",
    }  # fmt: skip


def _trl(i: int) -> dict[str, Any]:
    messages = _messages(i)
    return {
        "step": 5, "prompt": messages[:2], "completion": messages[2:], "solved": float(i % 2), "format": 0.5,
        "advantage": i % 2 - 0.5,
    }  # fmt: skip


def _verl_agent(i: int) -> list[dict[str, Any]]:
    rows = [
        {
            "input": f"user\nTask {i // 2}. After {t} steps you are in room {room}.\nassistant\n",
            "output": f"<think>east?</think><action>go {t}</action>", "score": float(i % 2), "step": 7, "uid": f"u{i // 2}",
            "traj_uid": f"t{i}", "anchor_obs": f"room {room}", "rewards": float(i % 2) if t else 0.0, "is_action_valid": True,
        }
        for t, room in enumerate(ROOMS[i])
    ]  # fmt: skip
    return [*rows, rows[0]]  # its trainer copies rows to fill a batch


SAMPLES: dict[str, list[dict[str, Any]]] = {
    "messages": [_plain(i) for i in range(4)],
    "openenv": [_openenv(i) for i in range(4)],
    "trl": [_trl(i) for i in range(4)],
    "verifiers": [_verifiers(i) for i in range(4)],
    "verifiers before v1": [_verifiers_result(i) for i in range(4)],
    "verl": [_verl(i) for i in range(4)],
    "verl-agent": [row for i in range(4) for row in _verl_agent(i)],
}


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    """The rows as JSON Lines."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def sample(name: str) -> tuple[str, bytes]:
    """The library of a sample, and the sample as JSON Lines."""
    return name.split()[0], as_lines(SAMPLES[name])

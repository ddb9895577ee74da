"""How an episode ended, in the words of trainers, servers and benchmarks. Every importer reads it here.

A limit says nothing about the state in which it cut an episode, so it must not be taken for an end of the task. A row says it in the
field that ``--done`` names, or in ``done``; and a ``truncated`` that is true, also as ``TimeLimit.truncated`` in ``info``, is a limit
whatever ``done`` says, as in Gym's old interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from creditflow.envs.errors import DataError, short_repr
from creditflow.train.adapters.logs.rows import MISSING, Row, RowError, Tally, at_path

__all__ = ["ENDS", "End", "end_of", "end_of_word", "require_known_ends"]

End = Literal["", "failed", "env_limit", "token_limit", "env_error"]  # "": by itself
ENDS: Final[Mapping[str, End]] = {
    **dict.fromkeys(
        ("true", "done", "stop", "stopped", "success", "succeeded", "solved", "terminated", "complete", "completed", "finished", "end",
         "end_turn", "end_of_turn", "eos", "eos_token", "stop_sequence", "stop_token", "tool_calls", "tool_use", "function_call",
         "user_stop", "agent_stop", "submitted", "exit"), "",
    ),
    **dict.fromkeys(("failed", "failure", "fail", "too_many_errors", "agent_error", "invalid_agent_message", "format"), "failed"),
    **dict.fromkeys(
        ("false", "truncated", "max_turns", "max_turns_reached", "max_steps", "max_iterations", "turn_limit", "step_limit", "env_limit",
         "tool_limit", "max_tool_calls", "recursion_limit", "timeout", "time_limit", "limit", "exit_cost"), "env_limit",
    ),
    **dict.fromkeys(
        ("length", "max_tokens", "max_length", "token_limit", "context_length", "context_length_exceeded", "context_window_exceeded",
         "model_length", "exit_context", "prompt_too_long"), "token_limit",
    ),
    **dict.fromkeys(
        ("error", "env_error", "exception", "crashed", "aborted", "cancelled", "content_filter", "infrastructure_error", "user_error",
         "exit_error", "exit_environment_error"), "env_error",
    ),
}  # fmt: skip
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
    cut = any(at_path(place, name) is True for place in places for name in ("truncated", "TimeLimit.truncated"))
    if value is MISSING or value is None:
        if field:
            raise RowError(f"there is no end under {field!r}")
        if not cut:
            tally.note(UNKNOWN)
        return "env_limit" if cut else ""
    end = end_of_word(value, field or "done", tally)
    return "env_limit" if cut and end in ("", "failed") else end


def end_of_word(value: Any, field: str, tally: Tally) -> End:
    """The end that a word, true or false names; an unknown word is remembered, so that the import fails with all of them."""
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        return "" if value else "env_limit"
    if not isinstance(value, str):
        raise RowError(f"{field!r} is neither true, false nor a word", short_repr(value))
    word = value.strip().lower().replace("-", "_").replace(" ", "_").rpartition(".")[2]
    if word not in ENDS:
        tally.unknown_ends[value] += 1
        return ""
    return ENDS[word]


def require_known_ends(path: str, tally: Tally) -> None:
    """Raise DataError, with all of them, if ends of rollouts are called by unknown words."""
    if tally.unknown_ends:
        words = ", ".join(f"{short_repr(word, 60)} ({count})" for word, count in tally.unknown_ends.most_common(10))
        raise DataError(
            f"{path}: unknown ways to end: {words}. Known are {', '.join(ENDS)}. Write one of these instead; or, if the field does "
            "not say how an episode ended, name another one with --done"
        )

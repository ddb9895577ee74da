"""How an episode ended, in the words of trainers, servers and benchmarks. Every importer reads it here.

A limit says nothing about the state in which it cut an episode, so it must not be taken for an end of the task. A row says it in the
field that ``--done`` names, or in ``done``; and one of ``CUTS`` that is true, in the row or in its ``info``, is a limit whatever
``done`` says, as in Gym's old interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from creditflow.envs.errors import DataError, short_repr
from creditflow.train.adapters.logs.rows import MISSING, Row, RowError, Tally, at_path, truth

__all__ = ["CUTS", "ENDS", "UNKNOWN", "End", "as_word", "end_of", "end_of_word", "require_known_ends"]

End = Literal["", "failed", "env_limit", "token_limit", "env_error"]  # "": by itself
CUTS: Final = ("truncated", "is_truncated", "TimeLimit.truncated")
ENDS: Final[Mapping[str, End]] = {
    **dict.fromkeys(
        ("true", "done", "stop", "stopped", "success", "succeeded", "solved", "terminated", "complete", "completed", "finished", "end",
         "end_turn", "end_of_turn", "eos", "eos_token", "stop_sequence", "stop_token", "tool_calls", "tool_use", "function_call",
         "user_stop", "agent_stop", "submitted", "exit", "yes", "1", "1.0"), "",
    ),
    **dict.fromkeys(("failed", "failure", "fail", "too_many_errors", "agent_error", "invalid_agent_message", "format"), "failed"),
    **dict.fromkeys(
        ("false", "truncated", "max_turns", "max_turns_reached", "max_turns_exceeded", "max_steps", "max_steps_reached", "max_steps_exceeded",
         "max_iterations", "interrupted", "incomplete", "unfinished", "turn_limit", "step_limit", "env_limit",
         "tool_limit", "max_tool_calls", "recursion_limit", "timeout", "time_limit", "limit", "exit_cost", "no", "0", "0.0"), "env_limit",
    ),
    **dict.fromkeys(
        ("length", "max_tokens", "max_length", "token_limit", "context_length", "context_length_exceeded", "context_window_exceeded",
         "model_length", "exit_context", "prompt_too_long", "max_output_tokens"), "token_limit",
    ),
    **dict.fromkeys(
        ("error", "env_error", "exception", "crashed", "abort", "aborted", "cancelled", "canceled", "content_filter", "infrastructure_error", "user_error", "api_error",
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

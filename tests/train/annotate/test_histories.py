"""Histories of a log: what a model read before each turn, as texts and as tokens, also of a branch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from numpy.typing import NDArray

from creditflow.train.annotate import AnnotationError
from creditflow.train.annotate.histories import text_histories, token_histories
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory


def encode(text: str) -> NDArray[np.int32]:
    return np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int32)


def written(played: Trajectory, *thoughts: str) -> Trajectory:
    """With observations and texts: the first turn by its response, the others by thought and action."""
    turns = [
        replace(
            turn,
            observation=f"at {turn.state_key}",
            response="" if thought else f"<{turn.action}>",
            thought=thought,
        )
        for turn, thought in zip(played.turns, thoughts, strict=True)
    ]
    return replace(played, turns=tuple(turns))


ROOT = written(walk("s a g", name="root", actions=["x", "y"]), "", "so")
BRANCH = written(walk("a b c", "failed", name="branch", actions=["q", "r"], parent="root", fork_turn=1), "", "")


@pytest.mark.parametrize("question", ["", "Who?\n"])
def test_text_histories_begin_with_the_question_and_those_of_a_branch_with_its_prefix(question: str) -> None:
    made = Group((ROOT, BRANCH), {"question": question.strip()} if question else {})
    first = f"{question}at s\n"
    root = [first, f"{first}<x>\nat a\n", f"{first}<x>\nat a\nso\ny\n"]
    branch = [f"{first}<x>\nat a\n", f"{first}<x>\nat a\n<q>\nat b\n", f"{first}<x>\nat a\n<q>\nat b\n<r>\n"]
    for index, expected in enumerate((root, branch)):
        found = [bytes(ids.astype(np.uint8)).decode("ascii") for ids in text_histories(made, index, encode)]
        assert found == expected


def test_a_log_without_texts_has_no_text_histories() -> None:
    with pytest.raises(AnnotationError, match="recorded without texts"):
        list(text_histories(group(walk("s a g")), 0, encode))


def test_token_histories_end_where_the_model_wrote() -> None:
    # two turns: 2 tokens read and 2 written, 1 read and 2 written; the second turn writes nothing in the other episode
    ids = np.arange(5, 12, dtype=np.int32)
    mask = np.array([0, 0, 1, 1, 0, 1, 1], np.bool_)
    offsets = np.array([0, 4, 7], np.int32)
    whole = replace(walk("s a g"), tokens=Tokens(ids, mask, np.zeros(7, np.float32), offsets))
    assert [one.tolist() for one in token_histories(whole)] == [[5, 6], [5, 6, 7, 8, 9], ids.tolist()]
    windowed = Tokens(ids[[2, 3, 5, 6]], np.ones(4, np.bool_), np.zeros(4, np.float32), np.array([0, 2, 4], np.int32),
                      prompts=(ids[:2], ids[4:5]))  # fmt: skip
    found = [one.tolist() for one in token_histories(replace(walk("s a g"), tokens=windowed))]
    assert found == [[5, 6], [9], [9, 10, 11]]


def test_token_histories_need_tokens_unless_there_is_no_turn() -> None:
    with pytest.raises(AnnotationError, match="history=text"):
        list(token_histories(walk("s a g")))
    [only] = token_histories(Trajectory("w", "g", "t", (), False, 0.0, "env_error", "s"))
    assert only.tolist() == []

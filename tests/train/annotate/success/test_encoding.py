"""Encoding of episodes: positions of turn ends are exact, and episodes that cannot be encoded are rejected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.train.annotate.success.encoding import Encoder, EpisodeTooLongError, TextConfig
from creditflow.wrappers.trajectory import Group, Trajectory, Turn


class Bytes:
    """A tokenizer of bytes, whose role tokens have ids from 256 on."""

    def __init__(self, roles=()):
        self.roles = roles

    def get_vocab(self):
        return {f"<|{name}|>": 256 + i for i, name in enumerate(self.roles)}

    def __call__(self, texts, *, add_special_tokens, **_options):
        assert not add_special_tokens
        return {"input_ids": [list(text.encode()) for text in texts]}


ROLES = ("user", "assistant", "end")


def turns(*texts):
    return [
        Turn(f"s{t}", action, f"s{t + 1}", observation=observation, response=f"<{action}>")
        for t, (observation, action) in enumerate(texts)
    ]


def text_until(encoded, end):
    return bytes(i for i in encoded.ids[: end + 1].tolist() if i < 256).decode()


def test_ends_are_those_of_the_question_and_of_each_turns_result():
    encoded = Encoder(Bytes(ROLES), TextConfig()).encode(turns(("Q", "a"), ("R1", "b"), ("R2", "c")), "t")
    assert [text_until(encoded, end) for end in encoded.ends] == ["Q", "QaR1", "QaR1bR2", "QaR1bR2c"]


def test_read_at_the_action_the_end_of_a_turn_is_before_its_result():
    encoded = Encoder(Bytes(ROLES), TextConfig(read="action")).encode(turns(("Q", "a"), ("R1", "b")), "t")
    assert [text_until(encoded, end) for end in encoded.ends] == ["Q", "Qa", "QaR1b"]


def test_role_tokens_frame_the_parts_where_the_tokenizer_has_them_and_lines_elsewhere():
    (turn,) = turns(("Q", "a"))
    framed = Encoder(Bytes(ROLES), TextConfig()).encode([turn], "t").ids.tolist()
    assert framed == [256, ord("Q"), 258, 257, ord("a"), 258]
    assert bytes(Encoder(Bytes(), TextConfig()).encode([turn], "t").ids.tolist()).decode() == "Q\na\n"


@given(texts=st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=5))
def test_there_is_one_end_more_than_turns_and_ends_ascend(texts):
    encoded = Encoder(Bytes(ROLES), TextConfig()).encode(turns(*texts), "t")
    assert len(encoded.ends) == len(texts) + 1
    assert (np.diff(encoded.ends) > 0).all()
    assert encoded.ends[-1] == len(encoded) - 1


def test_responses_and_truncated_observations_are_options():
    encoder = Encoder(Bytes(), TextConfig(action="response", observation_tokens=2))
    assert bytes(encoder.encode(turns(("Question", "a")), "t").ids.tolist()).decode() == "Qu\n<a>\n"


def test_a_branch_is_encoded_with_the_turns_it_shares():
    root = Trajectory("root", "g", "k", tuple(turns(("Q", "a"), ("R", "b"))), False, 0.0, "failed", "s2")
    own = (Turn("s1", "c", "x", observation="R"),)
    branch = Trajectory("branch", "g", "k", own, False, 0.0, "failed", "x", parent="root", fork_turn=1)
    encoded = Encoder(Bytes(ROLES), TextConfig()).encode_member(Group((root, branch)), 1)
    assert [text_until(encoded, end) for end in encoded.ends] == ["Q", "QaR", "QaRc"]
    assert encoded.shared == 1


def test_an_episode_longer_than_the_model_is_rejected():
    with pytest.raises(EpisodeTooLongError, match="t has 12 tokens, the success model takes at most 8"):
        Encoder(Bytes(), TextConfig(), positions=8).encode(turns(("12345678", "ab")), "t")
    with pytest.raises(ConfigError, match="must not be negative"):
        TextConfig(observation_tokens=-1)

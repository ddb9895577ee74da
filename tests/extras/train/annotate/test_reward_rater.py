"""The rater of ``serve-reward``: episodes in the annotator's own encoding, and texts evaluated at their placeholders."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.models.toy_success import success_folder
from helpers.servers.load import require_ends_under_load

from creditflow.envs.errors import DataError
from creditflow.train.annotate.registry import Context
from creditflow.train.annotate.success.annotator import make
from creditflow.train.annotate.success.serving.rater import LocalRater
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

MARK = "<|vision_start|>"


def episode() -> tuple[Turn, ...]:
    return tuple(
        Turn(f"s{t}", f"look {word}", f"s{t + 1}", observation=f"seen {word}") for t, word in enumerate(("ash", "elm"))
    )


@pytest.mark.parametrize("kind", ["paper", "hazard"])
def test_an_episode_is_rated_as_the_annotator_rates_it(kind: str, tmp_path: Path) -> None:
    folder = success_folder(tmp_path / "model", kind)
    rater = LocalRater(folder, device="cpu")
    member = Trajectory("t", "g", "task", episode(), True, 1.0, "success", "s2")
    annotator = make(folder, Context(device="cpu"))
    [annotations] = annotator.annotate([Group((member,))])
    [success] = rater.success([rater.read_turns(episode())])
    np.testing.assert_allclose(
        success, [*annotations.turns["value.pica"], annotations.turns["value.pica.next"][-1]], atol=1e-6
    )
    assert rater.about["model"] == annotator.provenance.model
    assert rater.about["parameters"] == annotator.provenance.parameters


def test_every_placeholder_has_its_hazard_which_later_text_does_not_change(tmp_path: Path) -> None:
    rater = LocalRater(success_folder(tmp_path / "model", "hazard"), device="cpu")
    long = rater.read_text(f"find ash look elm{MARK}\n seen elm look ash{MARK}")
    short = rater.read_text(f"find ash look elm{MARK} look birch{MARK} the rest is not read")
    alone = rater.hazards([rater.read_text(f"find ash look elm{MARK}")])[0]
    together = rater.hazards([long, short])
    assert [len(one) for one in together] == [2, 2]
    np.testing.assert_allclose([one[0] for one in together], alone[0], atol=1e-6)
    assert abs(together[0][1] - together[1][1]) > 1e-6
    assert all(((one > 0.0) & (one < 1.0)).all() for one in together)


def test_a_placeholder_that_is_one_token_is_evaluated_at_that_token(tmp_path: Path) -> None:
    folder = success_folder(tmp_path / "model", "hazard")
    known = LocalRater(folder, device="cpu", placeholder="<|end|>")
    text = known.read_text("find ash<|end|> look<|end|>")
    mark = known._encoder.tokenizer.get_vocab()["<|end|>"]
    assert text.ids[text.ends].tolist() == [mark, mark]
    unknown = LocalRater(folder, device="cpu").read_text(f"find ash{MARK} look{MARK}")
    assert mark not in unknown.ids
    assert len(unknown.ids) == len(text.ids) - 2


def test_a_model_that_needs_turns_rejects_texts(tmp_path: Path) -> None:
    rater = LocalRater(success_folder(tmp_path / "model", "hazard", names="origins"), device="cpu")
    with pytest.raises(DataError, match="use /success"):
        rater.read_text(f"find ash{MARK}")
    assert len(rater.success([rater.read_turns(episode())])[0]) == 3


def test_texts_that_cannot_be_encoded_are_rejected(tmp_path: Path) -> None:
    rater = LocalRater(success_folder(tmp_path / "model", "hazard"), device="cpu")
    for text, message in (
        ("find ash", "no placeholder"),
        (f"{MARK}find ash", "begins with a placeholder"),
        ("find ash " * 90 + MARK, "the model takes at most 96"),
    ):
        with pytest.raises(DataError, match=message):
            rater.read_text(text)


def test_an_empty_invalid_turn_is_rated_and_a_log_without_texts_rejected(tmp_path: Path) -> None:
    rater = LocalRater(success_folder(tmp_path / "model", "hazard"), device="cpu")
    first, last = episode()
    assert len(rater.success([rater.read_turns([replace(first, action="", parsed=False), last])])[0]) == 3
    with pytest.raises(DataError, match="turn 0 has no action"):
        rater.read_turns([replace(first, action=""), last])


def test_a_lone_surrogate_which_json_can_carry_is_read_as_a_question_mark(tmp_path: Path) -> None:
    rater = LocalRater(success_folder(tmp_path / "model", "hazard"), device="cpu")
    np.testing.assert_array_equal(rater.read_text(f"find \ud800{MARK}").ids, rater.read_text(f"find ?{MARK}").ids)
    first, last = episode()
    odd, plain = (rater.read_turns([replace(first, action=f"look {one}"), last]) for one in ("\udfff", "?"))
    np.testing.assert_array_equal(odd.ids, plain.ids)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_its_server_under_load_answers_and_ends_at_once(sent: signal.Signals, tmp_path: Path) -> None:
    folder = success_folder(tmp_path / "model", "hazard")
    body = json.dumps({"query": [f"find ash look elm{MARK} seen elm{MARK}"], "prompts": []}).encode()
    words = ["serve-reward", "--model", str(folder), "--device", "cpu", "--port"]
    require_ends_under_load(words, "get_reward", body, sent)

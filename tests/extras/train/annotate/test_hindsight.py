"""Actions in hindsight, and the gap to a teacher with a skill's text: exact log-probabilities, and the credit they make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.annotate import AnnotationError, Context, annotate, make_annotator
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory

SIZES = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=300, init=0.2, positions=96)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer(["who was it", "look say guess Action: In the end: at s a g"] * 4, SIZES)
    build_model(SIZES, tokenizer, seed=1).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def played(**task: Any) -> Group:
    made = group(walk("s a g", actions=["look", "say"]), walk("s b", "failed", actions=["guess"]))
    members = [
        replace(
            t,
            turns=tuple(replace(u, observation=f"at {u.state_key}", response=f"<{u.action}>") for u in t.turns),
            final_text_key=f"at {t.final_state_key}",
        )
        for t in made.trajectories
    ]
    return Group(tuple(members), task)


def annotator(folder: Path, name: str, **settings: Any) -> Any:
    return make_annotator(f"{name}:{folder}", Context(settings, device="cpu"))


def direct(folder: Path, before: list[int], scored: list[int]) -> float:
    """log p of the scored tokens after the others, from the full logits."""
    from creditflow.agents.language_model.pretrained import open_pretrained

    model, _ = open_pretrained(str(folder), device="cpu")
    with torch.no_grad():
        scores = torch.log_softmax(model(input_ids=torch.tensor([before + scored])).logits[0].double(), -1)
    return sum(float(scores[len(before) + k - 1, token]) for k, token in enumerate(scored))


def ids(folder: Path, *parts: str) -> list[int]:
    from creditflow.agents.language_model.pretrained import open_pretrained

    _, tokenizer = open_pretrained(str(folder), device="cpu")
    return [i for part in parts for i in tokenizer.encode(part, add_special_tokens=False)]


def values(done: Group, name: str) -> list[float]:
    return [turn.values[name] for turn in done.turns]


def test_an_action_is_scored_after_its_state_and_the_final_state(folder: Path) -> None:
    [done] = annotate([played(question="Who?")], annotator(folder, "hindsight", compare=True))
    last = "In the end:\nat g\n"
    for got, plain, state, end, action in zip(
        values(done, "logp.hindsight"), values(done, "logp.action"), ("at s\n", "at a\n", "at s\n"),
        (last, last, "In the end:\nat b\n"), ("look", "say", "guess"), strict=True,
    ):  # fmt: skip
        scored = ids(folder, action)
        assert got == pytest.approx(
            direct(folder, ids(folder, "Who?\n", state, end, "Action: "), scored) / len(scored), abs=1e-5
        )
        assert plain == pytest.approx(
            direct(folder, ids(folder, "Who?\n", state, "Action: "), scored) / len(scored), abs=1e-5
        )
    scored_group = credit.make("hcapo").assign(done)
    assert np.isfinite(scored_group.flat_advantages).all()
    ratio = np.exp(np.array(values(done, "logp.hindsight")[:2]) / 5.0)
    assert scored_group.diagnostics["ratio"][:2] == pytest.approx(ratio / ratio.mean())


def test_the_comparison_adds_values_and_changes_none(folder: Path) -> None:
    [alone] = annotate([played()], annotator(folder, "hindsight"))
    [both] = annotate([played()], annotator(folder, "hindsight", compare=True))
    assert all(turn.values.keys() == {"logp.hindsight"} for turn in alone.turns)
    assert values(alone, "logp.hindsight") == pytest.approx(values(both, "logp.hindsight"), abs=1e-5)
    assert len(set(values(alone, "logp.hindsight"))) == 3


def test_the_final_state_can_be_a_key_and_the_response_can_be_scored(folder: Path) -> None:
    [done] = annotate([played()], annotator(folder, "hindsight", final="key", scored="response"))
    scored = ids(folder, "<look>")
    before = ids(folder, "at s\n", "In the end:\ng\n", "Action: ")
    assert values(done, "logp.hindsight")[0] == pytest.approx(direct(folder, before, scored) / len(scored), abs=1e-5)


def test_logs_that_cannot_be_scored_in_hindsight_are_rejected(folder: Path) -> None:
    bare = group(walk("s a g"))
    with pytest.raises(AnnotationError, match="without its observation"):
        annotate([bare], annotator(folder, "hindsight"))
    silent = Group(
        tuple(replace(m, turns=tuple(replace(t, action=" ") for t in m.turns)) for m in played().trajectories)
    )
    with pytest.raises(AnnotationError, match="or its action"):
        annotate([silent], annotator(folder, "hindsight"))
    textless = Group(tuple(replace(m, final_text_key="") for m in played().trajectories))
    with pytest.raises(AnnotationError, match="no final text; use --set final=key"):
        annotate([textless], annotator(folder, "hindsight"))
    with pytest.raises(AnnotationError, match="the model takes at most 96"):
        annotate([played(question="why " * 100)], annotator(folder, "hindsight"))
    with pytest.raises(ConfigError, match="did you mean 'text'"):
        annotator(folder, "hindsight", final="texts")
    with pytest.raises(ConfigError, match="'action' or 'response'"):
        annotator(folder, "hindsight", scored="thought")


def test_the_gap_is_that_of_a_skill_before_the_recorded_texts(folder: Path) -> None:
    [done] = annotate([played()], annotator(folder, "teacher", skill="say it", history="text"))
    histories = [["at s\n"], ["at s\n", "<look>\n", "at a\n"], ["at s\n"]]
    for got, history, wrote in zip(
        values(done, "logp.teacher.gap"), histories, ("<look>", "<say>", "<guess>"), strict=True
    ):
        scored = ids(folder, wrote)
        with_skill = direct(folder, ids(folder, "say it\n", *history), scored)
        assert got == pytest.approx(with_skill - direct(folder, ids(folder, *history), scored), abs=1e-4)
    assert np.isfinite(credit.make("agent_opsd").assign(done).flat_advantages).all()


@pytest.mark.parametrize("windowed", [False, True])
def test_the_gap_in_the_tokens_that_were_sampled(folder: Path, windowed: bool) -> None:
    stream = np.array([5, 6, 7, 8, 9, 10, 11], np.int32)
    if windowed:
        tokens = Tokens(
            np.array([7, 8, 10, 11], np.int32), np.ones(4, np.bool_), np.zeros(4, np.float32), np.array([0, 2, 4], np.int32),
            prompts=(stream[:2], np.array([9], np.int32)),
        )  # fmt: skip
    else:
        mask = np.array([0, 0, 1, 1, 0, 1, 1], np.bool_)
        tokens = Tokens(stream, mask, np.zeros(7, np.float32), np.array([0, 4, 7], np.int32))
    one = Group((replace(walk("s a g"), tokens=tokens),), {"skill": "look"})
    [done] = annotate([one], annotator(folder, "teacher"))
    skill = ids(folder, "look\n")
    for got, before, wrote in zip(
        values(done, "logp.teacher.gap"),
        ([5, 6], [9] if windowed else [5, 6, 7, 8, 9]),
        ([7, 8], [10, 11]),
        strict=True,
    ):
        expected = direct(folder, [*skill, *before], wrote) - direct(folder, before, wrote)
        assert got == pytest.approx(expected, abs=1e-4)


def test_an_empty_skill_and_a_log_without_tokens_are_rejected(folder: Path) -> None:
    with pytest.raises(AnnotationError, match="no skill under 'skill'"):
        annotate([played()], annotator(folder, "teacher", history="text"))
    with pytest.raises(AnnotationError, match="has no tokens; use --set history=text"):
        annotate([played(skill="look")], annotator(folder, "teacher"))
    with pytest.raises(ConfigError, match="'text' or 'tokens'"):
        annotator(folder, "teacher", history="words")


def test_a_trajectory_without_turns_has_no_values_and_shifts_no_others(folder: Path) -> None:
    [one, other] = played().trajectories
    empty = Trajectory("empty", one.group_id, one.task_id, (), False, 0.0, "env_error", "s")
    for name, settings in (("hindsight", {}), ("teacher", {"skill": "say", "history": "text"})):
        [done] = annotate([Group((one, empty, other))], annotator(folder, name, **settings))
        [without] = annotate([played()], annotator(folder, name, **settings))
        for a, b in zip(done.turns, without.turns, strict=True):
            assert dict(a.values) == pytest.approx(dict(b.values), abs=1e-5)


def test_values_do_not_depend_on_the_batch_size(folder: Path) -> None:
    for name, settings in (("hindsight", {}), ("teacher", {"skill": "say", "history": "text"})):
        [whole] = annotate([played()], annotator(folder, name, **settings))
        [split] = annotate([played()], annotator(folder, name, batch_tokens=20, **settings))
        for a, b in zip(whole.turns, split.turns, strict=True):
            assert dict(a.values) == pytest.approx(dict(b.values), abs=1e-5)

"""Answer likelihoods: exact at every turn, over the answer's tokens alone, with the reason where they are undefined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate import AnnotationError, Context, annotate, make_annotator
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.wrappers.records.group import Group

SIZES = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=300, init=0.2, positions=96)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = build_tokenizer(["who was it", "page answer Paris London <answer>"] * 4, SIZES)
    build_model(SIZES, tokenizer, seed=1).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def searched(**task: Any) -> Group:
    made = group(walk("s a g", actions=["look", "say"]), walk("s b", "failed", actions=["guess"]))
    members = [
        replace(t, turns=tuple(replace(u, observation=f"at {u.state_key}", response=f"<{u.action}>") for u in t.turns))
        for t in made.trajectories
    ]
    return Group(tuple(members), {"question": "Who?", "answers": ["Paris", "London"]} | task)


def annotator(folder: Path, **settings: Any) -> Any:
    return make_annotator(f"likelihood:{folder}", Context(settings, device="cpu"))


def direct(folder: Path, history: str, answer: str) -> tuple[float, int]:
    """log p of the answer's own tokens after the history's, from the full logits."""
    from creditflow.agents.language_model.pretrained import open_pretrained

    model, tokenizer = open_pretrained(str(folder), device="cpu")
    pieces = [tokenizer.encode(part, add_special_tokens=False) for part in history.split("|")]
    before, target = [i for piece in pieces for i in piece], tokenizer.encode(answer, add_special_tokens=False)
    with torch.no_grad():
        scores = torch.log_softmax(model(input_ids=torch.tensor([before + target])).logits[0].double(), -1)
    return sum(float(scores[len(before) + k - 1, token]) for k, token in enumerate(target)), len(target)


def test_the_likelihood_is_that_of_the_answer_after_the_history_so_far(folder: Path) -> None:
    [done] = annotate([searched()], annotator(folder))
    histories = ["Who?\n|at s\n", "Who?\n|at s\n|<look>\n|at a\n", "Who?\n|at s\n|<look>\n|at a\n|<say>\n"]
    expected = [direct(folder, history + "|\n<answer>", "Paris</answer>") for history in histories]
    turns = done.trajectories[0].turns
    means = [*(t.values["logp.answer.mean"] for t in turns), turns[-1].values["logp.answer.mean.next"]]
    assert means == pytest.approx([total / n for total, n in expected], abs=1e-5)
    # both rollouts begin with the same question
    assert done.trajectories[1].turns[0].values["logp.answer.mean"] == pytest.approx(means[0], abs=1e-5)
    assert np.isfinite(credit.make("igpo").assign(done).flat_advantages).all()


def test_values_do_not_depend_on_the_batch_size(folder: Path) -> None:
    [whole] = annotate([searched()], annotator(folder))
    [split] = annotate([searched()], annotator(folder, batch_tokens=30))
    for a, b in zip(whole.turns, split.turns, strict=True):
        assert dict(a.values) == pytest.approx(dict(b.values), abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": []}, "no answers under 'answers' .fields: answers, question"),
        ({"answers": 7}, "no answers under 'answers'"),
        ({"answers": {"Paris": 1}}, "no answers under 'answers'"),
        ({"question": "why " * 100}, "the model takes at most 96"),
    ],
)
def test_tasks_that_cannot_be_scored_are_rejected(folder: Path, change: Any, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        annotate([searched(**change)], annotator(folder))


def test_a_log_without_texts_is_rejected(folder: Path) -> None:
    bare = Group(group(walk("s a g")).trajectories, {"answers": "Paris"})
    with pytest.raises(AnnotationError, match="recorded without texts"):
        annotate([bare], annotator(folder))


def test_the_histories_of_a_branch_begin_with_those_of_its_parent(folder: Path) -> None:
    root = searched().trajectories[0]
    branch = replace(walk("a g", name="branch", actions=["say"], parent=root.trajectory_id, fork_turn=1))
    own = tuple(replace(turn, observation="at a", response="<say>") for turn in branch.turns)
    [done] = annotate([Group((root, replace(branch, turns=own)), searched().task)], annotator(folder))
    parent, child = done.trajectories
    for name in ("logp.answer.mean", "logp.answer.mean.next"):
        assert child.turns[0].values[name] == pytest.approx(parent.turns[1].values[name], abs=1e-5)


def test_wrong_models_and_settings_are_rejected(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'batch_tokens'"):
        annotator(folder, batch_token=30)
    with pytest.raises(DataError):
        annotator(tmp_path / "nothing")


def test_provenance_names_the_weights_and_the_parameters(folder: Path) -> None:
    first = annotator(folder).provenance
    assert first == annotator(folder).provenance
    assert first.parameters["history"] == "text"
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    assert annotator(folder).provenance.model != first.model

"""A critic's value loss, its folder, and annotating a log with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models.critic_runs import PPO, TURNS, Make, played

from creditflow.envs.errors import DataError
from creditflow.train.annotate import annotate, make_annotator
from creditflow.train.annotate.registry import Context
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.critic import open_critic, save_critic
from creditflow.train.policy.losses import value_losses
from creditflow.train.policy.samples import make_rows
from creditflow.wrappers.trajectory import read_groups, write_jsonl


def test_value_losses_are_clipped_where_that_increases_them() -> None:
    value, old, target = torch.tensor([1.0, 1.0, 0.3]), torch.zeros(3), torch.tensor([2.0, -2.0, 0.25])
    losses, clipped = value_losses(value, old, target, 0.2)
    assert losses.tolist() == pytest.approx([0.5 * 1.8**2, 0.5 * 3.0**2, 0.5 * 0.05**2])
    assert clipped.tolist() == [True, False, False]
    assert value_losses(value, old, target, 0.0)[0].tolist() == pytest.approx([0.5, 4.5, 0.5 * 0.05**2])


def test_a_written_critic_annotates_a_log_as_the_run_did(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    run = trainer_of(config, *PPO)
    run.run()
    groups = played(run)
    bare = [
        replace(g, trajectories=tuple(
            replace(t, provenance={}, tokens=replace(t.tokens, values={}), turns=tuple(replace(u, values={}) for u in t.turns))
            for t in g.trajectories if t.tokens is not None
        )) for g in groups
    ]  # fmt: skip
    write_jsonl(tmp_path / "log.jsonl", bare)
    annotator = make_annotator(f"critic:{run.folder / 'critic'}", Context(device="cpu"))
    assert annotator.provenance.model.startswith("blake2b:")
    again = annotate(read_groups(tmp_path / "log.jsonl"), annotator)
    for ours, theirs in zip(again, groups, strict=True):
        for a, b in zip(ours.trajectories, theirs.trajectories, strict=True):
            assert [t.values for t in a.turns] == [pytest.approx(dict(t.values), abs=1e-5) for t in b.turns]
    write_jsonl(tmp_path / "known.jsonl", again)
    assert read_groups(tmp_path / "known.jsonl")[0].trajectories == again[0].trajectories


def test_a_folder_without_a_critic_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a critic"):
        open_critic(tmp_path, torch.device("cpu"))


def test_a_saved_critic_predicts_the_same(trainer_of: Make, config: dict[str, Any], tmp_path: Path) -> None:
    run = trainer_of(config, *TURNS)
    run.run()
    assert run.critic is not None
    save_critic(run.critic, tmp_path / "critic")
    opened = open_critic(tmp_path / "critic", torch.device("cpu"))
    rows = make_rows(played(run), run.scheme.assign_batch(played(run)))
    [batch] = batches_of(rows, 1 << 20, torch.device("cpu"))
    with torch.no_grad():
        torch.testing.assert_close(opened(batch), run.critic(batch))

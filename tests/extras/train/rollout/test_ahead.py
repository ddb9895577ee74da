"""Rollouts ahead of the update: the same run whatever takes how long, resumed bit by bit, and refused where they cannot work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from helpers.injected import InjectedError, failing_at
from helpers.models.training_runs import Make, metrics, same, weights

from creditflow.agents.backends.base import GenerationError
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.envs.errors import DataError
from creditflow.train import trainer as trainer_module
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.policy.update import update_policy
from creditflow.train.run.folder import require_same_run
from creditflow.train.run.identity import OtherRunError
from creditflow.train.trainer import Trainer

AHEAD = ("update.iterations=5", "rollout.tasks=3", "rollout.group_size=6")


def alive() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("creditflow")}


def numbers(run: Trainer) -> list[dict[str, Any]]:
    """Metrics of iterations without timings."""
    return [{k: v for k, v in r.items() if k != "sampling_seconds"} for r in metrics(run) if r["kind"] == "iteration"]


def played(run: Trainer) -> list[tuple[int, str]]:
    """Run; returns (iteration, version of the weights that sampled its episodes)."""
    found: list[tuple[int, str]] = []
    sample = run.sample

    def noted(iteration: int) -> Any:
        sampled = sample(iteration)
        found.extend(
            (iteration, t.tokens.policy_version) for g in sampled.groups for t in g.trajectories if t.tokens is not None
        )
        return sampled

    with patch.object(run, "sample", noted):
        run.run()
    return sorted(set(found))


@pytest.mark.parametrize("lag", [1, 2])
def test_iteration_i_is_sampled_by_the_weights_of_iteration_i_minus_k(
    trainer_of: Make, config: dict[str, Any], lag: int
) -> None:
    run = trainer_of(config, *AHEAD, f"rollout.max_staleness={lag}")
    versions = played(run)
    assert versions == [(i, f"rl-{max(0, i - lag):07d}") for i in range(5)]
    records = numbers(run)
    assert [r["staleness"] for r in records] == [min(i, lag) for i in range(5)]
    trained = [r for r in records if r["steps"]]
    assert all(0.0 <= r["importance_truncated"] <= 1.0 for r in trained)
    assert all((r["sampler_mismatch_max"] < 1e-4) == (not r["staleness"]) for r in trained)
    assert {bool(r["staleness"]) for r in trained} == {True, False}
    assert not alive()


def test_the_weights_that_sample_are_those_of_the_version(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    real = TransformersBackend.generate

    def noted(self: Any, *arguments: Any) -> Any:
        own = next(self.model.parameters()).detach().clone()
        assert (seen.setdefault(self.version, own) == own).all(), "the weights changed in the middle of a rollout"
        return real(self, *arguments)

    monkeypatch.setattr(TransformersBackend, "generate", noted)
    run = trainer_of(config, *AHEAD, "rollout.max_staleness=1")
    saved: dict[str, Any] = {"rl-0000000": None}
    update = run.rollouts.update

    def after(done: int) -> Any:
        saved[f"rl-{done:07d}"] = next(run.model.parameters()).detach().clone()
        return update(done)

    monkeypatch.setattr(run.rollouts, "update", after)
    run.run()
    assert sorted(seen) == [f"rl-{i:07d}" for i in range(4)]
    assert all((seen[name] == saved[name]).all() for name in sorted(seen)[1:])


@pytest.mark.parametrize("slow", ["sampler", "update"])
def test_a_run_does_not_depend_on_which_is_slower(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = (*AHEAD, "rollout.max_staleness=2", "checkpoint.every=100")  # a checkpoint waits for both sides
    expected = trainer_of(config, *changes, f"out={tmp_path}/a")
    expected.run()
    run = trainer_of(config, *changes, f"out={tmp_path}/b")
    update, sample, take = run._update, run.rollouts._sample, run.sample
    asked_for = [threading.Event() for _ in range(5)]

    def late_update(*arguments: Any) -> Any:
        run.rollouts.prepare_evaluation()  # waits until nothing more can be sampled ahead
        return update(*arguments)

    def late_sample(slot: int, iteration: int, on_turn: Any) -> Any:
        assert asked_for[iteration].wait(60)
        return sample(slot, iteration, on_turn)

    def asking(iteration: int) -> Any:
        asked_for[iteration].set()
        return take(iteration)

    if slow == "update":
        monkeypatch.setattr(run, "_update", late_update)
    else:
        monkeypatch.setattr(run.rollouts, "_sample", late_sample)
        monkeypatch.setattr(run, "sample", asking)
    run.run()
    assert same(weights(run), weights(expected))
    assert numbers(run) == numbers(expected)


PARTS = {
    "alone": (),
    "critic, reference": ("credit.scheme=mt_ppo", "critic.kind=separate", "update.loss.kl_weight=0.1"),
    "sampled again, branches": (
        "rollout.dynamic_sampling=true", "rollout.branching.max_trajectories=8", "rollout.branching.threshold=0.1",
    ),
    "ratios to the sampler": ("update.old_logprobs=sampler", "update.minibatches=2"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("lag", "call", "parts"),
    [(1, 2, "alone"), (1, 4, "critic, reference"), (2, 3, "sampled again, branches"), (2, 4, "ratios to the sampler")],
)
def test_a_resumed_run_is_bit_equal_to_an_uninterrupted_one(
    trainer_of: Make,
    config: dict[str, Any],
    tmp_path: Path,
    lag: int,
    call: int,
    parts: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config["evaluation"] = {"panel": "small-v1:valid", "limit": 2, "samples": 1, "every": 2}
    config["prompting"] = {"prompt": "places-v1", "dialect": "bare", "history": "window", "window": 0}
    config["rollout"]["max_staleness"] = lag
    whole = trainer_of(config, *AHEAD, *PARTS[parts], f"out={tmp_path}/whole")
    whole.run()
    monkeypatch.setattr(trainer_module, "update_policy", failing_at(call, update_policy))
    with pytest.raises(InjectedError):
        trainer_of(config, *AHEAD, *PARTS[parts], f"out={tmp_path}/cut").run()
    assert not alive()
    resumed = trainer_of(config, *AHEAD, *PARTS[parts], f"out={tmp_path}/cut", resume=True)
    resumed.run()
    assert same(weights(resumed), weights(whole))
    assert numbers(resumed) == numbers(whole)


def test_an_engine_that_dies_in_an_episode_ends_the_run_which_then_resumes(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config["rollout"]["max_staleness"] = 1
    whole = trainer_of(config, *AHEAD, f"out={tmp_path}/whole")
    whole.run()
    cut = trainer_of(config, *AHEAD, f"out={tmp_path}/cut")
    real, calls = TransformersBackend.generate, 0

    def dying(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += self.version == "rl-0000001"
        if calls == 2:  # in the second turn of the episodes
            raise GenerationError("the engine was killed by signal 9")
        return real(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(TransformersBackend, "generate", dying)
        with pytest.raises(GenerationError, match="killed by signal 9"):
            cut.run()
    assert not alive()
    kept = latest_checkpoint(tmp_path / "cut" / "checkpoints")
    assert kept is not None
    assert kept.name == "rl-0000001"
    resumed = trainer_of(config, *AHEAD, f"out={tmp_path}/cut", resume=True)
    resumed.run()
    assert same(weights(resumed), weights(whole))


@pytest.mark.parametrize("lag", [0, 1])
def test_episodes_that_go_on_by_themselves_are_those_of_lock_step_up_to_rounding(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path, lag: int
) -> None:
    played = []
    for engine in ("false", "true"):
        run = trainer_of(
            config, f"out={tmp_path}/{engine}", f"rollout.max_staleness={lag}", f"rollout.asynchronous={engine}"
        )
        run.rollouts.begin(0, None)
        played.append([t for group in run.rollouts.take(0).groups for t in group.trajectories])
        run.rollouts.close()
    first, second = played
    for one, other in zip(first, second, strict=True):
        assert one.tokens is not None
        assert other.tokens is not None
        assert one.turns == other.turns
        np.testing.assert_array_equal(one.tokens.ids, other.tokens.ids)
        np.testing.assert_allclose(one.tokens.logprobs, other.tokens.logprobs, atol=1e-3)


def test_a_checkpoint_without_the_rollouts_ahead_of_it_is_damaged(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config["rollout"]["max_staleness"] = 1
    run = trainer_of(config, "update.iterations=3")
    monkeypatch.setattr(trainer_module, "update_policy", _raising_at(2, update_policy))
    with pytest.raises(InjectedError):
        run.run()
    monkeypatch.undo()
    kept = latest_checkpoint(run.checkpoints)
    assert kept is not None
    (kept / "ahead" / "1.jsonl").write_text("{}\n", encoding="ascii")
    with pytest.raises(DataError, match="ahead"):
        trainer_of(config, "update.iterations=3", resume=True).run()


def _raising_at(number: int, real: Callable[..., Any]) -> Callable[..., Any]:
    calls = iter(range(1, 100))

    def failing(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            raise InjectedError
        return real(*args, **kwargs)

    return failing


def test_a_finished_run_with_lag_is_not_continued_by_a_longer_one(
    trainer_of: Make, config: dict[str, Any], settings_of: Callable[..., Any]
) -> None:
    config["rollout"]["max_staleness"] = 1
    run = trainer_of(config)
    run.run()
    with pytest.raises(OtherRunError, match="iterations"):
        require_same_run(run.folder, settings_of(config, "update.iterations=9"))


@pytest.mark.slow
def test_a_lag_of_one_learns_about_as_well_as_none(trainer_of: Make, config: dict[str, Any], tmp_path: Path) -> None:
    gains = {}
    for lag in (0, 1):
        gained = []
        for seed in (1, 2, 3):
            run = trainer_of(
                config, "update.iterations=30", "rollout.tasks=3", "rollout.group_size=8", "update.optimizer.lr=0.002",
                "checkpoint.every=100", f"seed={seed}", f"out={tmp_path}/{lag}-{seed}", f"rollout.max_staleness={lag}",
            )  # fmt: skip
            run.run()
            success = [r["success"] for r in numbers(run)]
            gained.append(np.mean(success[-5:]) - np.mean(success[:5]))
        gains[lag] = float(np.mean(gained))
    assert gains[0] > 0.1
    assert gains[1] > 0.7 * gains[0], gains

"""The weights of samplers beside rollouts ahead of the update: pushed once, logged once, never in the middle of a rollout."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from helpers.models.training_runs import Make, metrics

from creditflow.agents.backends.transformers_backend import TransformersBackend


def test_the_metrics_of_a_weight_push_are_logged_once(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pushes, real = count(1), TransformersBackend.sync

    def counted(self: TransformersBackend, version: str = "") -> None:
        real(self, version)
        self.sync_numbers = {"push_seconds": float(next(pushes))}

    monkeypatch.setattr(TransformersBackend, "sync", counted)
    run = trainer_of(
        config, "update.iterations=5", "rollout.tasks=3", "rollout.group_size=6", "rollout.max_staleness=2"
    )
    run.run()
    logged = [record.get("push_seconds") for record in metrics(run) if record["kind"] == "iteration"]
    assert len(set(logged[:3])) == 3
    assert logged[3:] == [None, None]  # iterations 3 and 4 were sampled already, and there is none after them


def test_an_evaluation_waits_for_the_sampler_before_its_weights_are_replaced(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls = trainer_of(config, "rollout.max_staleness=1"), list[str]()
    run.rollouts.begin(0, None)
    ahead = run.rollouts._ahead
    assert ahead is not None
    monkeypatch.setattr(ahead, "settle", lambda: calls.append("settle"))
    monkeypatch.setattr(run.backend, "sync", calls.append)
    run.rollouts.prepare_evaluation()
    run.rollouts.close()
    assert calls == ["settle", "rl-0000000"]

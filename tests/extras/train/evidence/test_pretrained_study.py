"""The study on a pretrained model: what is run, in which order, and its table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence.pretrained.run import SCHEMES, ExactAdvantage, missing, settings_of, table

from creditflow.train.bench.language_model.evaluate import evaluate_exactly
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.run.assemble import make_policy_agent


def test_every_arm_begins_with_the_imitation_of_its_seed_and_differs_in_credit_alone(tmp_path: Path) -> None:
    sft = settings_of(tmp_path, "models/smollm2", "sft", 3)
    assert (sft.update.iterations, sft.seed, sft.model.path) == (0, 3, "models/smollm2")
    for scheme in SCHEMES:
        arm = settings_of(tmp_path, "models/smollm2", scheme, 3)
        assert arm.model.path == str(tmp_path / "sft-3" / "model") and not arm.sft.episodes
        named = "grpo" if scheme == "exact" else scheme
        assert (arm.credit.scheme, arm.update.loss.aggregation) == (named, "trajectory_mean")


def test_finished_runs_are_not_run_again_and_imitation_comes_first() -> None:
    done = [{"scheme": "sft", "seed": 0}, {"scheme": "grpo", "seed": 0}]
    assert list(missing(done, 2, ["grpo", "grouptd"])) == [(0, "grouptd"), (1, "sft"), (1, "grpo"), (1, "grouptd")]


def test_exact_advantages_of_a_rollout_add_up_to_its_outcome_minus_the_value_of_the_start(
    config: dict[str, Any], trainer_of: Callable[..., Any]
) -> None:
    config["prompting"] |= {"prompt": "terse-v1", "history": "window", "window": 0}
    run = trainer_of(config, "sft.steps=30", "update.iterations=0", "env.options.max_steps=3")
    run.run()
    agent = make_policy_agent(run.settings, run.backend, run.tokenizer, temperature=run.settings.rollout.temperature)
    engine = RolloutEngine(group_env_factory(run.settings.env, 16, texts=True))
    groups = engine.play(agent, run.tasks[:3], seed=1, iteration=0)
    arm = ExactAdvantage(run)
    exact = evaluate_exactly(agent, run.tokenizer, arm.env, run.tasks[:3], temperature=run.settings.rollout.temperature)
    for group, credit, values in zip(groups, arm.assign_batch(groups), exact.sampled, strict=True):
        total = np.add.reduceat(credit.flat_step_advantages, credit.offsets[:-1])  # the moves are deterministic
        outcomes = [float(trajectory.success) for trajectory in group.trajectories]
        assert total + values.success == pytest.approx(outcomes, abs=3e-2)  # at most TOLERANCE per turn is pruned
    assert {trajectory.success for group in groups for trajectory in group.trajectories} == {False, True}


def test_contrasts_are_paired_by_seed() -> None:
    rows = [
        {"scheme": s, "seed": seed, "sampled": v + 0.1 * seed}
        for s, v in (("stateless", 0.3), ("grouptd", 0.35))
        for seed in (0, 1)
    ]
    printed = table(rows)
    assert "0.050 [0.050, 0.050]" in printed and "0.400" in printed

"""Two ranks take the optimiser steps of one process, whatever the recipe: equal weights, moments and metrics up to rounding.

That holds as long as both sample the same tokens: no random number of these runs lies within rounding of the boundary
between two tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.models.distributed_runs import assert_close_metrics, largest_difference, train, train_in_ranks
from helpers.models.pretrained import pretrained_folder
from helpers.models.ranks import values

ROUNDING = 1e-4  # relative to the largest number of a tensor, after all steps of a run in float32
KL = ("update.loss.kl_weight=0.05", "update.minibatches=2")
RECIPES: dict[str, tuple[str, ...]] = {
    "appended": (),
    "windowed, two epochs of two minibatches": (
        "prompting.history=window", "update.minibatches=2", "update.epochs=2", "update.loss.aggregation=trajectory_mean",
    ),
    "rows of turns, minibatches of about 20 tokens": (
        "update.row_layout=turn", "update.minibatch_size=20", "update.minibatch_unit=token",
        "update.loss.aggregation=turn_mean", "update.loss.ratio=turn",
    ),
    "a constant normaliser, packed": (
        "update.loss.aggregation=constant", "update.loss.normaliser=15", "update.packing=packed", "update.batch_tokens=60",
    ),
    "shared critic, whitened over the batch": ("credit.scheme=mt_ppo", "critic.kind=shared", "critic.lr=0.1"),
    "separate critic of tokens, two epochs of its own": (
        "credit.scheme=ppo_gae", "critic.kind=separate", "critic.epochs=2", "critic.lr=1e-4",
    ),
    "KL in the loss": (*KL, "update.loss.kl_in=loss"),
    # rewards of a group that differ by a small KL alone: dividing by their deviation would enlarge rounding to the size of a reward
    "KL in the reward": (
        *KL, "update.loss.kl_in=reward", "credit.parameters.outcome_scale=none", "credit.parameters.step_scale=none",
    ),
    "a prior pooled over the batch": ("credit.scheme=grouptd", "credit.parameters.prior=pooled"),
    "released propagation, by the longest episode": ("credit.scheme=rewardflow", "credit.semantics=release"),
    "dead groups sampled again": ("rollout.dynamic_sampling=true", "rollout.group_size=3"),
    "branches": ("rollout.branching.max_trajectories=6", "rollout.branching.threshold=0.1"),
    "episodes on their own": ("rollout.asynchronous=true", "rollout.env_threads=2"),
    "nuclei": ("rollout.top_p=0.9", "update.minibatches=2", *KL[:1]),
    "one group: a rank without rows": ("rollout.tasks=1",),
}  # fmt: skip
SHARDED = (
    "windowed, two epochs of two minibatches",
    "shared critic, whitened over the batch",
    "separate critic of tokens, two epochs of its own",
    "KL in the loss",
    "one group: a rank without rows",
)


def compare(config: dict[str, Any], folder: Path, ranks: int, *overrides: str, shard: bool = False) -> None:
    one = train(config, f"out={folder}/one", *overrides)
    values(train_in_ranks(ranks, config, f"out={folder}/ranks", *overrides, shard=shard))
    assert largest_difference(one, folder / "ranks") < ROUNDING
    assert_close_metrics(one, folder / "ranks", 1e-3)


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_ranks_equal_one_process(config: dict[str, Any], tmp_path: Path, recipe: str) -> None:
    compare(config, tmp_path, 2, *RECIPES[recipe])


@pytest.mark.parametrize("recipe", SHARDED)
def test_two_ranks_with_divided_weights_equal_one_process(config: dict[str, Any], tmp_path: Path, recipe: str) -> None:
    compare(config, tmp_path, 2, *RECIPES[recipe], shard=True)


@pytest.mark.lora
@pytest.mark.parametrize(
    "settings", [(), ("sft.episodes=0", *KL, "update.loss.kl_in=loss")], ids=["SFT", "KL to the base"]
)
def test_two_ranks_with_an_adapter_equal_one_process(
    config: dict[str, Any], tmp_path: Path, settings: tuple[str, ...]
) -> None:
    pytest.importorskip("peft", reason="needs the extra [lora]")
    config["model"] = {"path": str(pretrained_folder(tmp_path / "base")), "lora": {"rank": 4}}
    compare(config, tmp_path, 2, "update.loss.entropy_weight=0.5", *settings)


@pytest.mark.lora
def test_an_adapter_is_not_divided_over_the_ranks(config: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="needs the extra [lora]")
    config["model"] = {"path": str(pretrained_folder(tmp_path / "base")), "lora": {"rank": 4}}
    for one in train_in_ranks(2, config, shard=True):
        assert one.error == "ConfigError"
        assert "with model.lora use shard=false" in one.message


@pytest.mark.parametrize("shard", [False, True])
def test_four_ranks_with_three_groups_equal_one_process(config: dict[str, Any], tmp_path: Path, shard: bool) -> None:
    compare(config, tmp_path, 4, "update.minibatches=2", shard=shard)


def test_evaluations_are_divided_over_the_ranks(config: dict[str, Any], tmp_path: Path) -> None:
    config["evaluation"] = {"panel": "small-v1:valid", "limit": 5, "samples": 2}
    config["env"]["options"]["max_steps"] = 3
    compare(config, tmp_path, 2, "update.iterations=1")

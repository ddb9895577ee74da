"""verl's estimator "creditflow" with the arguments that verl passes to every estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS
from helpers.trainers.verl_batches import expected, reached, same

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError

pytestmark = pytest.mark.verl


# the estimator, with the arguments that verl passes to every estimator
def test_the_registered_name_resolves_through_verl() -> None:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    from creditflow.train.adapters.verl.estimator import estimate

    assert get_adv_estimator_fn("creditflow") is estimate


@pytest.mark.parametrize("scheme", ["grpo", "rloo"])
def test_the_estimator_alone_serves_schemes_without_states(scheme: str, batch_of: Callable[..., Any]) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.ray_trainer import compute_advantage

    groups, made = list(GROUPS.values()), credit.make(scheme)
    data = batch_of(groups)
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    config = OmegaConf.create({"creditflow": {"scheme": scheme}})
    same(
        reached(compute_advantage(data, "creditflow", config=config)),
        expected(groups, [made.assign(group) for group in groups]),
    )


def test_verls_own_grpo_agrees_where_its_formula_is_the_same(batch_of: Callable[..., Any]) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.ray_trainer import compute_advantage

    data = batch_of(list(GROUPS.values()))
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    config = OmegaConf.create({"creditflow": {"scheme": "grpo", "parameters": {"std_eps": 1e-6}}})
    ours = compute_advantage(data, "creditflow", config=config).batch["advantages"].clone()
    theirs = compute_advantage(data, "grpo", config=config).batch["advantages"]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scheme", ["gigpo", "graphgpo", "rewardflow", "grouptd", "gdcr"])
def test_the_estimator_alone_rejects_schemes_over_states_and_tasks(scheme: str, batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.estimator import estimate

    data = batch_of([GROUPS["one turn"]])
    with pytest.raises(ConfigError, match="verl passes none of them to an estimator"):
        estimate(
            data.batch["rm_scores"], data.batch["response_mask"], index=data.non_tensor_batch["uid"],
            config={"creditflow": {"scheme": scheme}},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"outcome": "success"}, "outcome"), ({"outcome": "score"}, "outcome"), ({"invalid_penalty": 0.1}, "invalid_pen")],
)
def test_the_estimator_alone_does_not_guess_success_and_validity(
    parameters: dict[str, Any], name: str, batch_of: Callable[..., Any]
) -> None:
    from creditflow.train.adapters.verl.estimator import estimate

    data = batch_of([GROUPS["one turn"]])
    with pytest.raises(ConfigError, match=f"with {name}"):
        estimate(
            data.batch["rm_scores"], data.batch["response_mask"], index=data.non_tensor_batch["uid"],
            config={"creditflow": {"scheme": "grpo", "parameters": parameters}},
        )  # fmt: skip


def test_the_estimator_rejects_groups_of_unequal_size(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.estimator import estimate

    data = batch_of([GROUPS["one turn"], GROUPS["zero variance"]])[:-1]
    with pytest.raises(TrajectoryError, match="whole groups"):
        estimate(data.batch["rm_scores"], data.batch["response_mask"], index=data.non_tensor_batch["uid"])


@pytest.mark.parametrize("scheme", ["pica", "ppo_gae", "igpo"])
def test_schemes_over_annotations_are_rejected_with_the_remedy(scheme: str) -> None:
    from creditflow.train.adapters.verl.credit import CreditSettings

    with pytest.raises(ConfigError, match="which annotators write"):
        CreditSettings(scheme=scheme).make()

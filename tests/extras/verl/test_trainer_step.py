"""The v1 path of verl on a CPU: queue, worker, padding, the trainer's advantage step, the columns of the update."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.trainers.verl_batches import columns, trainer

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord
from creditflow.train.policy.samples import broadcast_to_tokens
from creditflow.wrappers.records.group import Group

pytestmark = pytest.mark.verl


def wanted(scheme: str, texts: list[str], mask: Any) -> list[Any]:
    """Each row's advantages by our own functions, from the records alone."""
    records = [EpisodeRecord.decode(text) for text in texts]
    out: list[Any] = [None] * len(records)
    for uid in dict.fromkeys(record.trajectory.group_id for record in records):
        rows = [i for i, record in enumerate(records) if record.trajectory.group_id == uid]
        scored = credit.make(scheme).assign(Group(tuple(records[i].trajectory for i in rows)))
        for i, numbers in zip(rows, scored.advantages, strict=True):
            out[i] = broadcast_to_tokens(numbers, records[i].turn_offsets, np.asarray(mask[i], bool))
    return out


@pytest.mark.parametrize(
    ("scheme", "mode"), [("graphgpo", "sync"), ("gigpo", "colocate_async"), ("grouptd", "separate_async")]
)
def test_the_trainer_writes_the_schemes_advantages_to_the_queue(
    scheme: str, mode: str, played: Callable[..., Any], queue: Any, config_of: Callable[..., Any]
) -> None:
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size

    config = config_of(f"+algorithm.creditflow.scheme={scheme}", "+algorithm.creditflow.averaging=verl")
    names = [f"{scheme}A", f"{scheme}B", f"{scheme}C"]
    batch = upsample_batch_to_divisible_size(played(config, names), 8, eos_token_id=1)
    assert sum(bool(tag.get("is_padding")) for tag in batch.tags) == 4
    batch.reorder(np.random.default_rng(0).permutation(len(batch.keys)).tolist())
    metrics: dict[str, float] = {}
    trainer(config, mode)._compute_advantage(batch, metrics)
    got = columns(queue, batch, "advantages", "returns", "response_mask", "extra_fields")
    real = [i for i, tag in enumerate(batch.tags) if not tag.get("is_padding")]
    texts = [list(got["extra_fields"])[i][FIELD] for i in real]
    masks = [got["response_mask"][i].numpy() for i in real]
    for i, numbers in zip(real, wanted(scheme, texts, masks), strict=True):
        assert got["advantages"][i].tolist() == [float(np.float32(x)) for x in numbers]
        assert got["returns"][i].tolist() == got["advantages"][i].tolist()
    for i, tag in enumerate(batch.tags):
        assert not tag.get("is_padding") or not got["advantages"][i].any()
    assert any(got["advantages"][i].any() for i in real)
    assert 0.0 <= metrics["creditflow/success"] <= 1.0
    assert 1.0 <= metrics["creditflow/turns"] <= 5.0


def test_a_group_that_lost_an_episode_is_rejected_unless_settings_allow_it(
    played: Callable[..., Any], queue: Any, config_of: Callable[..., Any]
) -> None:
    config = config_of("+algorithm.creditflow.scheme=gigpo")
    batch = played(config, ["lostA", "lostB"], lose=1)
    with pytest.raises(TrajectoryError, match=r"has 3 of 4 episodes.*incomplete=zero"):
        trainer(config)._compute_advantage(batch, {})
    config = config_of("+algorithm.creditflow.scheme=gigpo", "+algorithm.creditflow.incomplete=zero")
    trainer(config)._compute_advantage(batch, {})
    got = columns(queue, batch, "advantages")
    lost = [key.startswith("lostA") for key in batch.keys]
    assert sum(lost) == 3
    assert not any(got["advantages"][i].any() for i in range(7) if lost[i])


def test_the_aggregation_of_the_scheme_is_required(played: Callable[..., Any], config_of: Callable[..., Any]) -> None:
    config = config_of("+algorithm.creditflow.scheme=rewardflow", "actor_rollout_ref.actor.loss_agg_mode=token-mean")
    batch = played(config, ["avgA"])
    with pytest.raises(ConfigError, match="averages token losses by turn_mean"):
        trainer(config)._compute_advantage(batch, {})
    config = config_of("+algorithm.creditflow.scheme=rewardflow", "+algorithm.creditflow.averaging=verl")
    trainer(config)._compute_advantage(batch, {})


def test_verls_correction_between_sampler_and_trainer_still_runs(
    played: Callable[..., Any], queue: Any, config_of: Callable[..., Any]
) -> None:
    config = config_of(
        "+algorithm.creditflow.scheme=gigpo", "algorithm.rollout_correction.rollout_is=token",
        "algorithm.rollout_correction.rollout_is_threshold=2.0",
    )  # fmt: skip
    batch = played(config, ["isA", "isB"], moved=0.1)
    metrics: dict[str, Any] = {}
    trainer(config)._compute_advantage(batch, metrics)
    got = columns(queue, batch, "rollout_is_weights", "response_mask")
    for i in range(len(batch.keys)):
        kept = got["response_mask"][i].bool()
        np.testing.assert_allclose(got["rollout_is_weights"][i][kept].numpy(), np.exp(0.1), rtol=1e-5)
    assert any("rollout_corr" in name for name in metrics)


def test_turns_outside_the_loss_leave_both_of_verls_masks(
    played: Callable[..., Any], queue: Any, config_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.train.adapters.verl.credit import CreditSettings
    from creditflow.wrappers.credit.base import Credit, Scheme

    class FirstTurns(Scheme):
        name = "first_turns"

        def assign(self, group: Group) -> Credit:
            first = np.concatenate([np.arange(len(member.turns)) == 0 for member in group.trajectories])
            return Credit.of(group, outcome=np.ones(len(group)), loss_mask=first)

    monkeypatch.setattr(CreditSettings, "make", lambda _: FirstTurns())
    batch = played(config := config_of(), ["maskA"])
    before = columns(queue, batch, "response_mask")["response_mask"]
    trainer(config)._compute_advantage(batch, {})
    got = columns(queue, batch, "advantages", "response_mask", "loss_mask", "extra_fields")
    for i, fields in enumerate(list(got["extra_fields"])):
        end = int(EpisodeRecord.decode(fields[FIELD]).turn_offsets[1])
        wanted = before[i].clone()
        wanted[end:] = 0
        assert got["response_mask"][i].tolist() == got["loss_mask"][i].tolist() == wanted.tolist()
        assert got["advantages"][i].tolist() == wanted.float().tolist()


def test_other_estimators_get_verls_own_step(config_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    monkeypatch.setattr(PPOTrainer, "_compute_advantage", lambda self, batch, metrics: ("verl's", batch))
    assert trainer(config_of("algorithm.adv_estimator=grpo"))._compute_advantage("batch", {}) == ("verl's", "batch")


def test_verl_loads_estimator_loop_and_step_by_the_entry_point_alone() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import warnings, json; warnings.simplefilter('ignore')\n"
        "from verl.experimental.agent_loop.agent_loop import _agent_loop_registry as loops\n"
        "from verl.trainer.ppo.v1 import get_trainer_cls as t\n"
        "print(json.dumps([loops['creditflow']['_target_'],"
        " [t(m).__mro__[1].__name__ for m in ('sync', 'colocate_async', 'separate_async')]]))"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [
        "creditflow.train.adapters.verl.loop.CreditAgentLoop",
        ["CreditStep"] * 3,
    ]

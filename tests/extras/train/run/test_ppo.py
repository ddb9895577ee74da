"""PPO with a critic in the trainer: values and targets at their tokens, losses, gradients, runs that resume bit-equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from helpers.models.critic_runs import PPO, TURNS, Make, critic_annotator, iterations, played, same, weights

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.annotate import annotate
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.policy.critic import Critic, explained_variance
from creditflow.train.policy.samples import make_rows
from creditflow.train.settings.schema import CriticConfig
from creditflow.wrappers import credit


@pytest.fixture(params=[PPO, TURNS], ids=["token-separate", "turn-shared"])
def kind(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("update.epochs=2", "update.minibatches=2"),
        ("prompting.history=window", "prompting.window=1"),
        ("update.row_layout=turn", "update.packing=packed"),
        ("critic.clip=0",),
        ("model.autocast=bfloat16",),
    ],
    ids=lambda more: ",".join(more) or "plain",
)
def test_a_run_with_a_critic_logs_the_critics_metrics(
    trainer_of: Make, config: dict[str, Any], kind: tuple[str, ...], more: tuple[str, ...]
) -> None:
    run = trainer_of(config, *kind, *more)
    run.run()
    records = iterations(run)
    assert len(records) == 3
    assert all(np.isfinite([r["value_loss"], r["value_grad_norm"]]).all() for r in records)
    assert records[0]["explained_variance"] == pytest.approx(0.0, abs=1e-6)  # the initial critic predicts 0
    assert all(r["value_grad_norm"] > 0.0 for r in records)
    assert (run.folder / "critic" / "value_head.safetensors").is_file()


def test_a_resumed_run_is_bit_equal(
    trainer_of: Make, config: dict[str, Any], kind: tuple[str, ...], tmp_path: Path
) -> None:
    whole = trainer_of(config, *kind, f"out={tmp_path}/whole")
    whole.run()
    trainer_of(config, *kind, f"out={tmp_path}/cut", "update.iterations=1").run()
    resumed = trainer_of(config, *kind, f"out={tmp_path}/cut", resume=True)
    resumed.run()
    assert same(weights(resumed), weights(whole))
    kept = [{k: v for k, v in r.items() if not k.startswith(("seconds", "speed"))} for r in iterations(whole)]
    assert [{k: v for k, v in r.items() if not k.startswith(("seconds", "speed"))} for r in iterations(resumed)] == kept


def test_a_checkpoint_without_moments_of_an_unmoved_policy_resumes(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    # an untrained policy fails everywhere, so the first advantages are all zero: only the critic has moments
    settings = (*PPO, "sft.episodes=0", f"out={tmp_path}/run")
    trainer_of(config, *settings, "update.iterations=1").run()
    trainer_of(config, *settings, "update.iterations=2", resume=True).run()


def test_the_critics_values_are_those_before_each_token(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, *PPO)
    run.run()
    assert run.critic is not None
    checked = 0
    for group in played(run):
        for trajectory in group.trajectories:
            tokens = trajectory.tokens
            assert tokens is not None
            values = tokens.values["value.critic"]
            ids = torch.from_numpy(tokens.ids.astype(np.int64))[None]
            with torch.no_grad():
                whole = run.critic.head(run.critic.decoder(input_ids=ids).last_hidden_state)[0, :, 0].numpy()
            np.testing.assert_allclose(values[1:], whole, atol=1e-5)
            for t, turn in enumerate(trajectory.turns):
                first = tokens.turn_offsets[t] + int(np.flatnonzero(tokens.mask[tokens.turn_offsets[t] :])[0])
                assert turn.values["value.critic"] == values[first]
            assert trajectory.turns[-1].values["value.critic.next"] == values[-1]
            checked += len(trajectory.turns)
    assert checked > 10


def test_windowed_and_growing_histories_value_the_same_first_turn(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, *PPO, "prompting.history=window", "prompting.window=1")
    run.run()
    assert run.critic is not None
    [group, *_] = played(run)
    for trajectory in group.trajectories:
        tokens = trajectory.tokens
        assert tokens is not None
        for t, prompt in enumerate(tokens.prompts):
            with torch.no_grad():
                ids = torch.from_numpy(prompt.astype(np.int64))[None]
                expected = run.critic.head(run.critic.decoder(input_ids=ids).last_hidden_state)[0, -1, 0].item()
            assert trajectory.turns[t].values["value.critic"] == pytest.approx(expected, abs=1e-5)


def test_targets_reach_the_tokens_they_belong_to(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, *PPO, "update.iterations=1")
    run.run()
    groups = played(run)
    for name, per_turn in (("ppo_gae", False), ("mt_ppo", True)):
        scored = credit.make(name).assign_batch(groups)
        rows = make_rows(groups, scored)
        number = 0
        for group, one in zip(groups, scored, strict=True):
            assert one.value_targets is not None
            for i, trajectory in enumerate(group.trajectories):
                [row] = [row for row in rows if row.trajectory == number]
                number += 1
                assert row.value_target is not None
                assert row.value_old is not None
                has_target = np.isfinite(row.value_target)
                np.testing.assert_array_equal(row.value_target[has_target], one.value_targets.targets[i])
                np.testing.assert_array_equal(row.value_old[has_target], one.value_targets.values[i])
                assert has_target.sum() == (len(trajectory.turns) if per_turn else len(row.target))
                if per_turn:
                    assert row.turn[has_target].tolist() == list(range(len(trajectory.turns)))
                else:
                    assert one.token_advantages is not None
                    np.testing.assert_array_equal(row.advantage, one.token_advantages[i])


def test_one_pass_of_a_shared_critic_has_the_gradient_of_two(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, *TURNS, "update.iterations=1")
    run.run()
    assert run.critic is not None
    groups = played(run)
    rows = [replace(row, advantage=row.advantage * 0) for row in make_rows(groups, run.scheme.assign_batch(groups))]
    count = sum(int(np.isfinite(row.value_target).sum()) for row in rows if row.value_target is not None)
    run.model.zero_grad()
    for batch in batches_of(rows, 4096, torch.device("cpu")):
        (0.5 * run.critic.loss(batch, rows, count)["loss"]).backward()
    expected = torch.cat([p.grad.flatten() for p in run.model.parameters()])
    captured: list[torch.Tensor] = []
    run.optimizer.step = lambda: captured.append(torch.cat([p.grad.flatten() for p in run.model.parameters()]))
    from creditflow.train.policy.old_logprobs import OldLogprobs
    from creditflow.train.policy.update import update_policy

    config_ = replace(
        run.settings.update, optimizer=replace(run.settings.update.optimizer, grad_clip=0.0), batch_tokens=90
    )
    update_policy(
        run.model, run.optimizer, rows, OldLogprobs(None), config_, aggregation="token_mean", temperature=1.0, lr=1e-3,
        rng=np.random.default_rng(0), critic=run.critic,
    )  # fmt: skip
    torch.testing.assert_close(captured[0], expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("credit.scheme=ppo_gae",), "needs value.critic: configure a critic with critic.kind"),
        (
            ("credit.scheme=prm",),
            "needs judge.score, which no annotator in credit.annotators writes; these do: judge:URL#MODEL",
        ),
        (("credit.scheme=prm", "credit.annotators=[oracle]"), "needs judge.score, which no annotator"),
        (("credit.annotators=[orakel]",), "did you mean 'oracle'"),
        (("credit.scheme=ppo_gae", "critic.kind=shard"), "did you mean 'shared'"),
    ],
)
def test_a_scheme_without_its_annotations_is_rejected_before_anything_is_made(
    trainer_of: Make, config: dict[str, Any], settings: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        trainer_of(config, *settings)
    assert latest_checkpoint(Path(config["out"]) / "checkpoints") is None
    assert not Path(config["out"]).exists()


def test_a_critic_learns_the_returns_of_fixed_rollouts(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, *PPO, "credit.parameters.discount=0.9")
    run.run()
    critic = Critic(CriticConfig(kind="separate", clip=0.0), run.model.get_decoder())
    groups = annotate(played(run), critic_annotator(critic), overwrite=True)
    rows = make_rows(groups, run.scheme.assign_batch(groups))
    assert explained_variance(rows) == pytest.approx(0.0, abs=1e-6)
    optimizer = torch.optim.AdamW(critic.parameters(), lr=1e-3)
    count = sum(int(np.isfinite(row.value_target).sum()) for row in rows if row.value_target is not None)
    [batch] = batches_of(rows, 1 << 20, torch.device("cpu"))
    for _ in range(60):
        optimizer.zero_grad()
        critic.loss(batch, rows, count)["loss"].backward()
        optimizer.step()
    again = annotate(groups, critic_annotator(critic), overwrite=True)
    assert explained_variance(make_rows(again, run.scheme.assign_batch(again))) > 0.8


def test_other_annotators_may_annotate_the_rollouts_of_a_run(
    trainer_of: Make, config: dict[str, Any], tmp_path: Path
) -> None:
    config["credit"] = {
        "scheme": "prm", "parameters": {"value": "distance.oracle", "form": "increase"}, "annotators": ["oracle"],
    }  # fmt: skip
    run = trainer_of(config, "rollout.branching.max_trajectories=6", "rollout.branching.base=1.0")
    run.run()
    assert any(r["step_credit_fraction"] > 0.0 for r in iterations(run))
    # the answer's likelihood under the policy that the run began with, after the rollouts' own tokens
    model = run.folder / "model"
    config |= {"out": str(tmp_path / "igpo"), "model": {"path": str(model)}, "sft": {}}
    config["credit"] = {"scheme": "igpo", "annotators": [f"likelihood:{model}"]}
    with pytest.raises(DataError, match="no answers under 'answers'"):
        trainer_of(config).run()


def test_the_warm_up_of_the_critic_is_of_its_own_learning_rate_alone(trainer_of: Make, config: dict[str, Any]) -> None:
    rates: dict[str, list[tuple[float, float]]] = {}
    moved: dict[str, dict[str, torch.Tensor]] = {}
    for fraction in ("0", "0.5"):
        run = trainer_of(
            config, *PPO, "update.iterations=4", f"critic.warmup_fraction={fraction}", f"out={config['out']}-{fraction}"
        )
        update, rates[fraction] = run._update, []

        def noting(
            *args: Any, run: Any = run, update: Any = update, seen: Any = rates[fraction], **options: Any
        ) -> Any:
            done = update(*args, **options)
            by_role = {group["role"]: group["lr"] for group in run.optimizer.param_groups}
            seen.append((by_role["policy"], by_role["critic"]))
            if len(seen) == 1:
                moved[run.folder.name] = weights(run)
            return done

        with patch.object(run, "_update", noting):
            run.run()
    assert [policy for policy, _ in rates["0.5"]] == [policy for policy, _ in rates["0"]] == [1e-3] * 4
    assert [critic for _, critic in rates["0"]] == [3e-3] * 4
    assert [critic for _, critic in rates["0.5"]] == pytest.approx([1e-3, 2e-3, 3e-3, 3e-3])
    plain, warmed = (moved[f"run-{fraction}"] for fraction in ("0", "0.5"))
    policies = [name for name in plain if name.startswith("policy.")]
    assert same({name: plain[name] for name in policies}, {name: warmed[name] for name in policies})
    assert not same(plain, warmed)


@pytest.mark.parametrize(("scheme", "critic"), [("ppo_gae", "separate"), ("mt_ppo", "shared")])
def test_ppo_learns_a_trivial_task(trainer_of: Make, config: dict[str, Any], scheme: str, critic: str) -> None:
    run = trainer_of(
        config, f"credit.scheme={scheme}", f"critic.kind={critic}", "critic.lr=3e-3", "update.iterations=14",
        "rollout.group_size=8", "rollout.tasks=3", "update.loss.aggregation=trajectory_mean", "checkpoint.every=0",
    )  # fmt: skip
    run.run()
    success = [r["success"] for r in iterations(run)]
    assert np.mean(success[-3:]) > np.mean(success[:3]) + 0.3, success

"""Advantages and mask in verl's loss equal the scheme's, token by token, and give the gradient of our own loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS, SIZE

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord
from creditflow.train.policy.samples import make_rows, token_weights
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

pytestmark = pytest.mark.verl


def output_of(trajectory: Trajectory) -> Any:
    """The episode as verl's agent loops return one."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

    tokens = trajectory.tokens
    assert tokens is not None
    first = int(np.argmax(tokens.mask))
    return AgentLoopOutput(
        prompt_ids=tokens.ids[:first].tolist(),
        response_ids=tokens.ids[first:].tolist(),
        response_mask=tokens.mask[first:].astype(int).tolist(),
        response_logprobs=tokens.logprobs[first:].tolist(),
        reward_score=trajectory.episode_return,
        metrics=AgentLoopMetrics(),
        extra_fields={FIELD: EpisodeRecord.of(trajectory).encode()},
    )


@pytest.fixture
def batch_of(config_of: Callable[..., Any]) -> Callable[..., Any]:
    """Groups as the batch that verl's own worker makes of its loops' outputs."""

    def make(groups: list[Group], order: Any = None) -> Any:
        from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

        from creditflow.agents.language_model.pretrained import open_tokenizer

        config = config_of()
        worker = object.__new__(AgentLoopWorker)
        worker.rollout_config = config.actor_rollout_ref.rollout
        worker.tokenizer = open_tokenizer(config.actor_rollout_ref.model.path)
        worker.processor, worker.mm_processor_kwargs = None, {}
        worker.reward_loop_worker_handles, worker.distillation_enabled = None, False
        members = [(group.group_id, member) for group in groups for member in group.trajectories]
        members = members if order is None else [members[i] for i in order]

        async def padded() -> list[Any]:
            return [
                await worker._agent_loop_postprocess(output_of(member), False, raw_prompt=[]) for _, member in members
            ]

        uids = np.array([uid for uid, _ in members], object)
        return worker._postprocess(asyncio.run(padded()), input_non_tensor_batch={"uid": uids})

    return make


def expected(groups: list[Group], credits_: list[Credit]) -> dict[tuple[int, ...], dict[int, float]]:
    """By all ids of an episode: position of each token in the loss -> its advantage."""
    return {
        tuple(row.ids.tolist()): dict(zip(row.target.tolist(), row.advantage.tolist(), strict=True))
        for row in make_rows(groups, credits_)
    }


def reached(data: Any) -> dict[tuple[int, ...], dict[int, float]]:
    """The same from verl's batch; masked tokens must have advantage zero."""
    advantages, mask = data.batch["advantages"], data.batch["response_mask"]
    assert advantages.shape == mask.shape == data.batch["responses"].shape
    assert not (advantages * (1 - mask)).any()
    assert (data.batch["returns"] == advantages).all()
    out = {}
    for i in range(len(data)):
        width = data.batch["prompts"].shape[1]
        attended = data.batch["attention_mask"][i].bool()
        read = int(attended[:width].sum())
        ids = tuple(data.batch["input_ids"][i][attended].tolist())
        places = mask[i].nonzero()[:, 0].tolist()
        out[ids] = {read + p: float(advantages[i, p]) for p in places}
    return out


def same(got: dict[Any, dict[int, float]], wanted: dict[Any, dict[int, float]]) -> None:
    assert {name: list(numbers) for name, numbers in got.items() if numbers} == {
        name: list(numbers) for name, numbers in wanted.items()
    }
    for name, numbers in wanted.items():
        assert [got[name][p] for p in numbers] == [float(np.float32(number)) for number in numbers.values()]


@pytest.mark.parametrize("scheme", ["grpo", "rloo", "gigpo", "graphgpo", "rewardflow", "grouptd"])
@pytest.mark.parametrize("name", GROUPS)
def test_the_array_and_the_mask_in_the_batch_are_ours(name: str, scheme: str, batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    group, made = GROUPS[name], credit.make(scheme)
    data = batch_of([group])
    assign_advantages(data, made, size=SIZE)
    same(reached(data), expected([group], [made.assign(group)]))


def test_rows_in_any_order_keep_their_advantages(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    groups, made = list(GROUPS.values()), credit.make("gigpo")
    data = batch_of(groups, np.random.default_rng(0).permutation(SIZE * len(groups)))
    assign_advantages(data, made, size=SIZE)
    same(reached(data), expected(groups, [made.assign(group) for group in groups]))


class Chosen(Scheme):
    """Advantages that all differ; every second turn is outside the loss."""

    name = "chosen"

    def assign(self, group: Group) -> Credit:
        n = len(group.turns)
        return Credit.of(
            group,
            outcome=np.zeros(len(group)),
            step=np.arange(n, dtype=np.float64) - 8.5,
            loss_mask=np.arange(n) % 2 == 0,
        )


def test_turns_keep_different_advantages_and_those_outside_the_loss_leave_verls_mask(
    batch_of: Callable[..., Any],
) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    group, made = GROUPS["unequal turn counts"], Chosen()
    data = batch_of([group])
    before = int(data.batch["response_mask"].sum())
    assign_advantages(data, made, size=SIZE)
    same(reached(data), expected([group], [made.assign(group)]))
    assert 0 < int(data.batch["response_mask"].sum()) < before


def test_padding_rows_get_zero_advantages_and_change_no_other_row(batch_of: Callable[..., Any]) -> None:
    from verl.protocol import DataProto

    from creditflow.train.adapters.verl.trainer import assign_advantages

    group, made = GROUPS["unequal turn counts"], credit.make("graphgpo")
    data = batch_of([group])
    data = DataProto.concat([data, data[:3]])
    data.non_tensor_batch["uid"][SIZE:] = "pad0"
    assign_advantages(data, made, size=SIZE, padding=[False] * SIZE + [True] * 3)
    assert not data.batch["advantages"][SIZE:].any()
    same(reached(data[:SIZE]), expected([group], [made.assign(group)]))


def test_a_group_split_over_workers_is_refused(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    data = batch_of([GROUPS["unequal turn counts"], GROUPS["one turn"]])
    for half in data.chunk(4):
        with pytest.raises(TrajectoryError, match=r"has 2 of 4 episodes here.*split over workers"):
            assign_advantages(half, credit.make("grpo"), size=SIZE)


def test_an_incomplete_group_can_get_zero_advantages_instead(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.credit import CreditSettings
    from creditflow.train.adapters.verl.trainer import assign_advantages

    groups, made = [GROUPS["unequal turn counts"], GROUPS["one turn"]], credit.make("gigpo")
    data = batch_of(groups)[:-1]
    assign_advantages(data, made, size=SIZE, settings=CreditSettings(incomplete="zero"))
    assert not data.batch["advantages"][SIZE:].any()
    same(reached(data[:SIZE]), expected(groups[:1], [made.assign(groups[0])]))


def test_rows_without_a_record_are_refused_with_the_loop_that_writes_one(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    data = batch_of([GROUPS["one turn"]])
    del data.non_tensor_batch[FIELD]
    with pytest.raises(TrajectoryError, match="default_agent_loop=creditflow"):
        assign_advantages(data, credit.make("grpo"), size=SIZE)


def test_a_response_that_was_cut_after_the_loop_is_refused(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.trainer import assign_advantages

    data = batch_of([GROUPS["unequal turn counts"]])
    data.batch["response_mask"] = data.batch["response_mask"][:, :9]
    with pytest.raises(TrajectoryError, match="was the response cut"):
        assign_advantages(data, credit.make("grpo"), size=SIZE)


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
def test_the_estimator_alone_refuses_schemes_over_states_and_tasks(scheme: str, batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.estimator import estimate

    data = batch_of([GROUPS["one turn"]])
    with pytest.raises(ConfigError, match="verl passes neither to an estimator"):
        estimate(
            data.batch["rm_scores"], data.batch["response_mask"], index=data.non_tensor_batch["uid"],
            config={"creditflow": {"scheme": scheme}},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"outcome": "success"}, "outcome"), ({"outcome": "score"}, "outcome"), ({"invalid_penalty": 0.1}, "invalid_pen")],
)
def test_the_estimator_alone_refuses_to_guess_success_and_validity(
    parameters: dict[str, Any], name: str, batch_of: Callable[..., Any]
) -> None:
    from creditflow.train.adapters.verl.estimator import estimate

    data = batch_of([GROUPS["one turn"]])
    with pytest.raises(ConfigError, match=f"with {name}"):
        estimate(
            data.batch["rm_scores"], data.batch["response_mask"], index=data.non_tensor_batch["uid"],
            config={"creditflow": {"scheme": "grpo", "parameters": parameters}},
        )  # fmt: skip


def test_the_estimator_refuses_groups_of_unequal_size(batch_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.estimator import estimate

    data = batch_of([GROUPS["one turn"], GROUPS["zero variance"]])[:-1]
    with pytest.raises(TrajectoryError, match="whole groups"):
        estimate(data.batch["rm_scores"], data.batch["response_mask"], index=data.non_tensor_batch["uid"])


@pytest.mark.parametrize("scheme", ["pica", "ppo_gae", "igpo"])
def test_schemes_over_annotations_are_refused_with_the_remedy(scheme: str) -> None:
    from creditflow.train.adapters.verl.credit import CreditSettings

    with pytest.raises(ConfigError, match="which annotators write"):
        CreditSettings(scheme=scheme).make()


# settings that would change the loss
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("algorithm.use_kl_in_reward=true", "use_kl_loss=true"),
        ("critic.enable=true", "needs no critic"),
        ("actor_rollout_ref.rollout.top_p=0.9", "less than the whole distribution"),
        ("actor_rollout_ref.rollout.top_k=50", "less than the whole distribution"),
        *(
            (f"actor_rollout_ref.actor.policy_loss.loss_mode={name}", f"loss_mode={name} .* that turn's advantage")
            for name in (
                "geo_mean",
                "gspo",
                "sapo",
                "gpg",
                "clip_cov",
                "kl_cov",
                "cispo",
                "dppo_tv",
                "dro",
                "bypass_mode",
            )
        ),
    ],
)
def test_settings_that_change_the_loss_are_refused(override: str, message: str, config_of: Callable[..., Any]) -> None:
    from creditflow.train.adapters.verl.support import check_config

    check_config(config_of())
    with pytest.raises(ConfigError, match=message):
        check_config(config_of(override))


def test_another_release_is_refused() -> None:
    from creditflow.train.adapters.verl.support import VERL

    for version in ("0.9.0", "0.9.2", "0.10.0", "1.0", "unknown"):
        with pytest.raises(ConfigError, match="was tested with"):
            VERL.check(version)


def test_a_misspelt_setting_is_answered_with_the_nearest_one() -> None:
    from creditflow.train.adapters.verl.credit import read_settings

    with pytest.raises(ConfigError, match="did you mean 'scheme'"):
        read_settings({"schem": "grpo"})


# the loss
@pytest.mark.parametrize(
    ("mode", "averages"), [("token-mean", "token_mean"), ("seq-mean-token-mean", "trajectory_mean")]
)
def test_verls_policy_loss_gives_our_loss_and_our_gradient(
    mode: str, averages: Any, batch_of: Callable[..., Any], config_of: Callable[..., Any]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.utils.config import omega_conf_to_dataclass

    from creditflow.train.adapters.verl.trainer import assign_advantages
    from creditflow.train.policy.batching import batches_of
    from creditflow.train.policy.logprobs import token_logprobs
    from creditflow.train.policy.losses import LossConfig, token_losses

    groups, made = [GROUPS["unequal turn counts"], GROUPS["one turn"]], credit.make("gigpo")
    credits_ = [made.assign(group) for group in groups]
    data = batch_of(groups)
    assign_advantages(data, made, size=SIZE)
    config = config_of(f"actor_rollout_ref.actor.loss_agg_mode={mode}", "actor_rollout_ref.actor.use_dynamic_bsz=true")
    model = AutoModelForCausalLM.from_pretrained(config.actor_rollout_ref.model.path)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)

    ids, width = data.batch["input_ids"], data.batch["responses"].shape[1]
    logits = model(ids, attention_mask=data.batch["attention_mask"], position_ids=data.batch["position_ids"]).logits
    scores = torch.log_softmax(logits[:, -width - 1 : -1].float(), -1)
    logprob = scores.gather(-1, ids[:, -width:, None])[..., 0]
    old = logprob.detach() + 0.3 * torch.sin(ids[:, -width:].float())  # ratios on both sides of the clip
    loss, _ = get_policy_loss_fn("vanilla")(
        old_log_prob=old, log_prob=logprob, advantages=data.batch["advantages"],
        response_mask=data.batch["response_mask"], loss_agg_mode=mode, config=actor,
    )  # fmt: skip
    loss.backward()
    theirs = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()

    rows = make_rows(groups, credits_)
    [batch] = batches_of(rows, 100_000, "cpu")
    found = token_logprobs(model, batch)
    order = [rows[i] for i in batch.rows]
    weights = token_weights(rows, averages)
    advantage, weight = (
        torch.tensor(np.concatenate(parts), dtype=torch.float32)
        for parts in ([row.advantage for row in order], [weights[i] for i in batch.rows])
    )
    target = batch.ids[batch.target_row, batch.target_position].float()
    before = found.logprob.detach() + 0.3 * torch.sin(target)
    ours = token_losses(found.logprob, found.entropy, before, advantage, LossConfig(importance_cap=0.0))["loss"]
    (weight * ours).sum().backward()
    assert float(loss.detach()) == pytest.approx(float((weight * ours).sum().detach()), rel=1e-4)
    largest = max(float(p.grad.abs().max()) for p in model.parameters())
    assert largest > 1e-3
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(theirs[name], parameter.grad, rtol=1e-3, atol=1e-5 * max(1.0, largest), msg=name)


def test_a_scheme_with_another_aggregation_than_verls_is_refused() -> None:
    from creditflow.train.adapters.verl.credit import check_averaging

    check_averaging("token_mean", "token-mean")
    check_averaging("trajectory_mean", "seq-mean-token-mean")
    with pytest.raises(ConfigError, match="'token-mean' fits"):
        check_averaging("token_mean", "seq-mean-token-mean")
    with pytest.raises(ConfigError, match="verl has none that fits"):
        check_averaging("turn_mean", "token-mean")


# verl-agent's tensors
def test_the_verl_agent_drop_in_takes_tensors_and_returns_tensors() -> None:
    import torch

    from creditflow.train.adapters.verl_agent.advantage import compute_advantages

    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
    rewards = torch.zeros(3, 3).scatter(1, mask.sum(1, keepdim=True) - 1, torch.tensor([[1.0], [1.0], [0.0]]))
    columns = {
        "uid": ["g"] * 3, "traj_uid": ["a", "a", "b"], "anchor_obs": ["s", "t", "s"], "rewards": [0.0, 1.0, 0.0],
    }  # fmt: skip
    data = SimpleNamespace(
        batch={"token_level_rewards": rewards, "response_mask": mask},
        non_tensor_batch={name: np.array(values, object) for name, values in columns.items()},
    )
    advantages, returns = compute_advantages(data, scheme=credit.make("grpo"))
    assert torch.equal(advantages, returns)
    assert advantages.dtype == torch.float32
    torch.testing.assert_close(advantages, torch.tensor([[0.5], [0.5], [-0.5]]) * 2**0.5 * mask)


def test_branches_and_windowed_episodes_have_no_record() -> None:
    [first, *_] = GROUPS["one turn"].trajectories
    assert first.tokens is not None
    windowed = replace(first, tokens=replace(first.tokens, prompts=(first.tokens.ids[:1],)))
    with pytest.raises(TrajectoryError, match="append-only"):
        EpisodeRecord.of(windowed)

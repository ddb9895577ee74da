"""Advantages and mask in TRL's loss equal the scheme's, token by token, and give the gradient of our own loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.episodes.token_groups import GROUPS, SIZE, windowed

from creditflow import credit
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.tasks import Task
from creditflow.train.policy.samples import make_rows, token_weights
from creditflow.wrappers.credit.base import Credit
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

pytestmark = pytest.mark.trl


@pytest.fixture
def trainer_of(arguments: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a trainer whose rollouts are given groups with given credit, and the list of batches that reach its loss."""
    from creditflow.agents.language_model.pretrained import PromptingConfig
    from creditflow.train.adapters.trl.rollout import CreditRollout
    from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    def make(groups: list[Group], credits_: list[Credit], *, others: Any = None, **changes: Any) -> Any:
        by_name = {group.task_id: (group, one) for group, one in zip(groups, credits_, strict=True)}
        own_prompts = any(member.tokens.prompts for group in groups for member in group.trajectories if member.tokens)
        prompting = PromptingConfig(history="window" if own_prompts else "append")

        def score(self: Any, trainer: Any, tasks: Any, size: int, training: bool) -> Any:
            pairs = [by_name[task.task_id] for task in tasks]
            return [group for group, _ in pairs], [one for _, one in pairs]

        monkeypatch.setattr(CreditRollout, "_score", score)
        config = ScratchConfig(hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vocabulary=280, init=0.2)
        tokenizer = build_tokenizer(["up down left right"] * 4, config)
        values = {"max_steps": 1, "per_device_train_batch_size": SIZE * len(groups), "num_generations": SIZE} | changes
        trainer = CreditGRPOTrainer(
            build_model(config, tokenizer, seed=3),
            play=EpisodeConfig(prompting=prompting),
            tasks=[Task(name, name, {}) for name in by_name],
            scheme=credit.make("grpo"),
            args=arguments(**values),
            processing_class=tokenizer,
            **others or {},
        )
        seen: list[dict[str, Any]] = []
        loss = trainer._compute_loss

        def watched(model: Any, inputs: dict[str, Any]) -> Any:
            seen.append(inputs)
            return loss(model, inputs)

        trainer._compute_loss = watched
        return trainer, seen

    return make


def expected(groups: list[Group], credits_: list[Credit]) -> dict[tuple[int, ...], dict[int, float]]:
    """By all ids of an episode: position of each token in the loss -> its advantage."""
    return {
        tuple(row.ids.tolist()): dict(zip(row.target.tolist(), row.advantage.tolist(), strict=True))
        for row in make_rows(groups, credits_)
    }


def reached(seen: list[dict[str, Any]]) -> dict[tuple[int, ...], dict[int, float]]:
    """The same from the batches of TRL's loss; masked tokens must have advantage zero."""
    out = {}
    for batch in seen:
        assert batch["advantages"].shape == batch["completion_ids"].shape
        mask = batch["completion_mask"] * batch["tool_mask"]
        assert not (batch["advantages"] * (1 - mask)).any()
        for i in range(len(mask)):
            prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()].tolist()
            completion = batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist()
            places = mask[i].nonzero()[:, 0].tolist()
            out[tuple(prompt + completion)] = {len(prompt) + p: float(batch["advantages"][i, p]) for p in places}
    return out


def same(got: dict[Any, dict[int, float]], wanted: dict[Any, dict[int, float]]) -> None:
    assert got.keys() == wanted.keys()
    for name, numbers in wanted.items():
        assert got[name].keys() == numbers.keys()
        assert list(got[name].values()) == [float(np.float32(numbers[p])) for p in got[name]]


@pytest.mark.parametrize("scheme", ["grpo", "gigpo", "grouptd", "graphgpo"])
@pytest.mark.parametrize("name", GROUPS)
def test_the_array_and_the_mask_in_the_loss_are_ours(name: str, scheme: str, trainer_of: Callable[..., Any]) -> None:
    group = GROUPS[name]
    one = credit.make(scheme).assign(group)
    trainer, seen = trainer_of([group], [one])
    trainer.train()
    same(reached(seen), expected([group], [one]))


MASKED: dict[int, float] = {}  # a row that fills up a batch


@pytest.mark.parametrize(
    "changes",
    [
        {"per_device_train_batch_size": SIZE * 4},
        {"per_device_train_batch_size": 8, "steps_per_generation": 2, "num_iterations": 2, "max_steps": 4},
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4},
    ],
)
def test_with_a_windowed_history_every_turn_is_a_row_with_its_advantage_and_mask(
    changes: dict[str, Any], trainer_of: Callable[..., Any]
) -> None:
    groups = [windowed(group) for group in GROUPS.values()]
    credits_ = [credit.make("gigpo").assign(group) for group in groups]
    trainer, seen = trainer_of(groups, credits_, **changes)
    trainer.train()
    got = reached(seen)
    eos = trainer.processing_class.eos_token_id
    assert got.pop((eos, eos), MASKED) == MASKED
    assert len(got) == sum(len(group.turns) for group in groups)
    same(got, expected(groups, credits_))


def test_with_a_windowed_history_rewards_are_logged_per_episode(trainer_of: Callable[..., Any]) -> None:
    groups = list(GROUPS.values())
    credits_ = [credit.make("grpo").assign(group) for group in groups]
    logs = []
    for played in (groups, [windowed(group) for group in groups]):
        trainer, _ = trainer_of(played, credits_)
        trainer.train()
        [row] = [row for row in trainer.state.log_history if "reward" in row]
        logs.append({name: value for name, value in row.items() if "reward" in name or name in ("success", "turns")})
    assert logs[1] == pytest.approx(logs[0], rel=1e-6)
    assert logs[1]["frac_reward_zero_std"] == 0.5


def test_turns_outside_the_loss_are_masked_in_it(trainer_of: Callable[..., Any]) -> None:
    group = GROUPS["unequal turn counts"]
    kept = np.arange(len(group.turns)) % 2 == 0
    one = Credit.of(group, outcome=np.array([1.0, -1.0, 2.0, -2.0]), loss_mask=kept)
    trainer, seen = trainer_of([group], [one])
    trainer.train()
    same(reached(seen), expected([group], [one]))


@pytest.mark.parametrize(
    "changes",
    [
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4},
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8},
        {"per_device_train_batch_size": 4, "steps_per_generation": 4, "max_steps": 4},
        {"per_device_train_batch_size": 8, "steps_per_generation": 2, "num_iterations": 2, "max_steps": 4},
        {"pad_to_multiple_of": 16},
    ],
)
def test_splitting_shuffling_and_padding_keep_every_row_with_its_advantages(
    changes: dict[str, Any], trainer_of: Callable[..., Any]
) -> None:
    groups = list(GROUPS.values())
    credits_ = [credit.make("gigpo").assign(group) for group in groups]
    trainer, seen = trainer_of(groups, credits_, **changes)
    trainer.train()
    same(reached(seen), expected(groups, credits_))


@pytest.mark.parametrize(
    ("loss_type", "averages", "changes"),
    [
        ("dapo", "token_mean", {}),
        ("dapo", "token_mean", {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}),
        ("dapo", "token_mean", {"play": windowed}),
        ("dapo", "token_mean", {"play": windowed, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}),
        ("bnpo", "token_mean", {"play": windowed}),
        ("bnpo", "token_mean", {}),
        ("cispo", "token_mean", {"epsilon_high": 5.0}),  # CISPO: the largest ratio itself, not its distance from 1
        ("grpo", "trajectory_mean", {}),
        ("grpo", "trajectory_mean", {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}),
    ],
)
def test_one_step_changes_the_weights_as_our_own_loss_does(
    loss_type: str, averages: Any, changes: dict[str, Any], trainer_of: Callable[..., Any]
) -> None:
    import torch

    from creditflow.train.policy.batching import batches_of
    from creditflow.train.policy.logprobs import token_logprobs
    from creditflow.train.policy.losses import LossConfig, token_losses

    changes = dict(changes)
    play = changes.pop("play", lambda group: group)
    groups = [play(GROUPS["unequal turn counts"]), play(GROUPS["one turn"])]
    credits_ = [credit.make("gigpo").assign(group) for group in groups]
    temperature = 1.3
    trainer, _ = trainer_of(
        groups, credits_, loss_type=loss_type, max_grad_norm=0.0, learning_rate=1.0, lr_scheduler_type="constant",
        optim="sgd", temperature=temperature, **changes,
    )  # fmt: skip
    model, rows = trainer.model, make_rows(groups, credits_)
    weights = np.concatenate(token_weights(rows, averages))
    ours = [rows[i].advantage for i in range(len(rows))]
    [batch] = batches_of(rows, 100_000, "cpu")
    scores = token_logprobs(model, batch, temperature=temperature)
    order = np.concatenate([np.flatnonzero(np.repeat(range(len(rows)), list(map(len, ours))) == i) for i in batch.rows])
    advantage = torch.tensor(np.concatenate(ours)[order], dtype=torch.float32)
    losses = token_losses(
        scores.logprob, scores.entropy, scores.logprob.detach(), advantage, LossConfig(importance_cap=0.0)
    )
    (torch.tensor(weights[order], dtype=torch.float32) * losses["loss"]).sum().backward()
    wanted = {name: p.detach() - p.grad for name, p in model.named_parameters()}
    largest = max(float(p.grad.abs().max()) for p in model.parameters())
    model.zero_grad()
    trainer.train()
    assert largest > 1e-3
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(parameter.detach(), wanted[name], rtol=1e-4, atol=1e-5 * max(1.0, largest), msg=name)


def test_an_episode_without_a_token_in_the_loss_is_masked_out(trainer_of: Callable[..., Any]) -> None:
    full = GROUPS["one turn"]
    bare = Trajectory("one/3", "one", "one", (), False, 0.0, "token_limit", "s0", replica=3)
    group = Group((*full.trajectories[:3], bare))
    one = Credit.of(group, outcome=np.array([1.0, -1.0, 2.0, -2.0]))
    trainer, seen = trainer_of([group], [one])
    trainer.train()
    got = reached(seen)
    eos = trainer.processing_class.eos_token_id
    assert got.pop((eos, eos)) == {}
    same(got, expected([group], [one]))


def test_a_group_that_failed_to_start_leaves_the_others_unchanged(
    trainer_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = list(GROUPS.values())
    credits_ = [credit.make("grpo").assign(group) for group in groups]
    trainer, seen = trainer_of(groups, credits_)
    monkeypatch.setattr(trainer.credit_rollout, "_score", lambda *_: (groups[:3], credits_[:3]))
    trainer.train()
    got = reached(seen)
    eos = trainer.processing_class.eos_token_id
    assert got.pop((eos, eos)) == {}
    same(got, expected(groups[:3], credits_[:3]))


def test_a_mask_that_is_not_ours_stops_the_run(trainer_of: Callable[..., Any]) -> None:
    group = GROUPS["unequal turn counts"]
    trainer, _ = trainer_of([group], [credit.make("grpo").assign(group)])
    rollout = trainer.rollout_func

    def everything(prompts: Any, trainer: Any) -> Any:
        columns = rollout(prompts, trainer)
        return columns | {"env_mask": [[1] * len(ids) for ids in columns["completion_ids"]]}

    trainer.rollout_func = everything
    with pytest.raises(TrajectoryError, match="mask"):
        trainer.train()


def test_groups_that_would_be_split_over_processes_are_rejected(trainer_of: Callable[..., Any]) -> None:
    groups = list(GROUPS.values())
    credits_ = [credit.make("grpo").assign(group) for group in groups]
    trainer, _ = trainer_of(groups, credits_)
    half = [{"prompt": "unequal"}] * 2 + [{"prompt": "one"}] * 2
    with pytest.raises(ConfigError, match="whole groups"):
        trainer._generate_and_score_completions(half)


def test_arguments_that_the_adapter_sets_cannot_be_passed(trainer_of: Callable[..., Any]) -> None:
    group = GROUPS["one turn"]
    with pytest.raises(ConfigError, match="reward_funcs"):
        trainer_of([group], [credit.make("grpo").assign(group)], others={"reward_funcs": []})


def test_a_task_listed_twice_is_rejected() -> None:
    from creditflow.train.adapters.trl.trainer import _dataset

    with pytest.raises(ConfigError, match="twice"):
        _dataset([Task("a", "a", {}), Task("a", "a", {})])

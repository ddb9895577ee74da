"""Settings of the trainer: dynamic sampling, KL, sampler ratios, overflowing contexts, SFT."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.models.training_runs import Make, metrics, same, weights

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.policy.failures import MemoryLimitError


def test_dynamic_sampling_counts_what_it_discards(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(
        config, "sft.episodes=0", "rollout.dynamic_sampling=true", "rollout.attempts=3", "update.iterations=1"
    )
    run.run()
    [record] = [r for r in metrics(run) if r["kind"] == "iteration"]
    # an untrained policy solves nothing: the groups of two attempts are discarded, those of the last are kept
    assert record["groups_discarded"] == 4
    assert record["episodes"] == 8


def test_the_filter_by_variance_keeps_an_iteration_whose_groups_are_all_dead(
    trainer_of: Make, config: dict[str, Any]
) -> None:
    run = trainer_of(config, "sft.episodes=0", "rollout.variance_share=0.9", "update.iterations=2")
    before = weights(run)
    run.run()
    records = [r for r in metrics(run) if r["kind"] == "iteration"]
    assert [(r["groups_discarded"], r["episodes"]) for r in records] == [(0, 8)] * 2
    assert same(weights(run), before)  # of equal outcomes gigpo learns nothing


@pytest.mark.parametrize("where", ["loss", "reward"])
@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_kl_to_the_reference_is_zero_at_first_and_survives_a_resume(
    trainer_of: Make, config: dict[str, Any], where: str, kind: str, tmp_path: Path
) -> None:
    settings = (
        "update.loss.kl_weight=0.1", f"update.loss.kl_in={where}", f"update.loss.kl_kind={kind}", "update.iterations=2",
    )  # fmt: skip
    whole = trainer_of(config, *settings)
    whole.run()
    first = next(r for r in metrics(whole) if r["kind"] == "iteration")
    if where == "loss":
        assert first["kl_reference"] == pytest.approx(0.0, abs=1e-6)
    else:
        assert "kl_reference" not in first  # what is not in the loss is not measured, and not logged as 0
    cut = trainer_of(config, f"out={tmp_path}/cut", *settings[:3], "update.iterations=1")
    cut.run()
    resumed = trainer_of(config, f"out={tmp_path}/cut", *settings, resume=True)
    resumed.run()
    assert same(weights(resumed), weights(whole))


@pytest.mark.parametrize("lost", ["reference", "reference's checkpoints"])
def test_a_resumed_run_without_its_reference_is_refused(trainer_of: Make, config: dict[str, Any], lost: str) -> None:
    settings = ("update.loss.kl_weight=0.1", "checkpoint.every=1")
    run = trainer_of(config, *settings, "update.iterations=1")
    run.run()
    shutil.rmtree(run.folder / "reference")
    if lost != "reference":
        (run.folder / "reference").mkdir()
    before = weights(run)
    again = trainer_of(config, *settings, "update.iterations=2", resume=True)
    with pytest.raises(DataError, match="the reference policy of the KL term is missing"):
        again.run()
    assert same(weights(run), before)
    assert not list((run.folder / "reference").glob("*"))  # the trained policy was not saved as the reference


@pytest.mark.parametrize(
    "settings",
    [
        ("prompting.history=window", "prompting.window=1"),
        ("update.row_layout=turn",),
        ("update.packing=packed",),
        ("update.epochs=2", "update.minibatches=2"),
        ("update.epochs=2", "update.minibatches=2", "prompting.history=window"),
        ("update.old_logprobs=sampler", "update.epochs=2"),
        ("rollout.dtype=bfloat16",),
        ("model.autocast=bfloat16",),
        ("model.gradient_checkpointing=true",),
        (
            "prompting.dialect=think",
            "prompting.prompt=think-v1",
            "rollout.max_new_tokens=24",
            "model.scratch.positions=4096",
        ),
        ("prompting.chat=plain",),
        ("sft.keep=success", "sft.imitate_noise=false"),
        ("update.loss.aggregation=turn_mean", "update.loss.entropy_weight=0.01"),
        ("rollout.top_p=0.8", "update.loss.kl_weight=0.1", "prompting.history=window"),
        ("rollout.top_p=0.8", "update.old_logprobs=sampler", "update.epochs=2"),
        ("rollout.top_p=0.8", "update.old_logprobs=sampler"),
        ("rollout.top_k=5", "update.minibatches=2", "update.loss.kl_weight=0.1", "update.loss.kl_in=reward"),
        ("update.loss.ratio=turn", "update.minibatch_size=8", "prompting.history=window"),
        ("update.loss.ratio=sequence", "update.minibatch_size=3", "update.minibatch_unit=trajectory"),
        ("update.loss.aggregation=constant", "update.loss.normaliser=15", "credit.overlong={max_tokens: 3, margin: 2}"),
        ("env.invalid_actions=terminate",),
        ("sft.episodes=0",),
    ],
    ids=lambda settings: ",".join(settings),
)
def test_every_setting_runs(trainer_of: Make, config: dict[str, Any], settings: tuple[str, ...]) -> None:
    run = trainer_of(config, "update.iterations=1", *settings)
    run.run()
    [record] = [r for r in metrics(run) if r["kind"] == "iteration"]
    assert record["episodes"] == 8
    assert record["sampler_mismatch_max"] < (0.1 if "bfloat16" in "".join(settings) else 1e-4)


@pytest.mark.parametrize("epochs", [1, 2])
def test_ratios_to_the_sampler_are_not_1_at_first_and_its_mismatch_is_measured(
    trainer_of: Make, config: dict[str, Any], epochs: int
) -> None:
    settings = (
        "update.iterations=1",
        f"update.epochs={epochs}",
        "update.old_logprobs=sampler",
        "rollout.dtype=bfloat16",
    )
    run = trainer_of(config, *settings)
    run.run()
    [record] = [r for r in metrics(run) if r["kind"] == "iteration"]
    assert record["sampler_mismatch_max"] > 1e-4
    assert record["first_step_ratio_deviation"] > 1e-4
    assert "kl_reference" not in record  # no KL term


def test_a_context_that_overflows_ends_episodes_and_not_the_run(trainer_of: Make, config: dict[str, Any]) -> None:
    run = trainer_of(config, "prompting.max_context=30", "update.iterations=1", "sft.episodes=0")
    run.run()
    [record] = [r for r in metrics(run) if r["kind"] == "iteration"]
    assert 0 < record["turns"] < 40


def test_demonstrations_of_one_task_differ(trainer_of: Make, config: dict[str, Any]) -> None:
    from creditflow.train.policy.sft import demonstrations

    run = trainer_of(config)
    groups = demonstrations(run.settings, run.tokenizer, run.tasks, run.ends)
    played = [tuple(t.action for t in g.turns) for g in groups if g.task_id == run.tasks[0].task_id]
    assert len(played) == 8
    assert len(set(played)) > 1


def test_sft_with_nothing_to_imitate_is_rejected(trainer_of: Make, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="nothing is left to imitate"):
        trainer_of(config, "sft.noise=1.0", "sft.imitate_noise=false").run()


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ((), "lower update.batch_tokens"),
        (("sft.episodes=0", "evaluation.panel="), "lower rollout.concurrent_groups, or prompting.max_context"),
        (
            ("sft.episodes=0", "evaluation.panel=small-v1:valid", "evaluation.limit=4"),
            "lower rollout.concurrent_groups",
        ),
    ],
    ids=["sft", "rollout", "evaluation"],
)
def test_out_of_memory_names_the_remedy(
    trainer_of: Make, config: dict[str, Any], settings: tuple[str, ...], remedy: str
) -> None:
    run = trainer_of(config, *settings)

    def failing(module: Any, arguments: Any, output: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 11 GiB")

    run.model.get_decoder().layers[0].register_forward_hook(failing)
    with pytest.raises(MemoryLimitError, match=remedy):
        run.run()


def test_an_evaluation_plays_no_more_episodes_at_the_same_time_than_a_rollout(
    trainer_of: Make, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ("rollout.tasks=3", "rollout.concurrent_groups=2", "rollout.group_size=2")
    run = trainer_of(config, *rows, "evaluation.limit=6", "evaluation.samples=1")
    sizes, generate = list[int](), run.backend.generate

    def counted(requests: Any, *arguments: Any) -> Any:
        sizes.append(len(requests))
        return generate(requests, *arguments)

    monkeypatch.setattr(run.backend, "generate", counted)
    run.evaluate_panel("small-v1:valid", "valid", 0)
    assert max(sizes) == 4

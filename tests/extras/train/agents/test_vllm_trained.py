"""A sampler with weights of its own follows the trained model: what is called when, and what is done if it does not.

The engine is a stand-in that opens the pushed folders with transformers; the real one has a tier of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling, WeightPushError
from creditflow.agents.backends.engine import ProbeResult, UniquePrompt
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.trained import VllmTrainedBackend, probe_differences, tensors_in
from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.policy.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.run import assemble


class StandIn:
    """An engine of transformers, and a diary."""

    block_size, exact = 4, True

    def __init__(self, folder: str) -> None:
        told = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        assert told["architectures"] == ["Qwen2ForCausalLM"]
        self.context = int(told["max_position_embeddings"])
        self.diary: list[str] = []
        self.lose: set[str] = set()  # calls that are to have no effect
        self.model: Any = None

    def complete(
        self, prompts: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int], seed: int
    ) -> list[list[Completion]]:
        self.diary.append("complete")
        requests = [
            GenerationRequest((i, k), one.ids, np.random.default_rng([seed, i, k]).random(sampling.max_new_tokens))
            for i, one in enumerate(prompts)
            for k in range(len(one.places))
        ]
        answers = iter(TransformersBackend(self.model).generate(requests, sampling, end_ids))
        return [[next(answers) for _ in one.places] for one in prompts]

    def probe(self, ids: Any, tokens: int) -> ProbeResult:
        self.diary.append("probe")
        with torch.no_grad():
            table = torch.log_softmax(
                self.model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0, -1], -1
            )
        best = int(table.argmax())
        return ProbeResult(np.array([best], np.int32), ({token: float(table[token]) for token in (best, 7, 9)},))

    def load(self, folder: str) -> int:
        from transformers import AutoModelForCausalLM

        self.diary.append("load")
        if self.model is None or "load" not in self.lose:
            self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        return tensors_in(folder) - ("tensor" in self.lose)

    def reset_prefix_cache(self) -> bool:
        self.diary.append("forget")
        return "forget" not in self.lose

    def sleep(self) -> None:
        self.diary.append("sleep")

    def wake(self, part: str) -> None:
        self.diary.append(f"wake {part}")


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest) -> Any:
    config = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=280, init=0.2, tied=request.param
    )
    return build_model(config, build_tokenizer(["up down"] * 4, config), seed=3)


def follower(model: Any, **options: Any) -> tuple[VllmTrainedBackend, StandIn]:
    made: list[StandIn] = []

    def make(folder: str) -> StandIn:
        made.append(StandIn(folder))
        return made[0]

    return VllmTrainedBackend(model, dtype="float32", make_engine=make, **options), made[0]


def move(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.05)


JOBS = [GenerationRequest(i, np.array([5, 6, 7], np.int32), np.full(4, 0.1 * i)) for i in range(3)]
FOUR = Sampling(max_new_tokens=4)


def test_every_push_arrives_and_is_checked(model: Any) -> None:
    backend, engine = follower(model)
    for number in range(3):
        move(model)
        backend.sync(f"v{number}")
        assert backend.version == f"v{number}"
        assert backend.sync_numbers["push_difference"] < 1e-5
        for ours, theirs in zip(model.parameters(), engine.model.parameters(), strict=True):
            assert torch.equal(ours, theirs)
    assert engine.diary == ["load", "forget", "probe"] * 3


def test_a_push_that_does_not_arrive_raises_and_nothing_is_sampled_afterwards(model: Any) -> None:
    backend, engine = follower(model)
    backend.sync("first")
    engine.lose = {"load"}
    move(model)
    with pytest.raises(WeightPushError, match=r"weights of second.*0\.001 is allowed"):
        backend.sync("second")
    assert backend.version == "first"
    with pytest.raises(GenerationError, match="between two versions"):
        backend.generate(JOBS, FOUR, frozenset({1}))
    engine.lose = set()
    backend.sync("second")
    assert len(backend.generate(JOBS, FOUR, frozenset({1}))) == 3


@pytest.mark.parametrize(("lost", "said"), [("tensor", "the sampler read"), ("forget", "could not be emptied")])
def test_a_push_that_was_not_wholly_taken_is_refused_however_little_it_changes(
    model: Any, lost: str, said: str
) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=100.0))
    backend.sync("first")
    engine.lose = {lost}
    with pytest.raises(WeightPushError, match=said):
        backend.sync("second")
    assert backend.version == "first"


def test_a_tolerance_is_what_is_allowed(model: Any) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=100.0))
    backend.sync()
    engine.lose = {"load"}
    move(model)
    backend.sync()
    assert backend.sync_numbers["push_difference"] > 1e-3


def test_weights_that_are_no_numbers_are_a_failed_push(model: Any) -> None:
    backend, _ = follower(model, config=VllmConfig(tolerance=100.0))
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with pytest.raises(WeightPushError):
        backend.sync()


def test_every_token_that_is_told_is_compared_with_a_plain_forward_pass(model: Any) -> None:
    prompt = np.array([5, 6, 7], np.int32)
    with torch.no_grad():
        table = torch.log_softmax(model(input_ids=torch.from_numpy(prompt.astype(np.int64))[None]).logits[0, -1], -1)
    told = ProbeResult(np.array([9], np.int32), ({9: float(table[9]), 11: float(table[11]) - 0.25},))
    model.train()
    assert probe_differences(model, prompt, told) == pytest.approx([0.0, 0.25], abs=1e-5)
    assert model.training


@pytest.mark.parametrize(("exact", "seen"), [(True, 0.3), (False, 0.1)])
def test_the_probe_differences_counts_in_float32_and_the_mean_in_anything_coarser(
    model: Any, exact: bool, seen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=1.0))
    whole = engine.probe

    def off(ids: Any, tokens: int) -> ProbeResult:
        probed = whole(ids, tokens)
        [row] = probed.logprobs
        first = next(iter(row))
        return ProbeResult(probed.ids, (dict(row) | {first: row[first] - 0.3},))

    monkeypatch.setattr(engine, "probe", off)
    monkeypatch.setattr(engine, "exact", exact)
    backend.sync()
    assert backend.sync_numbers["push_difference"] == pytest.approx(seen, abs=1e-4)


def test_a_probe_that_tells_nothing_is_a_failed_push(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=100.0))
    monkeypatch.setattr(engine, "probe", lambda ids, tokens: ProbeResult(np.zeros(0, np.int32), ()))
    with pytest.raises(WeightPushError):
        backend.sync()


def test_sleeping_and_waking_stand_around_the_push_in_their_order(model: Any) -> None:
    backend, engine = follower(model)
    with pytest.raises(GenerationError, match="the sampler is empty"):
        backend.generate(JOBS, FOUR, frozenset({1}))
    backend.sync()
    engine.diary.clear()
    backend.generate(JOBS, FOUR, frozenset({1}))
    backend.sleep()
    backend.sleep()
    with pytest.raises(GenerationError, match="asleep"):
        backend.generate(JOBS, FOUR, frozenset({1}))
    backend.sync()
    backend.generate(JOBS, FOUR, frozenset({1}))
    assert engine.diary == ["complete", "sleep", "wake weights", "load", "wake kv_cache", "forget", "probe", "complete"]


def test_no_weights_are_left_behind(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from creditflow.agents.backends.vllm import trained as vllm_trained

    folders: list[str] = []
    whole = vllm_trained._write_weights

    def told(model_: Any, folder: str) -> None:
        folders.append(folder)
        whole(model_, folder)

    monkeypatch.setattr(vllm_trained, "_write_weights", told)
    backend, engine = follower(model)
    backend.sync()
    monkeypatch.setattr(engine, "load", lambda folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        backend.sync()
    assert len(folders) == 2
    assert not any(Path(folder).exists() for folder in folders)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[StandIn]:
    """Training runs with ``generation.backend: vllm`` get the stand-in."""
    from creditflow.agents.backends.vllm import trained as vllm_trained

    made: list[StandIn] = []

    def opened(*_: Any) -> Callable[[str], StandIn]:
        def make(folder: str) -> StandIn:
            made.append(StandIn(folder))
            return made[-1]

        return make

    monkeypatch.setattr(vllm_trained, "_engine_maker", opened)
    return made


def test_a_run_syncs_plays_and_sleeps_in_turn_and_logs_every_push(
    config: dict[str, Any], trainer_of: Callable[..., Any], stand_in: list[StandIn]
) -> None:
    run = trainer_of(config, "generation.backend=vllm", "update.iterations=2")
    run.run()
    [engine] = stand_in
    order = [entry for i, entry in enumerate(engine.diary) if entry != "complete" or engine.diary[i - 1] != entry]
    push = ["wake weights", "load", "wake kv_cache", "forget", "probe"]
    assert order == ["load", "forget", "probe", *["complete", "sleep", *push] * 2]
    rows = [json.loads(line) for line in (Path(config["out"]) / "metrics.jsonl").read_text().splitlines()]
    pushes = [row for row in rows if "push_difference" in row]
    assert len(pushes) == 2
    assert all(row["push_difference"] < 1e-4 and row["sampler_mismatch_max"] < 1e-4 for row in pushes)


def test_a_push_that_fails_ends_the_run(
    config: dict[str, Any], trainer_of: Callable[..., Any], stand_in: list[StandIn]
) -> None:
    run = trainer_of(config, "generation.backend=vllm", "update.optimizer.lr=0.05")
    stand_in[0].lose = {"load"}
    with pytest.raises(WeightPushError, match="rl-0000001"):
        run.run()


def test_settings_that_belong_to_the_other_backend_are_refused(
    config: dict[str, Any], settings_of: Callable[..., Any]
) -> None:
    for wrong, said in (
        ("rollout.cache=static", "rollout.cache"),
        ("rollout.branching.max_trajectories=16", "entropies"),
        ("generation.backend=vlm", "did you mean 'vllm'"),
        ("generation.vllm.block=3", "did you mean 'block_size'"),
    ):
        with pytest.raises(ConfigError, match=said):
            settings_of(config, "generation.backend=vllm", wrong)


def test_a_run_without_vllm_installed_is_told_so_and_writes_nothing(
    config: dict[str, Any],
    trainer_of: Callable[..., Any],
    settings_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from creditflow.agents.backends.vllm import release as vllm_release
    from creditflow.train.run.dry_run import describe

    monkeypatch.setattr(vllm_release, "_version", lambda name: None)
    with pytest.raises(MissingExtraError, match="vllm"):
        trainer_of(config, "generation.backend=vllm")
    with pytest.raises(MissingExtraError, match="vllm"):
        describe(settings_of(config, "generation.backend=vllm"))
    assert not Path(config["out"]).exists()


def test_the_sampler_computes_in_the_dtype_of_the_setting(
    config: dict[str, Any], settings_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, model: Any
) -> None:
    from creditflow.agents.backends.vllm import trained as vllm_trained

    asked: list[str] = []

    def opened(dtype: str, *_: Any) -> Callable[[str], StandIn]:
        asked.append(dtype)
        return StandIn

    monkeypatch.setattr(vllm_trained, "_engine_maker", opened)
    for setting in ("same", "bfloat16"):
        assemble.make_backend(model, settings_of(config, "generation.backend=vllm", f"rollout.dtype={setting}"))
    assert asked == ["float32", "bfloat16"]

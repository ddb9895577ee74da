"""What happens to one rank ends all, with its reason; the run resumes bit-equal from the last checkpoint."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
import torch
from helpers.models.distributed_runs import largest_difference, metrics, state, train, train_in_ranks, trainer
from helpers.models.ranks import Outcome, in_ranks, values
from helpers.threaded_ranks import in_threads

from creditflow.agents.backends.base import GenerationError
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.train.distributed.joining import VARIABLES, joined
from creditflow.train.distributed.world import World
from creditflow.train.policy.checkpoint import latest_checkpoint
from creditflow.train.run.folder import require_same_settings
from creditflow.train.settings.distributed import DistributedConfig
from creditflow.train.settings.reading import read_dataclass
from creditflow.train.settings.schema import TrainConfig
from creditflow.train.trainer import Trainer

Fault = Callable[[Trainer], None]


def latest(folder: Path) -> str:
    found = latest_checkpoint(folder / "checkpoints")
    assert found is not None
    return found.name


def train_with(fault: Fault, config: dict[str, Any], *overrides: str, shard: bool = False) -> list[Outcome]:
    """Two ranks; from the second iteration on, rank 1 has the fault."""

    def work(world: World) -> None:
        run = trainer(config, *overrides, world=world)
        real = run.sample

        def rollout(iteration: int) -> Any:
            if world.rank == 1 and iteration == 1:
                fault(run)
            return real(iteration)

        with patch.object(run, "sample", rollout):
            run.run()

    return in_ranks(2, work, shard=shard)


def monkeypatched(kind: type, **methods: Any) -> None:
    """Replace methods of a class; this process was forked for one run."""
    for name, method in methods.items():
        setattr(kind, name, method)


def killed(run: Trainer) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def engine_dies(run: Trainer) -> None:
    generate, calls = TransformersBackend.generate, 0

    def failing(self: TransformersBackend, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:  # in the middle of episodes
            raise GenerationError("the engine does not answer")
        return generate(self, *args)

    monkeypatched(TransformersBackend, generate=failing)


def out_of_memory(run: Trainer) -> None:
    def failing(module: Any, arguments: Any, output: Any) -> None:
        if module.training:  # sampling has room
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 11 GiB")

    run.model.get_decoder().layers[0].register_forward_hook(failing)


def not_finite(run: Trainer) -> None:
    def failing(module: Any, arguments: Any, output: Any) -> Any:
        return output * float("nan") if module.training else output

    run.model.get_decoder().norm.register_forward_hook(failing)


CASES: dict[str, tuple[Fault, str, str]] = {
    # the fault of rank 1; how rank 1 ends; what rank 0 says
    "killed": (killed, "", "rank 1 ended without a reason"),
    "engine": (engine_dies, "GenerationError", "rank 1 stopped with GenerationError: the engine does not answer"),
    "memory": (out_of_memory, "MemoryLimitError", "lower update.batch_tokens"),
}


EVERY_ROW: Final = "update.loss.entropy_weight=0.01"  # is computed, also without advantage


@pytest.mark.parametrize("shard", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_reason_reaches_the_other_rank_and_the_run_resumes_bit_equal(
    config: dict[str, Any], tmp_path: Path, case: str, shard: bool
) -> None:
    fault, error, message = CASES[case]
    values(train_in_ranks(2, config, f"out={tmp_path}/whole", EVERY_ROW, shard=shard))
    first, second = train_with(fault, config, f"out={tmp_path}/cut", EVERY_ROW, shard=shard)
    assert first.error == "RankFailedError"
    assert message in first.message
    assert second.error == error
    assert second.killed_by == (signal.SIGKILL if case == "killed" else 0)
    assert latest(tmp_path / "cut") == "rl-0000001"
    values(train_in_ranks(2, config, f"out={tmp_path}/cut", EVERY_ROW, shard=shard, resume=True))
    assert latest(tmp_path / "cut") == "rl-0000002"
    assert largest_difference(tmp_path / "whole", tmp_path / "cut") == 0.0
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "cut")


@pytest.mark.parametrize("shard", [False, True])
def test_a_loss_that_is_not_finite_in_one_rank_stops_all_and_the_state_before_is_saved(
    config: dict[str, Any], tmp_path: Path, shard: bool
) -> None:
    outcomes = train_with(not_finite, config, "update.batch_tokens=40", EVERY_ROW, shard=shard)
    assert [one.error for one in outcomes] == ["DivergedError"] * 2
    assert all("the loss is nan" in one.message for one in outcomes)
    run = Path(config["out"])
    assert latest(run) == "rl-0000001"
    (run / "checkpoints").rename(run / "kept")
    (run / "diverged").rename(run / "checkpoints")
    saved = state(run)
    (run / "checkpoints").rename(run / "diverged")
    (run / "kept").rename(run / "checkpoints")
    assert all(torch.equal(saved[name], tensor) for name, tensor in state(run).items())


def test_groups_that_cannot_start_in_one_rank_leave_those_of_the_other(config: dict[str, Any], tmp_path: Path) -> None:
    def work(world: World) -> list[int]:
        run = trainer(config, "rollout.tasks=2", world=world)
        if world.rank == 1:

            def failing(*args: Any, **kwargs: Any) -> Any:
                raise OSError("the simulator is gone")

            monkeypatched(SokobanEnv, reset=failing)
        run.backend.sync("0")
        sampled = run.rollouts.take(0)
        return [len(sampled.groups), sampled.report.groups_failed_to_start]

    assert values(in_ranks(2, work)) == [[1, 0], [0, 1]]


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("shard", [False, True])
def test_a_run_of_two_ranks_resumes_with_another_number(
    config: dict[str, Any], tmp_path: Path, ranks: int, shard: bool
) -> None:
    whole = train(config, f"out={tmp_path}/whole")
    values(train_in_ranks(2, config, f"out={tmp_path}/part", "update.iterations=1", shard=shard))
    if ranks == 1:
        train(config, f"out={tmp_path}/part", resume=True)
    else:
        values(train_in_ranks(ranks, config, f"out={tmp_path}/part", shard=not shard, resume=True))
    assert largest_difference(whole, tmp_path / "part") < 1e-4


@pytest.mark.parametrize("resume", [False, True])
def test_ranks_that_do_not_share_the_run_folder_stop_before_they_train(
    config: dict[str, Any], tmp_path: Path, resume: bool
) -> None:
    if resume:  # the second rank has a copy without the last checkpoint
        train(config, f"out={tmp_path}/0")
        shutil.copytree(tmp_path / "0", tmp_path / "1")
        shutil.rmtree(tmp_path / "1" / "checkpoints" / latest(tmp_path / "1"))

    def work(world: World) -> None:
        trainer(config, f"out={tmp_path}/{world.rank}", world=world, resume=resume)

    seen = r"rank 0: rl-0000002, rank 1: rl-0000001" if resume else r"rank 0: run.json, rank 1: nothing"
    for one in in_ranks(2, work):
        assert one.error == "ConfigError"
        assert "must be a folder that all ranks share" in one.message
        assert seen in one.message


def test_more_processes_than_gpus_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    environment = dict.fromkeys(VARIABLES, "2") | {"WORLD_SIZE": "3", "LOCAL_RANK": "2"}
    with (
        pytest.raises(ConfigError, match=r"process 2 .* torch finds 2: .*--nproc-per-node 2"),
        joined(DistributedConfig(), environment),
    ):
        raise AssertionError


def test_ranks_with_other_settings_are_told_which(config: dict[str, Any]) -> None:
    def compared(world: World) -> str:
        mine = config | {"out": f"machine {world.rank}", "seed": seeds[world.rank]}
        try:
            require_same_settings(read_dataclass(TrainConfig, mine), world)
        except ConfigError as error:
            return str(error)
        return "the same"

    seeds = [8, 8, 8]
    assert in_threads(3, compared) == ["the same"] * 3
    seeds = [8, 8, 9]
    assert (
        in_threads(3, compared)
        == ["all ranks must have the same settings and versions:\n  seed: rank 0 8, rank 2 9"] * 3
    )

"""The TRL tier: without TRL every test here is skipped with the reason; ``--require trl`` makes that a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.sokoban_episodes import sokoban_options

from creditflow import credit


@pytest.fixture(autouse=True, scope="session")
def trl_is_there() -> None:
    pytest.importorskip("trl", reason="TRL is not installed: pip install -e '.[trl]'")
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def arguments(tmp_path: Path) -> Callable[..., Any]:
    """TRL's settings of a run on the CPU with minimal output."""
    from trl import GRPOConfig

    def make(**changes: Any) -> GRPOConfig:
        values: dict[str, Any] = {
            "output_dir": str(tmp_path / "run"), "use_cpu": True, "bf16": False, "report_to": [], "disable_tqdm": True,
            "save_strategy": "no", "logging_steps": 1, "seed": 5, "gradient_checkpointing": False,
        }  # fmt: skip
        return GRPOConfig(**values | changes)

    return make


SIZE = 4
MODEL = {
    "hidden": 64, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate": 128, "vocabulary": 280, "init": 0.1,
    "pattern": " ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
}  # fmt: skip


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Settings of creditflow's own trainer for a short SFT without RL."""
    from creditflow.train.settings.reading import read_dataclass
    from creditflow.train.settings.schema import TrainConfig

    folder = tmp_path_factory.mktemp("warm")
    data = {
        "out": str(folder / "run"), "seed": 8, "device": "cpu", "threads": 1,
        "env": {"name": "sokoban", "options": sokoban_options(folder)},
        "model": {"scratch": MODEL},
        "prompting": {"prompt": "places-v1", "dialect": "bare", "history": "append"},
        "sft": {"episodes": 24, "steps": 8, "batch_tokens": 200, "noise": 0.8, "optimizer": {"lr": 4e-3}},
        "rollout": {"max_new_tokens": 3},
    }  # fmt: skip
    return read_dataclass(TrainConfig, data)


@pytest.fixture(scope="session")
def warm(settings: Any) -> Path:
    """The folder of a model after this SFT, which writes valid actions."""
    import io

    from creditflow.train.trainer import Trainer

    Trainer(settings, stream=io.StringIO()).run()
    return Path(settings.out) / "model"


@pytest.fixture(scope="session")
def windowed(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Settings of a short SFT of a model whose prompt, as the quickstart's, shows the present board alone."""
    prompting = replace(settings.prompting, history="window", window=0)
    return replace(settings, prompting=prompting, out=str(tmp_path_factory.mktemp("windowed") / "run"))


@pytest.fixture(scope="session")
def windowed_warm(windowed: Any) -> Path:
    """The folder of a model after this SFT."""
    import io

    from creditflow.train.trainer import Trainer

    Trainer(windowed, stream=io.StringIO()).run()
    return Path(windowed.out) / "model"


@pytest.fixture
def trainer_of(settings: Any, warm: Path, arguments: Callable[..., Any]) -> Callable[..., Any]:
    from creditflow.train.adapters.trl.trainer import CreditGRPOTrainer, EpisodeConfig
    from creditflow.train.rollout.tasks import training_tasks

    def make(
        scheme: Any = None,
        *,
        eval_tasks: Any = (),
        others: Any = None,
        settings: Any = settings,
        model: Path = warm,
        **changes: Any,
    ) -> Any:
        tasks = training_tasks(settings.env, settings.tasks, settings.seed)
        values = {
            "per_device_train_batch_size": SIZE * 3, "num_generations": SIZE, "max_steps": 4, "learning_rate": 1e-3,
            "lr_scheduler_type": "constant", "max_completion_length": 64,
        } | changes  # fmt: skip
        return CreditGRPOTrainer(
            str(model),
            play=EpisodeConfig(env=settings.env, prompting=settings.prompting, max_new_tokens=3),
            tasks=tasks,
            scheme=scheme or credit.make("gigpo"),
            args=arguments(**values),
            eval_tasks=tasks if eval_tasks else (),
            **others or {},
        )

    return make

"""The page "Bring your own trainer": its plain PyTorch loop trains a model that was just made."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.trainer_page import run_blocks


def test_the_plain_loop_runs(config: dict[str, Any], settings_of: Callable[..., Any], tmp_path: Path) -> None:
    from creditflow.train.trainer import Trainer

    Trainer(settings_of(config, "update.iterations=0"), stream=io.StringIO()).run()
    assert run_blocks("train", tmp_path, MODEL=f"{config['out']}/model") == 1

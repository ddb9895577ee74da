"""The page "Bring your own trainer" and the README: their PyTorch loop and step train."""

from __future__ import annotations

import doctest
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.shared_data import ROOT
from helpers.trainer_page import run_blocks


def test_the_plain_loop_runs(config: dict[str, Any], settings_of: Callable[..., Any], tmp_path: Path) -> None:
    from creditflow.train.trainer import Trainer

    Trainer(settings_of(config, "update.iterations=0"), stream=io.StringIO()).run()
    assert run_blocks("train", tmp_path, MODEL=f"{config['out']}/model") == 1


def test_the_step_of_the_readme_raises_the_turns_with_credit_above_zero() -> None:
    import numpy as np
    import torch

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [step] = re.findall(r"```python\n(.*?)```", text, re.S)
    session = doctest.DocTestParser().get_examples("".join(re.findall(r"```pycon\n(.*?)```", text, re.S)))
    sampled = np.array([[0, 1, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]], bool)
    logprobs = torch.full(sampled.shape, -1.0, dtype=torch.float64, requires_grad=True)
    names = {"torch": torch, "sampled": sampled, "logprobs": logprobs, "old_logprobs": logprobs.detach()}
    for example in session[:-1]:
        exec(example.source, names)  # noqa: S102 - the README is ours
    exec(step, names)  # noqa: S102 - the README is ours
    assert logprobs.grad is not None
    direction = -logprobs.grad.numpy() * sampled.sum()
    expected = names["credit"].advantages("grouptd", names["turns"]).per_turn
    np.testing.assert_allclose(direction, np.where(sampled, expected[:, None], 0.0))
    assert (expected[:2] > 0).all() and (expected[2:] < 0).all()

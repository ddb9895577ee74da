"""The site's pages on training and evaluation: their commands run as printed and have the effect that the page promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.page_blocks import run_page
from helpers.shared_data import ROOT

from creditflow.agents.language_model.pretrained import read_agent_file

PAGES = ROOT / "assets" / "site" / "pages" / "how_to"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which the pages' paths of shipped configurations exist, as in a checkout."""
    (tmp_path / "train").symlink_to(ROOT / "train")
    return tmp_path


def test_the_page_on_a_small_model_makes_a_model_with_its_prompts(checkout: Path) -> None:
    assert run_page((PAGES / "small_model.md").read_text(encoding="utf-8"), checkout, "train")
    prompting, _ = read_agent_file(checkout / "runs" / "small" / "model" / "creditflow_agent.json")
    assert prompting.history == "append"


def test_the_pages_on_training_and_evaluation_train_and_then_play_one_model(checkout: Path) -> None:
    assert run_page((PAGES / "train.md").read_text(encoding="utf-8"), checkout, "train") >= 3
    metrics = [json.loads(line) for line in (checkout / "runs/first/metrics.jsonl").read_text().splitlines()]
    assert any(row.get("rollout/success", row.get("success", 0.0)) > 0 for row in metrics)
    assert run_page((PAGES / "evaluate.md").read_text(encoding="utf-8"), checkout, "train") >= 3
    assert (checkout / "transcripts.jsonl").stat().st_size > 0

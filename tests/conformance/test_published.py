"""What the site says of papers stands in the papers."""

from __future__ import annotations

import re

import pytest
from helpers.shared_data import shared_file

from builder.make.recipes import HOURS, PUBLISHED

# by paper, the words from which the site's page of recipes takes its numbers, as they stand in our copy
QUOTES = {
    "graphgpo": (
        "training is performed on 2 NVIDIA H100 GPUs",
        "we employ 4 NVIDIA H100 GPUs",
        "conducted for 150 training epochs",
        "rollout (216.9s) and policy update (74.2s)",
        "77.86(1.33) | 84.73(0.49) | 71.35(2.05)",
        "90.88(0.97) | 87.94(0.43) | 73.83(2.30)",
        "92.71(1.32) | 89.29(1.48) | 78.65(3.86)",
        "94.27(1.33)",
        "| RL Training | GRPO | 67.1 |",
        "| RL Training | GiGPO | 76.92 |",
        "| RL Training | GraphGPO | 86.98(0.73) |",
        "approximately 30 training steps earlier than GiGPO and about 110 steps earlier than GRPO",
        "roughly 80 steps earlier than GiGPO and 90 steps earlier than GRPO",
    ),
    "rewardflow": (
        "Learning Computational cost 2x(A100 & h20) 2x(A100 & h20)",
        "RewardFlow 68.8 320.3",
        "0 1.099 33.1 41.0 24.1 46.9 4.1",
        "50 0.555 0.3 0 33.1 55.9 44.5",
        "100 0.295 0.1 0 19.9 30.6 68.8",
        "RewardFlow 77.4 64.3 84.0 62.5 86.4 25.0 68.8 78.3 60.9",
        "70.0 78.9 81.8 60.9 2.2 49.2",
        "GiGPO 21.9 33.6 +11.7",
        "RewardFlow (ours) 49.2 70.3 +22.1",
        "R1-Instruct 27.0 53.7 19.9 23.7 29.2 7.2 29.3 27.1",
        "GiGPO 42.0 59.5 42.4 36.9 37.0 12.6 64.1 42.1",
        "RewardFlow 44.4 60.9 44.1 40.3 41.2 15.2 63.7 44.3",
    ),
    "pica": (
        "8 ×\\times A800 GPUs",
        "trainer.n_gpus_per_node 4",
        "Ours 0.426 0.400 0.612",
        "Ours 0.521 0.514 0.691",
        "StepSearch 0.345 0.320 0.174 0.344 0.296",
    ),
    "egrpo": ("Local-7B-E-GRPO 79.6 69.0 78.4 32.8 55.8 83.9 50.2 64.2",),
}


@pytest.mark.parametrize("paper", QUOTES)
def test_the_words_behind_published_figures_stand_in_their_paper(paper: str) -> None:
    text = re.sub(r"\s+", " ", shared_file(f"papers/{paper}.txt").read_text(encoding="utf-8"))
    assert [words for words in QUOTES[paper] if words not in text] == []


def test_hours_that_follow_from_a_stated_time_are_computed_from_it() -> None:
    assert f"{216.9 + 74.2 + 0.108 + 0.025:.0f} s a step" in HOURS
    assert f"{2 * 100 * 320.3 / 3600:.0f} GPU hours" in PUBLISHED["rewardflow_alfworld"].hardware

"""What papers state of the runs that a recipe repeats: hardware, time, result, training curve, each with its place in the paper."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["PUBLISHED", "Published"]

NOT_IN_NUMBERS: Final = "only a figure"


class Published(NamedTuple):
    """Statements on one recipe's model and task; "" where none of the papers that we have states it.

    Attributes:
        hardware: GPUs.
        time: of a step, and the GPU hours that follow from it.
        result: after the last step.
        curve: success at given steps.
        gpu: the kind of GPU that hours are estimated for.
        quotes: (paper, words) that stand in ``../shared/papers``, for the numbers above.
    """

    hardware: str = ""
    time: str = ""
    result: str = ""
    curve: str = ""
    gpu: str = "H100"
    quotes: tuple[tuple[str, str], ...] = ()


GRAPHGPO: Final = (
    ("graphgpo", "training is performed on 2 NVIDIA H100 GPUs"),
    ("graphgpo", "conducted for 150 training epochs"),
    ("graphgpo", "rollout (216.9s) and policy update (74.2s)"),
)
STEP: Final = "291 s a step (sec. 5.2, task not stated): 24 GPU hours"
REWARDFLOW: Final = (("rewardflow", "Learning Computational cost 2x(A100 & h20) 2x(A100 & h20)"),)
BOARDS: Final = "2 A100 or H20 (table 8)"

PUBLISHED: Final[dict[str, Published]] = {
    "gigpo_alfworld": Published(
        "2 H100 (GraphGPO app. C.1)", f"{STEP}, with GraphGPO", "90.9 % (GraphGPO table 1, its GiGPO baseline)", f"{NOT_IN_NUMBERS} (GraphGPO figs. 4, 9)",
        quotes=(*GRAPHGPO, ("graphgpo", "90.88(0.97) | 87.94(0.43) | 73.83(2.30)")),
    ),
    "gigpo_alfworld_7b_lora": Published(
        "4 H100, all weights (GraphGPO app. C.1)", "", "94.3 % with all weights trained (GraphGPO table 1)",
        quotes=(("graphgpo", "we employ 4 NVIDIA H100 GPUs"), ("graphgpo", "94.27(1.33)")),
    ),
    "gigpo_webshop": Published(
        "2 H100 (GraphGPO app. C.1)", f"{STEP}, with GraphGPO", "73.8 %, score 87.9 (GraphGPO table 1)", f"{NOT_IN_NUMBERS} (GraphGPO figs. 4, 9)",
        quotes=(*GRAPHGPO, ("graphgpo", "90.88(0.97) | 87.94(0.43) | 73.83(2.30)")),
    ),
    "gigpo_sokoban_vl": Published(
        "2 H100 (GraphGPO app. C.1)", f"{STEP}, with GraphGPO", "76.9 % (GraphGPO table 2); 21.9 % (RewardFlow table 1)",
        "21.9 % at step 100, 33.6 % at 200 (RewardFlow table 10)",
        quotes=(*GRAPHGPO, ("graphgpo", "| RL Training | GiGPO | 76.92 |"), ("rewardflow", "GiGPO 21.9 33.6 +11.7")),
    ),
    "gigpo_wikisearch": Published(
        "2 A100 or H20 (RewardFlow table 8)", "", "mean accuracy 42.1 (RewardFlow table 2)", gpu="A100",
        quotes=(*REWARDFLOW, ("rewardflow", "GiGPO 42.0 59.5 42.4 36.9 37.0 12.6 64.1 42.1")),
    ),
    "graphgpo_alfworld": Published(
        "2 H100 (app. C.1)", STEP, "92.7 %; grpo 77.9 (table 1)",
        f"{NOT_IN_NUMBERS} (fig. 9); as good as GiGPO about 30 steps earlier, as grpo about 110 (app. D.2)",
        quotes=(
            *GRAPHGPO, ("graphgpo", "92.71(1.32) | 89.29(1.48) | 78.65(3.86)"), ("graphgpo", "77.86(1.33) | 84.73(0.49) | 71.35(2.05)"),
            ("graphgpo", "approximately 30 training steps earlier than GiGPO and about 110 steps earlier than GRPO"),
        ),
    ),
    "graphgpo_webshop": Published(
        "2 H100 (app. C.1)", STEP, "78.7 %, score 89.3; grpo 71.4 (table 1)",
        f"{NOT_IN_NUMBERS} (fig. 9); as good as GiGPO about 80 steps earlier, as grpo about 90 (app. D.2)",
        quotes=(
            *GRAPHGPO, ("graphgpo", "92.71(1.32) | 89.29(1.48) | 78.65(3.86)"), ("graphgpo", "77.86(1.33) | 84.73(0.49) | 71.35(2.05)"),
            ("graphgpo", "roughly 80 steps earlier than GiGPO and 90 steps earlier than GRPO"),
        ),
    ),
    "graphgpo_sokoban_vl": Published(
        "2 H100 (app. C.1)", STEP, "87.0 %; grpo 67.1 (table 2)", f"{NOT_IN_NUMBERS} (fig. 4)",
        quotes=(*GRAPHGPO, ("graphgpo", "| RL Training | GraphGPO | 86.98(0.73) |"), ("graphgpo", "| RL Training | GRPO | 67.1 |")),
    ),
    "rewardflow_alfworld": Published(
        BOARDS, "320 s a step (table 7): 18 GPU hours", "68.8 % (table 1)", "4.1 % at step 0, 44.5 % at 50, 68.8 % at 100 (table 6)", "A100",
        quotes=(
            *REWARDFLOW, ("rewardflow", "RewardFlow 68.8 320.3"), ("rewardflow", "0 1.099 33.1 41.0 24.1 46.9 4.1"),
            ("rewardflow", "50 0.555 0.3 0 33.1 55.9 44.5"), ("rewardflow", "100 0.295 0.1 0 19.9 30.6 68.8"),
        ),
    ),
    "rewardflow_webshop": Published(
        BOARDS, "", "60.9 %, score 78.3 (table 1)", f"{NOT_IN_NUMBERS}, of the 7B model (fig. 3)", "A100",
        quotes=(*REWARDFLOW, ("rewardflow", "RewardFlow 77.4 64.3 84.0 62.5 86.4 25.0 68.8 78.3 60.9")),
    ),
    "rewardflow_sokoban_vl": Published(
        BOARDS, "", "49.2 %, score 2.2 (table 1)", "49.2 % at step 100, 70.3 % at 200 (table 10)", "A100",
        quotes=(*REWARDFLOW, ("rewardflow", "RewardFlow (ours) 49.2 70.3 +22.1"), ("rewardflow", "70.0 78.9 81.8 60.9 2.2 49.2")),
    ),
    "rewardflow_wikisearch": Published(
        BOARDS, "", "mean accuracy 44.3 (table 2)", "", "A100",
        quotes=(*REWARDFLOW, ("rewardflow", "RewardFlow 44.4 60.9 44.1 40.3 41.2 15.2 63.7 44.3")),
    ),
    "pica_wikisearch": Published(
        "8 A800 (sec. 5.1); table 5: 4 GPUs", "", "HotpotQA: exact match .400, F1 .514 (tables 1, 2)", f"{NOT_IN_NUMBERS} (figs. 3, 4)", "A100",
        quotes=(
            ("pica", "8 ×\\times A800 GPUs"), ("pica", "trainer.n_gpus_per_node 4"), ("pica", "Ours 0.426 0.400 0.612"), ("pica", "Ours 0.521 0.514 0.691"),
        ),
    ),
    "egrpo_wikisearch": Published(
        "", "", "mean 64.2, after SFT that is not published (table 1)", f"{NOT_IN_NUMBERS}, of the 30B model (fig. 3)",
        quotes=(("egrpo", "Local-7B-E-GRPO 79.6 69.0 78.4 32.8 55.8 83.9 50.2 64.2"),),
    ),
    "r1_instruct_wikisearch": Published(
        "", "", "mean accuracy 27.1 (RewardFlow table 2)", quotes=(("rewardflow", "R1-Instruct 27.0 53.7 19.9 23.7 29.2 7.2 29.3 27.1"),)
    ),
    "zerosearch_wikisearch": Published(
        "", "", "mean accuracy 31.7 (RewardFlow table 2)", quotes=(("rewardflow", "ZeroSearch 41.4 57.4 44.8 27.4 30.0 9.8 11.1 31.7"),)
    ),
    "stepsearch_wikisearch": Published(
        "", "", "HotpotQA: exact match .345 (PiCA table 1)", quotes=(("pica", "StepSearch 0.345 0.320 0.174 0.344 0.296"),)
    ),
    "search_r1_ppo_wikisearch": Published("8 GPUs (release)"),
    "search_r1_grpo_wikisearch": Published("8 GPUs (release)"),
}  # fmt: skip

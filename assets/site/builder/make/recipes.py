"""How to reproduce a paper: every recipe with the hardware, time, result and curve that papers state, and estimated GPU hours.

What papers state of these runs has its place in the paper beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

import creditflow
from builder.markdown import table
from builder.repository import ROOT
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.rollout.tasks import panel_tasks, training_tasks
from creditflow.train.run.estimate import (
    ARITHMETIC,
    EPISODES,
    GPUS,
    Prompts,
    hours,
    known_sizes,
    measured_prompts,
    range_text,
)
from creditflow.train.settings.schema import EnvConfig, load_settings

__all__ = ["PUBLISHED", "Published", "estimated_hours", "pages", "recipes"]

FOLDER: Final = ROOT / "train" / "configs"

HEAD = """# Reproduce a paper

This page lists a training recipe for every published method, with the paper's own results next to it. **Every recipe of a paper is unverified.** No
paper's result has been reproduced here. One iteration of one recipe ran [on a GPU](tests/evidence/gpu/README.md). Tests check that every recipe is
parsed, that every setting cites its source, and that a dry run builds the environment, the scheme and the batches.

```sh not-run: GPUs; the dry run of every recipe is a test of the tier train
creditflow train train/configs/gigpo_alfworld.yaml --dry-run     # settings, GPU memory, GPU hours
creditflow train train/configs/gigpo_alfworld.yaml
creditflow train train/configs/gigpo_alfworld.yaml --set model.path=PATH --set out=runs/mine
```

## Results and curves

Each row of the table is a file in `train/configs/`. Only `quickstart`, which belongs to no paper, was trained here. The size is tasks × group size ×
iterations, and a group includes its branches.

Results and curves are the papers' own, for the model of the row. "–" means that none of the five papers that we have states the number. Numbers are not
read off plotted curves.
"""

HOURS = """
## Hardware and hours

The papers state few times. **GPU hours are estimated**, on one GPU of the kind in brackets, from the tokens of the recipe and the FLOP of the model. The middle of a range
assumes all turns that are allowed, completions of half of the limit and {arithmetic:.0%} of the peak FLOP/s; its ends are half and twice as much. One iteration that was
[measured on an H200](tests/evidence/gpu/README.md) took 1.6 times the middle, and RewardFlow's ALFWorld run 1.3 times.

GraphGPO states one time, 291 s a step (section 5.2), but neither its task nor its model. On the 2 H100 of its smaller models, 150 such steps are 24 GPU hours
without evaluations. The ALFWorld recipe would take about 25 by our estimate, those of WebShop and Sokoban about 9 and 12, so the number is no measure of theirs.

The estimate leaves out the environments' own time and assumes that every group is trained on. `--dry-run` prints the range for your settings. The tasks are the embedded ones, whose prompts may be shorter than the papers'.

"""

TAIL = """
## Before you spend GPU hours

1. Run `--dry-run`. It prints the hours and the memory, whose peak must fit.
2. Run `creditflow train CONFIG --set update.iterations=2 --set rollout.tasks=2` on your machine. The first two rows of `metrics.jsonl` must have
   `approx_kl` near 0 and a ratio near 1 before the first update.
3. Compare with cheaper alternatives: the model before RL at its best temperature (`creditflow eval`), and more imitation if there is an expert.
4. Use at least three seeds. One run is not enough, because in our small models one run detects only differences of 3 points or more.

## Differences you must expect

- Default tasks are the embedded ones. A comment of the recipe gives the settings for the paper's own files (`data_path`, `data`).
- `semantics: paper` follows the formula, and `--set credit.semantics=release` follows the released code. Each [scheme's page](/schemes/index.md) shows
  where they differ.
- Prompts have the papers' formats and our own wording.

To train on several GPUs, see [Train on a node of GPUs](/integrations/verl_scaling.md). For TRL, see [TRL](/integrations/trl.md).
"""


def recipes() -> dict[str, str]:
    """By name the text of every shipped recipe."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}


def pages() -> dict[str, tuple[str, str]]:
    """One page with two rows per recipe: one of results, one of hours."""
    results = [["recipe", "what", "size", "result", "curve"]]
    measured: dict[str, Prompts] = {}
    times = [["recipe", "model", "the paper's hardware", "the paper's time", "GPU hours, estimated"]]
    for name, text in recipes().items():
        group = setting(text, "max_trajectories") or setting(text, "group_size")  # a group is filled up with branches
        size = [setting(text, "tasks"), group, setting(text, "iterations")]
        stated = PUBLISHED.get(name, Published())
        shape = "\u00a0×\u00a0".join(size) if all(size) else "–"
        results.append([f"`{name}`", title(text), shape, stated.result or "–", stated.curve or "–"])
        if all(size):
            model = setting(text, "path").removeprefix("Qwen/") or "from scratch"
            estimate = "one core: about five minutes"
            if name != "quickstart":
                estimate = f"{range_text(estimated_hours(name, stated.gpu, measured))} ({stated.gpu})"
            times.append([f"`{name}`", model, stated.hardware or "–", stated.time or "–", estimate])
    head = HOURS.format(arithmetic=ARITHMETIC)
    return {"how_to/reproduce": ("", f"{HEAD}\n{table(results)}{head}{table(times)}{TAIL}")}


def estimated_hours(name: str, gpu: str, measured: dict[str, Prompts] | None = None) -> float:
    """The estimated GPU hours of a shipped recipe whose model has known sizes.

    Args:
        name: name of the recipe.
        gpu: kind of GPU.
        measured: lengths of prompts that are known; what is measured is added.
    """
    settings = load_settings(FOLDER / f"{name}.yaml")
    sizes, evaluation = known_sizes(settings.model.path), settings.evaluation
    if sizes is None:
        raise ConfigError(f"{name}: no sizes of {settings.model.path} are known")
    lengths = {} if measured is None else measured
    key = repr((settings.env, settings.prompting, settings.rollout.max_turns))
    if key not in lengths:
        ids, get = _tasks(settings.env)
        listed = [get(task_id) for task_id in ids[:: max(1, len(ids) // EPISODES)]]
        drawn = [] if listed else training_tasks(settings.env, settings.tasks, settings.seed)  # of an endless source
        lengths[key] = measured_prompts(settings, listed or drawn)
    valid, final = (
        len(panel_tasks(settings.evaluation_env, panel)) if panel else 0
        for panel in (evaluation.panel, evaluation.final_panel)
    )
    panels = (min(valid, evaluation.limit or valid), final)
    return hours(sizes, settings, lengths[key], GPUS[gpu], panels)


def _tasks(env: EnvConfig) -> tuple[Sequence[str], Callable[[str], Task]]:
    """Ids of the tasks of an environment, and what opens them."""
    environment = cast("AgentEnv[Any, Any, Any]", creditflow.make(env.name, **env.options).unwrapped)
    return environment.tasks.task_ids(), environment.tasks.get


def title(text: str) -> str:
    r"""The first line of a recipe's head; where a sentence goes on after it, the first sentence.

    >>> title("# GRPO (Shao et al. 2024) on levels,\n# in minutes. Slow.\nout: runs\n")
    'GRPO (Shao et al. 2024) on levels, in minutes'
    """
    lines = re.findall(r"^# (?! )(.*)", text, re.M)  # indented ones are commands
    if not lines or lines[0].endswith("."):
        return lines[0].removesuffix(".") if lines else ""
    return re.split(r"(?<!\bDr)\.(?= [A-Z\"]|$)", " ".join(lines))[0]


def setting(text: str, name: str) -> str:
    r"""The first value of a setting in a recipe; "" if it has none.

    >>> setting("rollout:\n  tasks: 16    # GraphGPO app. C.4\n", "tasks")
    '16'
    """
    match = re.search(rf"^ +{name}: +([^\s#]+)", text, re.M) or re.search(rf"^{name}: +([^\s#]+)", text, re.M)
    return match[1] if match else ""


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
REWARDFLOW: Final = (("rewardflow", "Learning Computational cost 2x(A100 & h20) 2x(A100 & h20)"),)
BOARDS: Final = "2 A100 or H20 (table 8)"

PUBLISHED: Final[dict[str, Published]] = {
    "gigpo_alfworld": Published(
        "2 H100 (GraphGPO app. C.1)", "", "90.9% (GraphGPO table 1, its GiGPO baseline)", f"{NOT_IN_NUMBERS} (GraphGPO figs. 4, 9)",
        quotes=(*GRAPHGPO, ("graphgpo", "90.88(0.97) | 87.94(0.43) | 73.83(2.30)")),
    ),
    "gigpo_alfworld_7b_lora": Published(
        "4 H100, all weights (GraphGPO app. C.1)", "", "94.3% with all weights trained (GraphGPO table 1)",
        quotes=(("graphgpo", "we employ 4 NVIDIA H100 GPUs"), ("graphgpo", "94.27(1.33)")),
    ),
    "gigpo_webshop": Published(
        "2 H100 (GraphGPO app. C.1)", "", "73.8%, score 87.9 (GraphGPO table 1)", f"{NOT_IN_NUMBERS} (GraphGPO figs. 4, 9)",
        quotes=(*GRAPHGPO, ("graphgpo", "90.88(0.97) | 87.94(0.43) | 73.83(2.30)")),
    ),
    "gigpo_sokoban_vl": Published(
        "2 H100 (GraphGPO app. C.1)", "", "76.9% (GraphGPO table 2); 21.9% (RewardFlow table 1)",
        "21.9% at step 100, 33.6% at 200 (RewardFlow table 10)",
        quotes=(*GRAPHGPO, ("graphgpo", "| RL Training | GiGPO | 76.92 |"), ("rewardflow", "GiGPO 21.9 33.6 +11.7")),
    ),
    "gigpo_wikisearch": Published(
        "2 A100 or H20 (RewardFlow table 8)", "", "mean accuracy 42.1 (RewardFlow table 2)", gpu="A100",
        quotes=(*REWARDFLOW, ("rewardflow", "GiGPO 42.0 59.5 42.4 36.9 37.0 12.6 64.1 42.1")),
    ),
    "graphgpo_alfworld": Published(
        "2 H100 (app. C.1)", "", "92.7%; grpo 77.9 (table 1)",
        f"{NOT_IN_NUMBERS} (fig. 9); as good as GiGPO about 30 steps earlier, as grpo about 110 (app. D.2)",
        quotes=(
            *GRAPHGPO, ("graphgpo", "92.71(1.32) | 89.29(1.48) | 78.65(3.86)"), ("graphgpo", "77.86(1.33) | 84.73(0.49) | 71.35(2.05)"),
            ("graphgpo", "approximately 30 training steps earlier than GiGPO and about 110 steps earlier than GRPO"),
        ),
    ),
    "graphgpo_webshop": Published(
        "2 H100 (app. C.1)", "", "78.7%, score 89.3; grpo 71.4 (table 1)",
        f"{NOT_IN_NUMBERS} (fig. 9); as good as GiGPO about 80 steps earlier, as grpo about 90 (app. D.2)",
        quotes=(
            *GRAPHGPO, ("graphgpo", "92.71(1.32) | 89.29(1.48) | 78.65(3.86)"), ("graphgpo", "77.86(1.33) | 84.73(0.49) | 71.35(2.05)"),
            ("graphgpo", "roughly 80 steps earlier than GiGPO and 90 steps earlier than GRPO"),
        ),
    ),
    "graphgpo_sokoban_vl": Published(
        "2 H100 (app. C.1)", "", "87.0%; grpo 67.1 (table 2)", f"{NOT_IN_NUMBERS} (fig. 4)",
        quotes=(*GRAPHGPO, ("graphgpo", "| RL Training | GraphGPO | 86.98(0.73) |"), ("graphgpo", "| RL Training | GRPO | 67.1 |")),
    ),
    "rewardflow_alfworld": Published(
        BOARDS, "320 s a step (table 7): 18 GPU hours", "68.8% (table 1)", "4.1% at step 0, 44.5% at 50, 68.8% at 100 (table 6)", "A100",
        quotes=(
            *REWARDFLOW, ("rewardflow", "RewardFlow 68.8 320.3"), ("rewardflow", "0 1.099 33.1 41.0 24.1 46.9 4.1"),
            ("rewardflow", "50 0.555 0.3 0 33.1 55.9 44.5"), ("rewardflow", "100 0.295 0.1 0 19.9 30.6 68.8"),
        ),
    ),
    "rewardflow_webshop": Published(
        BOARDS, "", "60.9%, score 78.3 (table 1)", f"{NOT_IN_NUMBERS}, of the 7B model (fig. 3)", "A100",
        quotes=(*REWARDFLOW, ("rewardflow", "RewardFlow 77.4 64.3 84.0 62.5 86.4 25.0 68.8 78.3 60.9")),
    ),
    "rewardflow_sokoban_vl": Published(
        BOARDS, "", "49.2%, score 2.2 (table 1)", "49.2% at step 100, 70.3% at 200 (table 10)", "A100",
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
    "stepsearch_wikisearch": Published(
        "", "", "HotpotQA: exact match .345 (PiCA table 1)", quotes=(("pica", "StepSearch 0.345 0.320 0.174 0.344 0.296"),)
    ),
    "search_r1_ppo_wikisearch": Published("8 GPUs (release)"),
    "search_r1_grpo_wikisearch": Published("8 GPUs (release)"),
}  # fmt: skip

"""How to reproduce a paper: every recipe with the hardware, time, result and curve that papers state, and estimated GPU hours."""

from __future__ import annotations

from typing import Final, NamedTuple

import yaml

from builder.markdown import table
from builder.repository import ROOT
from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.run import estimate
from creditflow.train.settings.schema import load_settings

__all__ = ["PUBLISHED", "Published", "pages", "recipes"]

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

HOURS = f"""
## Hardware and hours

The papers state few times; GraphGPO's one time, 291 s a step (section 5.2), is of no stated task and model.
**GPU hours are estimated**, on one GPU of the kind in brackets, from the tokens of the recipe and the FLOP of the model. The middle of a range
assumes all turns that are allowed, completions of half of the limit and {estimate.ARITHMETIC:.0%} of the peak FLOP/s; its ends are half and twice as much. Of what was measured,
{estimate.HOURS_MEASURED} ([details](tests/evidence/gpu/README.md)).

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
    times = [["recipe", "model", "the paper's hardware and time", "GPU hours, estimated"]]
    measured: dict[str, estimate.Prompts] = {}  # recipes share environments and prompts
    for name, text in recipes().items():
        data, stated = yaml.safe_load(text), PUBLISHED.get(name, Published())
        rollout = data.get("rollout", {})
        group = rollout.get("branching", {}).get("max_trajectories") or rollout.get("group_size")
        size = [rollout.get("tasks"), group, data.get("update", {}).get("iterations")]
        shape = "\u00a0×\u00a0".join(map(str, size)) if all(size) else "–"
        what = text.partition("\n")[0].removeprefix("# ").removesuffix(".")
        results.append([f"`{name}`", what, shape, stated.result or "–", stated.curve or "–"])
        if not all(size):
            continue
        settings = load_settings(FOLDER / f"{name}.yaml")
        time = "one core: about five minutes"  # of quickstart, whose model is made from scratch
        if sizes := estimate.known_sizes(settings.model.path):
            key = repr((settings.env, settings.prompting, settings.rollout.max_turns))
            if key not in measured:
                tasks = training_tasks(settings.env, settings.tasks, settings.seed)
                measured[key] = estimate.measured_prompts(settings, tasks)
            middle = estimate.hours(sizes, settings, measured[key], estimate.GPUS[stated.gpu])
            time = f"{estimate.range_text(middle)} ({stated.gpu})"
        model = settings.model.path.removeprefix("Qwen/") or "from scratch"
        times.append([f"`{name}`", model, stated.hardware or "–", time])
    return {"how_to/reproduce": ("", f"{HEAD}\n{table(results)}{HOURS}{table(times)}{TAIL}")}


# tests/conformance/test_published.py has the papers' words
class Published(NamedTuple):
    """Statements on one recipe's model and task; "" where none of the papers that we have states it."""

    result: str = ""  # after the last step
    curve: str = ""  # success at given steps
    hardware: str = ""  # and the time of a step, with the GPU hours that follow from it
    gpu: str = "H100"  # that hours are estimated for


FIGURES: Final = "only a figure (GraphGPO figs. 4, 9)"
TWO_H100: Final = "2 H100 (GraphGPO app. C.1)"
BOARDS: Final = "2 A100 or H20 (RewardFlow table 8)"

PUBLISHED: Final = {
    "gigpo_alfworld": Published("90.9% (GraphGPO table 1, its GiGPO baseline)", FIGURES, TWO_H100),
    "gigpo_alfworld_7b_lora": Published(
        "94.3% with all weights trained (GraphGPO table 1)", "", "4 H100, all weights (GraphGPO app. C.1)"
    ),
    "gigpo_webshop": Published("73.8%, score 87.9 (GraphGPO table 1)", FIGURES, TWO_H100),
    "gigpo_sokoban_vl": Published(
        "76.9% (GraphGPO table 2); 21.9% (RewardFlow table 1)",
        "21.9% at step 100, 33.6% at 200 (RewardFlow table 10)",
        TWO_H100,
    ),
    "gigpo_wikisearch": Published("mean accuracy 42.1 (RewardFlow table 2)", "", BOARDS, "A100"),
    "graphgpo_alfworld": Published(
        "92.7%; grpo 77.9 (table 1)",
        "only a figure (fig. 9); as good as GiGPO about 30 steps earlier, as grpo about 110 (app. D.2)",
        TWO_H100,
    ),
    "graphgpo_webshop": Published(
        "78.7%, score 89.3; grpo 71.4 (table 1)",
        "only a figure (fig. 9); as good as GiGPO about 80 steps earlier, as grpo about 90 (app. D.2)",
        TWO_H100,
    ),
    "graphgpo_sokoban_vl": Published("87.0%; grpo 67.1 (table 2)", "only a figure (fig. 4)", TWO_H100),
    "rewardflow_alfworld": Published(
        "68.8% (table 1)",
        "4.1% at step 0, 44.5% at 50, 68.8% at 100 (table 6)",
        f"{BOARDS}, 320 s a step (table 7): 18 GPU hours",
        "A100",
    ),
    "rewardflow_webshop": Published(
        "60.9%, score 78.3 (table 1)", "only a figure, of the 7B model (fig. 3)", BOARDS, "A100"
    ),
    "rewardflow_sokoban_vl": Published(
        "49.2%, score 2.2 (table 1)", "49.2% at step 100, 70.3% at 200 (table 10)", BOARDS, "A100"
    ),
    "rewardflow_wikisearch": Published("mean accuracy 44.3 (table 2)", "", BOARDS, "A100"),
    "pica_wikisearch": Published(
        "HotpotQA: exact match .400, F1 .514 (tables 1, 2)",
        "only a figure (figs. 3, 4)",
        "8 A800 (sec. 5.1); table 5: 4 GPUs",
        "A100",
    ),
    "egrpo_wikisearch": Published(
        "mean 64.2, after SFT that is not published (table 1)", "only a figure, of the 30B model (fig. 3)"
    ),
    "r1_instruct_wikisearch": Published("mean accuracy 27.1 (RewardFlow table 2)"),
    "stepsearch_wikisearch": Published("HotpotQA: exact match .345 (PiCA table 1)"),
    "search_r1_ppo_wikisearch": Published(hardware="8 GPUs (release)"),
    "search_r1_grpo_wikisearch": Published(hardware="8 GPUs (release)"),
}

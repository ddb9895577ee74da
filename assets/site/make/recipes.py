"""How to reproduce a paper: every recipe with the hardware, time, result and curve that papers state, and estimated GPU hours."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import creditflow
from creditflow.assets.site.make.published import PUBLISHED, Published
from creditflow.assets.site.markdown import table
from creditflow.assets.site.repository import ROOT
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.tasks import Task
from creditflow.train.run.hours.prompts import EPISODES, Prompts, measured_prompts
from creditflow.train.run.hours.table import range_text
from creditflow.train.run.hours.work import GPUS, HIGH, LOW, Panels, hours_of
from creditflow.train.run.memory.sizes import known_sizes
from creditflow.train.settings.schema import EnvConfig, load_settings

__all__ = ["estimated_hours", "pages", "recipes"]

MEASURED: Final = "tests/evidence/hours/results.json"  # python tests/evidence/hours/run.py
FOLDER: Final = ROOT / "train" / "configs"

HEAD = """# Reproduce a paper

This page lists a training recipe for every published method, with the paper's own results next to it. **Every recipe of a paper is unverified.** We had no GPU to
train them, so we have not reproduced any paper's results. Tests check that every recipe is parsed, that every setting cites its source, and that a dry run builds the
environment, the scheme and the batches.

```sh not-run: GPUs; the dry run of every recipe is a test of the tier train
creditflow train train/configs/gigpo_alfworld.yaml --dry-run     # settings, GPU memory on 1 and 8 GPUs, GPU hours
creditflow train train/configs/gigpo_alfworld.yaml
creditflow train train/configs/gigpo_alfworld.yaml --set model.path=PATH --set out=runs/mine
```

## Results and curves

Each row of the table is a file in `train/configs/`. The size is tasks × group size × iterations, and a group includes its branches. Results and curves are the
papers' own, for the model of the row. "–" means that none of the five papers that we have states it. We do not read numbers off plotted curves.
"""

HOURS = """
## Hardware and hours

The papers state few times. **GPU hours are estimated and unverified.** They give an order of magnitude, computed from the tokens of the recipe and the FLOP of the
model, on one GPU of the kind in brackets. They exclude the environments' own time and assume that every group is trained on. The lower end of the range assumes the
expert's number of turns, completions of an eighth of the limit and {low:.0%} of the peak FLOP/s. The upper end assumes all turns that are allowed, completions of half of
the limit and {high:.0%}. `--dry-run` prints the range for your settings. The tasks are the embedded ones, whose prompts may be shorter than the papers'.

As a check, the two times that papers state are inside the range, above its geometric mean{check}.

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
    results = [["recipe", "what", "size", "result", "curve", "here"]]
    measured: dict[str, Prompts] = {}
    hours = [["recipe", "model", "the paper's hardware", "the paper's time", "GPU hours, estimated"]]
    for name, text in recipes().items():
        group = setting(text, "max_trajectories") or setting(text, "group_size")  # a group is filled up with branches
        size = [setting(text, "tasks"), group, setting(text, "iterations")]
        stated = PUBLISHED.get(name, Published())
        ran = "trained: [evidence](/evidence/quickstart.md)" if name == "quickstart" else "unverified"
        shape = " × ".join(size) if all(size) else "–"
        results.append([f"`{name}`", title(text), shape, stated.result or "–", stated.curve or "–", ran])
        if all(size):
            model = setting(text, "path").removeprefix("Qwen/") or "from scratch"
            estimate = "one core: 65 s ([measured](/evidence/quickstart.md))"
            if name != "quickstart":
                estimate = f"{range_text(*estimated_hours(name, stated.gpu, measured))} ({stated.gpu})"
            hours.append([f"`{name}`", model, stated.hardware or "–", stated.time or "–", estimate])
    head = HOURS.format(low=LOW.arithmetic, high=HIGH.arithmetic, check=_measured())
    return {"how_to/reproduce": ("", f"{HEAD}\n{table(results)}{head}{table(hours)}{TAIL}")}


def _measured() -> str:
    """What a small run on one core of a CPU took, beside its estimate."""
    run = read_json(ROOT / MEASURED)["models"]["5 M"]
    rollout, update = (
        f"{run['seconds'][stage]:.2g} s ({range_text(*run['estimated_seconds'][stage])} estimated)"
        for stage in ("rollout", "update")
    )
    return (
        f". On one core of a CPU (`{MEASURED}`) rollouts of a model of 5 M parameters took {rollout} and updates {update}: these reached "
        f"{run['fraction']:.0%} of the core's peak, and groups of equal outcomes train nothing"
    )


def estimated_hours(name: str, gpu: str, measured: dict[str, Prompts] | None = None) -> tuple[float, float]:
    """The range of GPU hours of a shipped recipe whose model has known sizes.

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
        lengths[key] = measured_prompts(settings, [get(task_id) for task_id in ids[:: max(1, len(ids) // EPISODES)]])
    panels = [
        len(_tasks(settings.env, panel)[0]) if panel else 0 for panel in (evaluation.panel, evaluation.final_panel)
    ]
    low, high = (hours_of(sizes, settings, lengths[key], GPUS[gpu], pace, Panels(*panels)) for pace in (LOW, HIGH))
    return low.total, high.total


def _tasks(env: EnvConfig, panel: str = "") -> tuple[Sequence[str], Callable[[str], Task]]:
    """Ids of the tasks of an environment, or of a panel instead, and what opens them."""
    options = {**env.options, "panel": panel} if panel else env.options
    environment = cast("AgentEnv[Any, Any, Any]", creditflow.make(env.name, **options).unwrapped)
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

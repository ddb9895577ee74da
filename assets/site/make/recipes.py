"""How to reproduce a paper: every recipe with model, size, the hardware and figures that the paper states, and what ran here."""

from __future__ import annotations

import re
from typing import Final

from creditflow.assets.site.markdown import table
from creditflow.assets.site.repository import ROOT

__all__ = ["PUBLISHED", "pages", "recipes"]

# recipe -> (the paper's hardware, its result for the recipe's model); what it does not state, or was not looked up, is ""
PUBLISHED: Final = {
    "gigpo_alfworld": ("2 H100 (GraphGPO app. C)", "90.9 % of ALFWorld (GraphGPO table 1, its GiGPO baseline)"),
    "gigpo_webshop": ("2 H100 (GraphGPO app. C)", "73.8 % success, score 87.9 (GraphGPO table 1)"),
    "gigpo_sokoban_vl": ("2 H100 (GraphGPO app. C)", "76.9 % of Sokoban (GraphGPO sec. 5.2)"),
    "graphgpo_alfworld": ("2 H100", "92.7 % of ALFWorld; grpo 77.9 (table 1)"),
    "graphgpo_webshop": ("2 H100", "78.7 % success, score 89.3; grpo 71.4 (table 1)"),
    "graphgpo_sokoban_vl": ("2 H100", "87.0 % of Sokoban; grpo 67.1 (sec. 5.2)"),
    "rewardflow_alfworld": ("2 A100 or H20 (table 8)", "68.8 % of ALFWorld (table 1)"),
    "rewardflow_webshop": ("2 A100 or H20 (table 8)", "60.9 % success, score 78.3 (table 1)"),
    "rewardflow_wikisearch": ("2 A100 or H20 (table 8)", "mean exact match 44.3 (table 1)"),
    "pica_wikisearch": ("8 A800 (sec. 5.1)", "HotpotQA: exact match .400, F1 .514 (tables 1, 2)"),
    "egrpo_wikisearch": ("", "mean 64.2, after SFT that is not published (table 1)"),
    "search_r1_ppo_wikisearch": ("8 GPUs (release)", ""),
    "search_r1_grpo_wikisearch": ("8 GPUs (release)", ""),
}

HEAD = """# Reproduce a paper

**Every recipe of a paper is unverified**: none was trained here, for want of a GPU, so no figure of any paper is reproduced. What is tested: every recipe is
read, every line of it names its source, and a dry run builds environment, scheme and batches.

```sh not-run: GPUs; the dry run of every recipe is a test of the tier train
creditflow train train/configs/gigpo_alfworld.yaml --dry-run     # settings, GPU memory needed on 1 and 8 GPUs
creditflow train train/configs/gigpo_alfworld.yaml
creditflow train train/configs/gigpo_alfworld.yaml --set model.path=PATH --set out=runs/mine
```

A *row* of the table is a file in `train/configs/`. Episodes are tasks × group size × iterations; a group includes its
branches. Hardware and results are the papers' own words, for
the model of the row; –: not stated for it, or not looked up here. **Hours**: no paper of these states them for these settings, and none is estimated here.
"""

TAIL = """
## Before you spend GPU hours

1. `--dry-run` prints the memory; the peak must fit.
2. `creditflow train CONFIG --set iterations=2 --set rollout.tasks=2` on your machine: the first two rows of `metrics.jsonl` must have
   `approx_kl` near 0 and a ratio near 1 before the first update.
3. Compare with the floor: the model before RL at its best temperature (`creditflow eval`), and more imitation if there is an expert.
4. Three seeds at least. One run says little: in our small models one run detects differences of 3 points or more.

## Differences you must expect

- Default tasks are the embedded ones; a paper's own files are named in a comment of the recipe (`data_path`, `data`).
- `semantics: paper` follows the formula; `--set credit.semantics=release` follows the released code. Each [scheme's page](/schemes/index.md) shows
  where they differ.
- Prompts are of our wording, in the papers' formats.

Multi-GPU with verl: [at scale](/integrations/verl_scaling.md). In TRL: [TRL](/integrations/trl.md).
"""


def recipes() -> dict[str, str]:
    """By name the text of every shipped recipe."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "train" / "configs").glob("*.yaml"))}


def pages() -> dict[str, tuple[str, str]]:
    """One page with a row per recipe."""
    rows = [
        ["recipe", "what", "model", "tasks × group × iterations", "the paper's hardware", "the paper's result", "here"]
    ]
    for name, text in recipes().items():
        group = setting(text, "max_trajectories") or setting(text, "group_size")  # a group is filled up with branches
        size = [setting(text, "tasks"), group, setting(text, "iterations")]
        hardware, result = PUBLISHED.get(name, ("", ""))
        ran = "trained: [evidence](/evidence/quickstart.md)" if name == "quickstart" else "unverified"
        shape = " × ".join(size) if all(size) else "–"
        rows.append(
            [
                f"`{name}`",
                title(text),
                setting(text, "path") or "from scratch",
                shape,
                hardware or "–",
                result or "–",
                ran,
            ]
        )
    return {"how_to/reproduce": ("", f"{HEAD}\n{table(rows)}{TAIL}")}


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
    found = re.search(rf"^ +{name}: +([^\s#]+)", text, re.M) or re.search(rf"^{name}: +([^\s#]+)", text, re.M)
    return found[1] if found else ""

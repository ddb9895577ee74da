"""The data card of an exported log: what the data are, how they were made, what the columns mean, which licence they have."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from creditflow.train.text_table import text_table
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.tokens import Tokens
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["data_card", "file_digest"]

NO_LICENSE: Final = "FILL IN: the licence of the tasks, of the model's outputs and of this collection"


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def data_card(groups: Sequence[Group], *, source: str, digest: str, form: str, license_name: str) -> str:
    """The card as Markdown; of the Hub's layout with its header.

    Args:
        groups: what was exported.
        source, digest: name and SHA-256 of the log.
        form: format of the export.
        license_name: licence identifier as the Hub knows it, such as "cc-by-4.0"; "" leaves it to be filled in.
    """
    from creditflow import __version__

    members = [member for group in groups for member in group.trajectories]
    turns = sum(len(member.turns) for member in members)
    tasks = Counter(group.task_id.partition(":")[0] for group in groups)
    policies = Counter(member.policy or "not recorded" for member in members)
    counts = [
        ["", "number"], ["groups (rollouts of one task)", f"{len(groups):,}"], ["trajectories", f"{len(members):,}"],
        ["turns", f"{turns:,}"], ["successful trajectories", f"{sum(m.success for m in members):,}"],
        ["trajectories with tokens", f"{sum(m.tokens is not None for m in members):,}"],
    ]  # fmt: skip
    header = f"license: {license_name or 'unknown'}\ntags: [agents, reinforcement-learning, credit-assignment]\n"
    if form == "hf":
        header = (
            "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/*.parquet\n" + header
        )
    return "\n".join(
        [
            *(["---", header.rstrip(), "---", ""] if form == "hf" else []), "# Rollouts of agents", "", "## What the data are", "",
            "```", text_table(counts), "```", "",
            f"Environments, by the prefix of task ids: {_listed(tasks)}. Policies: {_listed(policies)}.", "",
            "## How they were made", "",
            f"`creditflow data export --format {form}` (creditflow {__version__}) of the log {json.dumps(source)}, SHA-256 `{digest}`.",
            "Which agent, prompts and sampling made the log: FILL IN.", "",
            "## Licence", "", license_name or NO_LICENSE, "",
            "## Personal and sensitive information", "", "FILL IN: whether texts may contain any, and how that was checked.", "",
            "## Columns", "", *_columns(form), *_pictures(groups), "",
        ]
    )  # fmt: skip


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{json.dumps(name)} ({count:,})" for name, count in counts.most_common(12))


def _columns(form: str) -> list[str]:
    if form == "minari":
        return [
            "An episode has the texts of the turns as observations (the last one empty: it is not recorded), the actions, the rewards; it is",
            "terminated or truncated as recorded. `log.jsonl.gz` next to the dataset is the log itself, with all other fields.",
        ]
    lines = ["One row is one trajectory; `creditflow data import parquet DIR --out LOG.jsonl` gives the log again.", ""]
    for title, kind in (("Trajectory", Trajectory), ("A turn, in `turns`", Turn), ("`tokens`", Tokens)):
        meaning = _documented(kind)
        lines += [f"**{title}**", ""]
        lines += [
            f"- `{f.name}`: {meaning.get(f.name, 'see the neighbouring fields')}"
            for f in fields(kind)
            if f.name != "turns"
        ]
        lines.append("")
    return [
        *lines,
        "- `task`: payload of the task as JSON, at the first trajectory of a group",
        "- `exact_line`: the log's line, only where a text is no Unicode",
    ]


def _pictures(groups: Sequence[Group]) -> list[str]:
    if not any(turn.images for group in groups for turn in group.turns):
        return []
    return ["", "The pictures that `images` names stand in `pictures/`, a PNG file each."]


def _documented(kind: type) -> dict[str, str]:
    """The meaning of each field, from the docstring of its class."""
    section = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2].split("\n\n")[0]
    meanings = {}
    for entry in re.split(r"\n(?=    \w)", "\n" + section):
        names, _, text = entry.strip().partition(": ")
        for name in names.split(", "):
            meanings[name.strip()] = " ".join(text.split())
    return meanings

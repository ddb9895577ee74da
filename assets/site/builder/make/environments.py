"""A page for every environment: its own page, then its panels, arguments, `info` and an example from the code."""

from __future__ import annotations

from collections import Counter

import creditflow
from builder.markdown import table
from builder.repository import read
from creditflow.envs.registration import ENVIRONMENTS
from creditflow.envs.tasks import load_panel, panel_names

__all__ = ["pages"]

EXAMPLE_LINES = 30  # of an observation


def pages() -> dict[str, tuple[str, str]]:
    """One page per environment."""
    return {f"environments/{name}": (f"envs/{name}/README.md", environment_page(name)) for name in ENVIRONMENTS}


def environment_page(name: str) -> str:
    """The environment's page, with an example, arguments and panels made from the code."""
    text = read(f"envs/{name}/README.md").rstrip()
    return f"{text}\n\n{example(name)}\n{arguments(name)}\n{panels(name)}"


def example(name: str) -> str:
    """The first observation of a task and the actions that the agent may choose from."""
    env = creditflow.make(name)
    observation, info = env.reset(seed=3)
    lines = str(observation).splitlines()
    cut = [*lines[:EXAMPLE_LINES], "…"] if len(lines) > EXAMPLE_LINES else lines
    listed = ", ".join(f"`{action}`" for action in info["admissible_actions"][:6])
    return (
        "## An example observation\n\n`env.reset(seed=3)` returns this text:\n\n```text\n"
        + "\n".join(cut)
        + "\n```\n\n"
        f"The first of the {len(info['admissible_actions'])} listed actions are {listed}.\n"
    )


def arguments(name: str) -> str:
    """The constructor's signature and its description in the docstring."""
    kind = type(creditflow.make(name).unwrapped)
    return (
        "## Arguments\n\nPass them to `creditflow.make` or `gymnasium.make`, or as `--env-set NAME=VALUE`.\n\n"
        f"```{{eval-rst}}\n.. autoclass:: {kind.__module__}.{kind.__name__}\n```\n"
    )


def panels(name: str) -> str:
    """The environment's ids and a table of its panels."""
    entry = ENVIRONMENTS[name]
    rows = [["panel", "tasks in each split"]]
    for panel in panel_names(name):
        splits = Counter(row.split for row in load_panel(name, panel).rows)
        rows.append([f"`{panel}`", ", ".join(f"{split} {count:,}" for split, count in splits.items())])
    files = f" The argument `{entry.files}` opens your own files." if entry.files else ""
    ids = f'Open it with `creditflow.make("{name}")` or `gymnasium.make("{entry.gym_id}")`.{files}'
    return f'## Panels\n\n{ids}\n\n{table(rows)}\n`panel="NAME:SPLIT"` or `--panel NAME:SPLIT` plays one.\n'

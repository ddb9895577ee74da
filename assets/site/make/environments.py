"""A page for every environment: a card from the registry and the panels, then the environment's own page."""

from __future__ import annotations

from collections import Counter

from creditflow.assets.site.markdown import table
from creditflow.assets.site.repository import read
from creditflow.envs.registration import ENVIRONMENTS
from creditflow.envs.tasks import load_panel, panel_names

__all__ = ["pages"]


def pages() -> dict[str, tuple[str, str]]:
    """One page per environment."""
    return {f"environments/{name}": (f"envs/{name}/README.md", environment_page(name)) for name in ENVIRONMENTS}


def environment_page(name: str) -> str:
    """The environment's page with its names and panels below the heading."""
    title, _, rest = read(f"envs/{name}/README.md").partition("\n")
    entry = ENVIRONMENTS[name]
    rows = [["panel", "tasks in each split"]]
    for panel in panel_names(name):
        splits = Counter(row.split for row in load_panel(name, panel).rows)
        rows.append([f"`{panel}`", ", ".join(f"{split} {count:,}" for split, count in splits.items())])
    files = f" Your own files: the argument `{entry.files}`." if entry.files else ""
    names = f'`creditflow.make("{name}")`, `gymnasium.make("{entry.gym_id}")`.{files}'
    return f"{title}\n{rest}\n## Panels\n\n{names}\n\n{table(rows)}\n`--panel NAME:SPLIT` plays one.\n"

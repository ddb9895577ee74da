"""Writes a panel as the package's panels are written, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.tasks import PANEL_FORMAT, PanelRow

__all__ = ["write_panel"]


def write_panel(path: str | Path, rows: Iterable[PanelRow], *, spaces: bool = False) -> None:
    """Write a panel, one row per line.

    Args:
        path: path of the file, compressed if it ends in ``.gz``.
        rows: rows in published order.
        spaces: write spaces after commas and colons, as in the published bytes of some panels.
    """
    comma, colon = (", ", ": ") if spaces else (",", ":")
    fields = ("task_id", "split", "locator", "strata")
    lines = (json.dumps({name: getattr(row, name) for name in fields}, separators=(comma, colon)) for row in rows)
    with atomic_writer(path) as out:
        out.write(f'{{"format_version"{colon}{PANEL_FORMAT}{comma}"rows"{colon}[\n' + ",\n".join(lines) + "\n]}\n")

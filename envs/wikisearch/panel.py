"""How the embedded panel ``standard-v1`` was made, so that anybody can make it again.

1,000 questions over the default encyclopedia of 5,000 articles: two- to four-hop walks, comparisons, intersections and
temporal questions; 712 for training, 96 for validation, 192 for testing, no fact shared between splits. A row holds
the recipe of its question and the hash of its content (corpus digest included), not the text.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from creditflow.envs.tasks import PANEL_FORMAT
from creditflow.envs.wikisearch.sources import world_rows
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES, DEFAULT_SEED

__all__ = ["QUESTIONS", "write_panel"]

QUESTIONS: Final = 1_000


def write_panel(path: str | Path) -> None:
    """Make the panel and write it: one row a line."""
    lines = [
        json.dumps(
            {"task_id": row.task_id, "split": row.split, "locator": row.locator, "strata": row.strata},
            separators=(",", ":"),
        )
        for row in world_rows(DEFAULT_SEED, DEFAULT_ARTICLES, QUESTIONS)
    ]
    text = f'{{"format_version":{PANEL_FORMAT},"rows":[\n' + ",\n".join(lines) + "\n]}\n"
    path = Path(path)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="ascii", newline="\n")
    temporary.replace(path)

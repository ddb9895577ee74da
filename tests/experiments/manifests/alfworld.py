"""Write the manifest of ALFWorld's released games, the panel ``released-v2``, from an archive of them.

    python tests/experiments/manifests/alfworld.py ../shared/data/alfworld/alfworld_games_full.tar.xz

Of every game it stores path, task id, hash of the world, task type and length of the published solution: no text of the
game. Another archive of the same games gives the same rows. About a minute on one core.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.alfworld.panel import manifest_rows
from creditflow.envs.tasks import write_panel

PANEL = Path(__file__).resolve().parents[3] / "assets" / "panels" / "alfworld" / "released-v2.json.gz"


def main() -> None:
    archive, out = parse_source(__doc__, "archive", "archive of the released games", PANEL)
    rows = list(manifest_rows(archive))
    write_panel(out, rows, spaces=True)
    print(f"{out}: {len(rows)} games")


if __name__ == "__main__":
    main()

"""Write the manifest of ALFWorld's released games, the panel ``released-v2``, from an archive of them.

    python tests/experiments/manifests/alfworld.py ../shared/data/alfworld/alfworld_games_full.tar.xz

Of every game it stores path, task id, hash of the world, task type and length of the published solution: no text of the
game. Another archive of the same games gives the same rows. About a minute on one core.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from creditflow.envs.alfworld.panel import manifest_rows
from creditflow.envs.tasks import write_panel

PANEL = Path(__file__).resolve().parents[3] / "assets" / "panels" / "alfworld" / "released-v2.json.gz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="archive of the released games")
    parser.add_argument("--out", type=Path, default=PANEL, help="panel to write (default: the embedded one)")
    args = parser.parse_args()
    rows = list(manifest_rows(args.archive))
    write_panel(args.out, rows, spaces=True)
    print(f"{args.out}: {len(rows)} games")


if __name__ == "__main__":
    main()

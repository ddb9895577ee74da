"""Write the manifest of Boxoban's first levels from a folder of its files.

    python tests/experiments/manifests/boxoban.py ../shared/data/boxoban

It stores task ids, which are hashes: no level. A second.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.sokoban.levels.boxoban import MANIFEST, list_levels, write_ids

OUT = Path(__file__).resolve().parents[3] / "assets" / "manifests" / "sokoban" / f"{MANIFEST}.json"


def main() -> None:
    folder, out = parse_source(__doc__, "folder", "folder with unfiltered, medium and hard", OUT)
    ids = list_levels(folder)
    write_ids(out, ids)
    print(f"{out}: " + ", ".join(f"{len(rows)} of {name}" for name, rows in ids.items()))


if __name__ == "__main__":
    main()

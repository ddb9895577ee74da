"""Write the manifest of Boxoban's first levels from a folder of its files.

    python tests/experiments/manifests/boxoban.py ../shared/data/boxoban

It stores task ids, which are hashes: no level. A second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from creditflow.envs.sokoban.levels.boxoban import MANIFEST, list_levels, write_ids

OUT = Path(__file__).resolve().parents[3] / "assets" / "manifests" / "sokoban" / f"{MANIFEST}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with unfiltered, medium and hard")
    parser.add_argument("--out", type=Path, default=OUT, help="manifest to write (default: the embedded one)")
    args = parser.parse_args()
    ids = list_levels(args.folder)
    write_ids(args.out, ids)
    print(f"{args.out}: " + ", ".join(f"{len(rows)} of {name}" for name, rows in ids.items()))


if __name__ == "__main__":
    main()

"""Write the panels of WebShop's released thousand products, ``small-synthetic-v1`` and ``small-human-v1``, from a folder of its files.

    python tests/experiments/manifests/webshop_panels.py ../shared/data/webshop

Of every goal they store the task id, the product's id, a hash of the wish and the price limit: no text. A few seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.tasks import write_panel
from creditflow.envs.webshop.panel import released_rows
from creditflow.envs.webshop.tasks import RELEASED

FOLDER = Path(__file__).resolve().parents[3] / "assets" / "panels" / "webshop"


def main() -> None:
    folder, out = parse_source(
        __doc__, "folder", "folder with items_shuffle_1000, items_ins_v2_1000, items_human_ins", FOLDER
    )
    for name in RELEASED:
        rows = list(released_rows(folder, name))
        write_panel(out / f"{name}.json.gz", rows)
        print(f"{out / name}.json.gz: {len(rows)} goals")


if __name__ == "__main__":
    main()

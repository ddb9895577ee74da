"""Write the manifest of WebShop's thousand products from a folder of its files.

    python tests/experiments/manifests/webshop.py ../shared/data/webshop

Of every product it stores the id and hashes of product and instructions: none of their texts. Another copy of the same
files gives the same manifest. A few seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.webshop.catalogue.manifest import build_manifest, write_manifest
from creditflow.envs.webshop.catalogue.stock import find_files

MANIFEST = Path(__file__).resolve().parents[3] / "assets" / "manifests" / "webshop" / "small-v1.json"


def main() -> None:
    folder, out = parse_source(
        __doc__, "folder", "folder with items_shuffle_1000, items_ins_v2_1000, items_human_ins", MANIFEST
    )
    manifest = build_manifest(find_files(folder))
    write_manifest(out, manifest)
    human = sum(map(len, manifest.human.values()))
    print(
        f"{out}: {len(manifest.products)} products, {len(manifest.synthetic)} synthetic and {human} human instructions"
    )


if __name__ == "__main__":
    main()

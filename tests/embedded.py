"""Write an embedded panel or manifest again from a copy of the released data; it holds ids and hashes, none of their texts.

    python tests/embedded.py alfworld ../shared/data/alfworld/alfworld_games_full.tar.xz      # released-v2, a minute
    python tests/embedded.py questions ../shared/data/search                                  # panel of eight data sets
    python tests/embedded.py webshop ../shared/data/webshop                                   # small-v1
    python tests/embedded.py webshop-panels ../shared/data/webshop                            # small-synthetic-v1, small-human-v1

Another copy of the same data gives the same file. All but the first take seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from helpers.panels.alfworld import manifest_rows
from helpers.panels.manifests import build_manifest, slice_rows, write_manifest
from helpers.panels.webshop import released_rows
from helpers.panels.writing import write_panel

from creditflow.envs.webshop.catalogue.stock import find_files
from creditflow.envs.webshop.tasks import RELEASED
from creditflow.envs.wikisearch.slices import SLICES

ASSETS: Final = Path(__file__).resolve().parents[1] / "assets"
HASHES_PER_LINE: Final = 12


def alfworld(archive: Path, assets: Path) -> None:
    """Of every game path, task id, hash of the world, task type and length of the published solution."""
    write_panel(assets / "panels/alfworld/released-v2.json.gz", list(manifest_rows(archive)), spaces=True)


def questions(folder: Path, assets: Path) -> None:
    """Of every question the task id, a hash of the text, data set, split and type."""
    write_panel(assets / f"panels/wikisearch/{SLICES}.json.gz", list(slice_rows(folder)))


def webshop(folder: Path, assets: Path) -> None:
    """Of every one of the thousand products the id and hashes of product and instructions."""
    write_manifest(assets / "manifests/webshop/small-v1.json", build_manifest(find_files(folder)))


def webshop_panels(folder: Path, assets: Path) -> None:
    """Of every goal the task id, the product's id, a hash of the wish and the price limit."""
    for name in RELEASED:
        write_panel(assets / f"panels/webshop/{name}.json.gz", list(released_rows(folder, name)))


WRITERS: Final[dict[str, Callable[[Path, Path], None]]] = {
    writer.__name__.replace("_", "-"): writer for writer in (alfworld, questions, webshop, webshop_panels)
}


def main() -> None:
    """Write one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=WRITERS)
    parser.add_argument("source", type=Path, help="the released data: an archive, a folder or a list")
    parser.add_argument("--assets", type=Path, default=ASSETS, help="folder to write into (default: the embedded ones)")
    args = parser.parse_args()
    WRITERS[args.name](args.source, args.assets)


if __name__ == "__main__":
    main()

"""Write the manifest of WebShop's human instructions, hashes only, from the list of their texts.

    python tests/experiments/manifests/webshop_texts.py ../shared/data/webshop/human_goal_texts.json.gz

A second.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.webshop.catalogue.full import FORMAT, FULL, instruction_text_hash

OUT = Path(__file__).resolve().parents[3] / "assets" / "manifests" / "webshop" / f"{FULL}.json"
PER_LINE = 12


def main() -> None:
    texts, out = parse_source(__doc__, "texts", "JSON list of the texts", OUT)
    hashes = sorted(map(instruction_text_hash, read_json(texts)))
    lines = ["".join(hashes[i : i + PER_LINE]) for i in range(0, len(hashes), PER_LINE)]
    with atomic_writer(out) as file:
        file.write(f'{{"format_version": {FORMAT}, "texts": [\n' + ",\n".join(map(json.dumps, lines)) + "\n]}\n")
    print(f"{out}: {len(hashes)} texts")


if __name__ == "__main__":
    main()

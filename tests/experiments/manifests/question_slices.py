"""Write the manifest of slices of HotpotQA, 2WikiMultiHopQA and MuSiQue from a folder of question files.

    python tests/experiments/manifests/question_slices.py ../shared/data/search

Of every question it stores id, split and two hashes: no text. A second.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.wikisearch.data_check import DATA_SETS, MANIFEST, list_questions, write_slices

OUT = Path(__file__).resolve().parents[3] / "assets" / "manifests" / "wikisearch" / f"{MANIFEST}.json"


def main() -> None:
    folder, out = parse_source(__doc__, "folder", f"folder with NAME.jsonl.gz for NAME in {', '.join(DATA_SETS)}", OUT)
    slices = {name: list_questions(folder / f"{name}.jsonl.gz") for name in DATA_SETS}
    write_slices(out, slices)
    print(f"{out}: " + ", ".join(f"{len(rows)} of {name}" for name, rows in slices.items()))


if __name__ == "__main__":
    main()

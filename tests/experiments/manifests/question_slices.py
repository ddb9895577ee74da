"""Write the manifest of slices of HotpotQA, 2WikiMultiHopQA and MuSiQue from a folder of question files.

    python tests/experiments/manifests/question_slices.py ../shared/data/search

Of every question it stores id, split and two hashes: no text. A second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from creditflow.envs.wikisearch.data_check import DATA_SETS, MANIFEST, list_questions, write_slices

OUT = Path(__file__).resolve().parents[3] / "assets" / "manifests" / "wikisearch" / f"{MANIFEST}.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help=f"folder with NAME.jsonl.gz for NAME in {', '.join(DATA_SETS)}")
    parser.add_argument("--out", type=Path, default=OUT, help="manifest to write (default: the embedded one)")
    args = parser.parse_args()
    slices = {name: list_questions(args.folder / f"{name}.jsonl.gz") for name in DATA_SETS}
    write_slices(args.out, slices)
    print(f"{args.out}: " + ", ".join(f"{len(rows)} of {name}" for name, rows in slices.items()))


if __name__ == "__main__":
    main()

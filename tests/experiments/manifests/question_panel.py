"""Write the panel ``slices-v1`` of questions of eight published data sets from a folder of question files.

    python tests/experiments/manifests/question_panel.py ../shared/data/search

Of every question it stores the task id, a hash of the text, data set, split and type: no text. A second.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from experiments.arguments import parse_source

from creditflow.envs.tasks import write_panel
from creditflow.envs.wikisearch.slices.panel import SLICES, slice_rows

OUT = Path(__file__).resolve().parents[3] / "assets" / "panels" / "wikisearch" / f"{SLICES}.json.gz"


def main() -> None:
    folder, out = parse_source(__doc__, "folder", "folder with a file NAME.jsonl.gz for every data set", OUT)
    rows = list(slice_rows(folder))
    write_panel(out, rows)
    print(f"{out}: {len(rows)} questions")


if __name__ == "__main__":
    main()

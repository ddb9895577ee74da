"""Time to make a viewer page of 10,000 turns, and to open it in headless Chromium (compared with an empty page).

python tests/benchmarks/bench_viewer.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from helpers.servers.browser import CHROMIUM, FLAGS

from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import credit
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn


def rollouts(turns: int, groups: int = 25, size: int = 8) -> list[Group]:
    """Random walks on a 10×10 grid, with a screenful of text per turn."""
    rng = np.random.default_rng(0)
    length = turns // (groups * size)
    out = []
    for g in range(groups):
        members = []
        for i in range(size):
            x, walk = 0, ["s0"]
            for _ in range(length):
                x = (x + int(rng.choice([1, -1, 10, -10]))) % 100
                walk.append(f"s{x}")
            made = tuple(Turn(a, "move", b, observation=f"you see {a}\n" * 8) for a, b in pairwise(walk))
            won = i % 2 == 0
            end: StopReason = "success" if won else "env_limit"
            members.append(Trajectory(f"t{i}", f"g{g}", f"task{g}", made, won, float(won), end, walk[-1]))
        out.append(Group(tuple(members)))
    return out


def opened(page: Path, profile: Path) -> float:
    """Seconds until Chromium has executed the page's scripts and printed its DOM."""
    began = time.perf_counter()
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if page.name == "view.html" and 'data-ready="yes"' not in done.stdout:
        raise SystemExit("the page was not ready")
    return seconds


def main() -> None:
    """Print the results."""
    groups = rollouts(10_000)
    began = time.perf_counter()
    schemes = {name: credit.make(name) for name in ("grpo", "gigpo", "graphgpo", "rewardflow")}
    page = render_page(view_data(groups, schemes, "benchmark"))
    print(f"make: {time.perf_counter() - began:.2f} s, {len(page) / 2**20:.1f} MiB, 10,000 turns")
    if CHROMIUM is None:
        print("open: no Chromium here")
        return
    with tempfile.TemporaryDirectory() as folder:
        view, empty = Path(folder, "view.html"), Path(folder, "empty.html")
        view.write_text(page, encoding="ascii")
        empty.write_text("<p>empty", encoding="ascii")
        opened(empty, Path(folder, "profile"))  # the first start makes the profile
        base = min(opened(empty, Path(folder, "profile")) for _ in range(3))
        full = min(opened(view, Path(folder, "profile")) for _ in range(3))
    print(f"open: {full:.2f} s, an empty page {base:.2f} s, difference {full - base:.2f} s")


if __name__ == "__main__":
    main()

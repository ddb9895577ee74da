"""Time to make a viewer page of 2,000 rollouts (20,000 turns), and to open it in headless Chromium.

python tests/benchmarks/bench_viewer.py [--toy]
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import leave_out, parser_of
from helpers.servers.browser import CHROMIUM, Browser, driven

from creditflow.train.viewer.data import render_page, view_data
from creditflow.wrappers import credit
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn


def rollouts(turns: int, groups: int = 250, size: int = 8) -> list[Group]:
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
            made = tuple(
                Turn(a, "move", b, observation=f"rollout {g}.{i}, turn {t}\n" + f"you see {a}\n" * 8)
                for t, (a, b) in enumerate(pairwise(walk))
            )
            won = i % 2 == 0
            end: StopReason = "success" if won else "env_limit"
            members.append(Trajectory(f"t{i}", f"g{g}", f"task{g}", made, won, float(won), end, walk[-1]))
        out.append(Group(tuple(members)))
    return out


def opened(browser: Browser, page: Path) -> float:
    """Seconds from the navigation to the end of the page's load event, in which its script runs."""
    browser.open(page)
    return float(browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")) / 1000


def main() -> None:
    """Print the results."""
    args = parser_of(__doc__).parse_args()
    groups = rollouts(160, groups=2) if args.toy else rollouts(20_000)
    began = time.perf_counter()
    schemes = {name: credit.make(name) for name in ("grouptd", "grpo", "gigpo", "graphgpo", "rewardflow")}
    page = render_page(view_data(groups, schemes, "benchmark"))
    print(
        f"make: {time.perf_counter() - began:.2f} s, {len(page) / 2**20:.1f} MiB, {sum(len(g.turns) for g in groups):,} turns"
    )
    if CHROMIUM is None:
        leave_out("opening the page", "there is no Chromium here")
        return
    with tempfile.TemporaryDirectory() as folder:
        view = Path(folder, "view.html")
        view.write_text(page, encoding="ascii")
        with driven(Path(folder)) as browser:
            print(f"open: {min(opened(browser, view) for _ in range(1 if args.toy else 3)):.2f} s")


if __name__ == "__main__":
    main()

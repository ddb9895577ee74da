"""Time to assign credit: every scheme in both semantics, compared with the released code and a naive implementation.

Run: ``python tests/benchmarks/bench_credit.py [--toy]``. Prints, for 16 groups of 8 rollouts of 50 turns, the best of
several runs with the groups' arrays built in each run ("whole") and built before ("scheme"); then the growth to 100,000
turns in one process, and the growth with the length of one trajectory.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import parser_of, print_ratio
from helpers.episodes.complete_groups import complete_group, needed_annotations

from creditflow import credit
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

# measured by others on other machines: shown beside ours, never compared by a test
QUOTED = {
    "graphgpo": (0.75, 4610, "released GraphGPO recipe: graph .03 + Dijkstra .006 + step returns .57 + groups .14 s"),
    "rewardflow": (3.74, 16 * 8 * 25, "released RewardFlow: 16 groups x 8 x 25 turns, 3.7 s of it 1000 sweeps"),
}
SEMANTICS: tuple[credit.Semantics, ...] = ("paper", "release")


def make_groups(n_groups: int, size: int, turns: int, *, states: int = 41, seed: int = 0) -> list[Group]:
    """Random walks over about as many states per group as in the measurement of the released code."""
    rng = np.random.default_rng(seed)
    groups = []
    for g in range(n_groups):
        moves = rng.integers(0, states, (size, turns + 1)).tolist()
        wins = (rng.random(size) < 0.4).tolist()
        slips = (rng.random((size, turns)) < 0.05).tolist()
        members = []
        for i, (walk, win, invalid) in enumerate(zip(moves, wins, slips, strict=True)):
            keys = [f"{g}:{k}" for k in walk]
            history = tuple(
                Turn(
                    keys[t],
                    f"go {keys[t + 1]}",
                    keys[t + 1],
                    reward=10.0 * (win and t == turns - 1),
                    parsed=not invalid[t],
                    text_key=keys[t],
                    effective=keys[t] != keys[t + 1],
                )
                for t in range(turns)
            )
            members.append(
                Trajectory(f"{i}", f"{g}", f"{g}", history, win, float(win), "success" if win else "failed", keys[-1])
            )
        groups.append(Group(tuple(members)))
    return groups


def fresh(groups: Sequence[Group]) -> list[Group]:
    """The same groups without cached arrays."""
    return [Group(g.trajectories) for g in groups]


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Wall-clock seconds of the fastest of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def naive_graphgpo(group: Group, discount: float = 0.1, eps: float = 1e-6) -> list[float]:
    """GraphGPO's step advantages row by row, each searching all rows: a direct transcription of the equations."""
    rows = [
        (t.state_key, "goal" if m.success and i == len(m.turns) - 1 else t.next_state_key)
        for m in group.trajectories
        for i, t in enumerate(m.turns)
    ]
    distance = {"goal": 0.0}
    frontier = ["goal"]
    while frontier:  # breadth first, looking through all rows for every node
        node = frontier.pop(0)
        for a, b in rows:
            if b == node and a not in distance:
                distance[a] = distance[node] + 1.0
                frontier.append(a)
    far = max(distance.values()) + 1.0
    returns = [10.0 * discount ** distance.get(b, far) for _, b in rows]
    out = []
    for i, (a, _) in enumerate(rows):
        peers = [returns[j] for j, (other, _) in enumerate(rows) if other == a]
        mean = sum(peers) / len(peers)
        std = (sum((x - mean) ** 2 for x in peers) / (len(peers) - 1)) ** 0.5 if len(peers) > 1 else 0.0
        out.append((returns[i] - mean) / (std + eps) if len(peers) > 1 else 0.0)
    return out


def schemes() -> list[tuple[str, str, credit.Scheme]]:
    """All schemes, in each of their semantics, and the first form of grouptd."""
    return [
        *(
            (name, semantics, credit.make(name, semantics=semantics))
            for name in credit.names(given=())
            for semantics in SEMANTICS
            if semantics in lookup(name).presets
        ),
        ("grouptd_base", "paper", credit.make("grouptd", **VARIANTS["grouptd_base"])),
        ("hgpo, K = 4", "paper", credit.make("hgpo", history_length=4)),
    ]


def make_chain(turns: int, size: int = 2, *, entities: int = 1000) -> Group:
    """Long rollouts that share half of their states, with everything that any scheme reads."""
    rng = np.random.default_rng(0)
    keys = [[f"{t}" if 2 * t < turns else f"{t}.{i}" for t in range(turns + 1)] for i in range(size)]
    named = rng.integers(0, entities, (size, turns + 1)).tolist()
    numbers = rng.uniform(0.1, 0.9, (size, len(needed_annotations()), turns + 1))
    return complete_group(keys, named, numbers, [i == 0 for i in range(size)], known=entities)


def growth(lengths: Sequence[int]) -> None:
    """Print the seconds of every scheme for growing lengths."""
    print("\nseconds for 2 rollouts in one chain of states, turns in all")
    print(f"{'scheme':32}" + "".join(f"{n:>12,}" for n in lengths))
    groups = [make_chain(n // 2) for n in lengths]
    for group in groups:
        _ = group.arrays, group.episodes
    for name in credit.names():
        for semantics in SEMANTICS:
            if semantics not in lookup(name).presets:
                continue
            # PiCA's penalty grows exponentially with the turn
            options = {"penalty": 0.0} if name == "pica" else {}
            scheme = credit.make(name, semantics=semantics, **options)
            took = [seconds(lambda g=g, s=scheme: s.assign(g), 1) for g in groups]  # type: ignore[misc]  # the same
            print(f"{name + ' ' + semantics:32}" + "".join(f"{x:12.3f}" for x in took), flush=True)


def main() -> None:
    """Print the tables."""
    args = parser_of(__doc__).parse_args()
    repeats = 1 if args.toy else 7
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores")

    groups = make_groups(2 if args.toy else 16, 8, 50)
    rows = sum(len(g.turns) for g in groups)
    building = seconds(lambda: [g.arrays for g in fresh(groups)], repeats)
    naive = seconds(lambda: [naive_graphgpo(g) for g in groups], 1 if args.toy else 2)
    print(f"\n{len(groups)} groups x 8 x 50 = {rows} turns; arrays of all groups {building * 1e3:.1f} ms")
    print(f"{'scheme':32}{'whole ms':>10}{'scheme ms':>11}{'ms / 1000 turns':>17}{'naive / whole':>15}")
    whole_times = {}
    for name, semantics, scheme in schemes():
        whole = whole_times[name, semantics] = seconds(lambda s=scheme: s.assign_batch(fresh(groups)), repeats)  # type: ignore[misc]  # a default binds the loop's value
        alone = seconds(lambda s=scheme: s.assign_batch(groups), repeats)  # type: ignore[misc]  # the same
        ratio = f"{naive / whole:.0f}x" if name == "graphgpo" else ""
        print(f"{name + ' ' + semantics:32}{whole * 1e3:10.1f}{alone * 1e3:11.1f}{whole / rows * 1e6:17.2f}{ratio:>15}")
    print(f"naive O(rows^2) GraphGPO, step part only, same run: {naive * 1e3:.0f} ms")
    for name, (quoted, n, source) in QUOTED.items():
        ours = whole_times[name, "release"]
        print(f"quoted: {quoted} s for {n} turns ({source}); ours {ours / rows * n:.3f} s for as many, "
              f"{quoted / (ours / rows * n):.0f}x")  # fmt: skip
    print_ratio(
        "graphgpo, arrays included",
        "the equations row by row in plain Python",
        naive / whole_times["graphgpo", "paper"],
    )
    for name in ("gigpo", "grouptd"):
        faster = whole_times["rewardflow", "paper"] / whole_times[name, "paper"]
        print_ratio(f"{name}, arrays included", "our rewardflow", faster)
    released = credit.make("graphgpo", semantics="release", key="state", invalid_penalty=0.0)
    difference = max(
        np.abs(released.assign(g).diagnostics["step_advantage"] - naive_graphgpo(g)).max() for g in groups[:2]
    )
    print(f"largest difference between our GraphGPO in release semantics and the naive one: {difference:.1e}")

    total = 2_000 if args.toy else 100_000
    print(f"\n{total:,} turns in one process, as groups of 8 x 50")
    many = make_groups(total // 400, 8, 50)
    start = time.perf_counter()
    for g in many:
        _ = g.arrays
    print(f"{'arrays':32}{time.perf_counter() - start:8.2f} s")
    for name, semantics, scheme in schemes():
        took = seconds(lambda s=scheme: s.assign_batch(many), 1)  # type: ignore[misc]  # the same
        print(f"{name + ' ' + semantics:32}{took:8.2f} s")
    growth((100, 200) if args.toy else (1_000, 10_000))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"peak memory {peak / 2**20:.0f} MB")


if __name__ == "__main__":
    main()

"""Time of GroupTD on one group compared with RewardFlow and GiGPO, in one run: 16 rollouts, 288 turns, H 50."""

from time import perf_counter

import numpy as np

from creditflow import credit
from creditflow.wrappers.trajectory import Group, Trajectory, Turn


def random_walks(rng: np.random.Generator, size: int = 16, states: int = 41, turns: int = 18) -> Group:
    """Walks on a ring with two steps, half of them successful."""
    members = []
    for i in range(size):
        at, path = 0, []
        for _ in range(turns):
            step = int(rng.integers(1, 5))
            path.append(Turn(f"s{at}", f"a{step}", f"s{(at + step) % states}"))
            at = (at + step) % states
        success = bool(rng.random() < 0.5)
        end = "success" if success else "env_limit"
        members.append(Trajectory(f"w{i}", "g", "t", tuple(path), success, float(success), end, f"s{at}"))  # type: ignore[arg-type]  # one of the literals
    return Group(tuple(members))


def main() -> None:
    """Print milliseconds per group and ratios to RewardFlow."""
    group = random_walks(np.random.default_rng(0))
    _ = group.arrays
    schemes = {
        "rewardflow": credit.make("rewardflow"),
        "gigpo": credit.make("gigpo"),
        "grouptd": credit.make("grouptd", horizon=50),
        "grouptd stationary": credit.make("grouptd", form="stationary"),
    }
    seconds = {}
    for name, scheme in schemes.items():
        best = float("inf")
        for _ in range(5):
            start = perf_counter()
            for _ in range(20):
                scheme.assign(group)
            best = min(best, (perf_counter() - start) / 20)
        seconds[name] = best
    for name, spent in seconds.items():
        print(f"{name:24} {1e3 * spent:8.3f} ms   {spent / seconds['rewardflow']:6.2f} x rewardflow")


if __name__ == "__main__":
    main()

"""Speed of WebShop: replayed recorded episodes compared with the original implementation, the oracle, and many environments.

The original needs Java, torch and spaCy, and is not run. Its speed of 29 steps per CPU second in text mode was measured on the
machine of the recordings; the ratio refers to that number.

    python tests/benchmarks/bench_webshop.py [--toy] [--shared FOLDER]

Without a folder of recordings and of the released thousand products only the embedded shop is played.
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import leave_out, parser_of, print_ratio, print_speed

from creditflow.envs.webshop.env import WebShopEnv

ORIGINAL_STEPS = 29.0  # per CPU second
SHARED = Path(__file__).resolve().parents[3] / "shared"


def cpu(function, *args):
    """CPU seconds of a call, and its result."""
    start = time.process_time()
    result = function(*args)
    return time.process_time() - start, result


def replay(env, episodes):
    """Repeat recorded episodes; returns the number of steps."""
    steps = 0
    for episode in episodes:
        if "goal" in episode and episode["session"] < len(env.stock.goals):
            env.reset(options={"task": {"goal": episode["session"]}})
            for step in episode["steps"]:
                if env._over:
                    break
                env.step(step["action"])
                steps += 1
    return steps


def wander(env, episodes):
    """Play episodes of arbitrary admissible actions; returns the number of steps."""
    steps = 0
    for seed in range(episodes):
        _, info = env.reset(seed=seed)
        while info["admissible_actions"]:
            actions = info["admissible_actions"]
            _, _, _, _, info = env.step(actions[(seed * 31 + steps * 7) % len(actions)])
            steps += 1
    return steps


def oracle(env, episodes):
    """Play optimal episodes; returns the number of states in which the oracle was called."""
    calls = 0
    for seed in range(episodes):
        env.reset(seed=seed)
        done = False
        while not done:
            snapshot = env.get_state()
            env.oracle.value(snapshot, steps_left=env.max_steps - env.elapsed_steps)
            best = env.oracle.optimal_actions(snapshot)
            calls += 1
            _, _, terminated, truncated, _ = env.step(best[0])
            done = terminated or truncated
    return calls


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Measure, and print one line per result."""
    parser = parser_of(__doc__)
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder of recordings and data (default ../shared)")
    args = parser.parse_args()
    scale = 100 if args.toy else 1  # how many times less than the full size is played
    seconds, env = cpu(WebShopEnv)
    print(f"embedded shop: made in {seconds:.2f} CPU s (import not counted)")
    seconds, steps = cpu(wander, env, 2000 // scale)
    print_speed("WebShop steps, random clicks in the embedded shop", steps / seconds)
    seconds, calls = cpu(oracle, env, 300 // scale)
    print(f"oracle, value and optimal actions: {1000 * seconds / calls:.2f} ms a state, first visits included")
    folder = args.shared / "data" / "webshop"
    if not folder.is_dir():
        leave_out("recordings and the thousand products", f"there is no folder {folder}")
        return
    seconds, env = cpu(lambda: WebShopEnv(data=str(folder), preset="upstream", max_steps=10_000))
    print(f"real thousand: loaded and indexed in {seconds:.2f} CPU s")
    episodes = []
    for path in sorted((args.shared / "conformance" / "webshop").glob("transcripts*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            episodes += [episode for episode in map(json.loads, file) if not episode["human"]]
    episodes = episodes[::scale]
    for mode in ("text", "text_rich"):
        env = WebShopEnv(data=str(folder), preset="upstream", max_steps=10_000, obs_mode=mode)
        env.stock.catalogue._cached_search.cache_clear()
        seconds, steps = cpu(replay, env, episodes)
        rate = steps / seconds
        print(f"recorded episodes, {mode}: {rate:,.0f} steps per CPU second")
        print_ratio(
            f"WebShop steps of recorded episodes, {mode}",
            "the original, recorded (29 per second)",
            rate / ORIGINAL_STEPS,
        )
    queries = list(dict.fromkeys(goal.instruction.lower() for goal in env.stock.goals[: 2000 // scale]))
    seconds, _ = cpu(lambda: [env.stock.catalogue.engine.search(query, 50) for query in queries])
    print(f"search, never cached: {1000 * seconds / len(queries):.3f} ms a query")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    envs = [WebShopEnv(data=str(folder), preset="upstream") for _ in range(1000 // scale)]
    for i, one in enumerate(envs):
        one.reset(seed=i)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    same = len({id(one.stock.catalogue) for one in envs})
    print(
        f"{len(envs):,} environments share {same} catalogue; they add {(after - before) / 1000:.2f} MB to {before / 1024:.0f} MB"
    )
    threads = [threading.Thread(target=wander, args=(one, max(1, 20 // scale))) for one in envs[:8]]
    seconds, _ = cpu(run_all, threads)
    print(f"eight threads over one catalogue: done in {seconds:.2f} CPU s")


if __name__ == "__main__":
    main()

"""Turns per second of a language model without the model: environments, prompts, token ids, records.

  python tests/benchmarks/bench_prompts.py --model models/smollm2 [--before TREE]

--before names a checkout of another commit, which is measured in the same call, alternating; ratios of the fastest rounds are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

CASES: Final[dict[str, tuple[dict[str, Any], str, str, str, int]]] = {
    "sokoban": ({"panel": "easy-v1:train", "max_steps": 8, "symbols": "ascii"}, "around-v1", "bare", "left", 0),
    "alfworld": ({"panel": "standard-v3:valid"}, "think-v1", "think", "<think>a</think><action>look</action>", 2),
    "webshop": ({"panel": "standard-v1:valid"}, "think-v1", "think", "<think>a</think><action>search[red shoes]</action>", 2),
    "wikisearch": ({"panel": "standard-v1:valid"}, "search-v1", "think", "<think>a</think><search>who is a</search>", 2),
}  # fmt: skip
ROUNDS: Final = 3


class Answers:
    """A backend that always gives the same completion."""

    version, context = "0", 0

    def __init__(self, ids: list[int]) -> None:
        self.ids, self.turns = np.array(ids, np.int32), 0

    def generate(self, requests: Any, *_: Any) -> list[Any]:
        """One completion per request."""
        from creditflow.agents.backends.base import Completion

        self.turns += len(requests)
        return [Completion(self.ids, np.zeros(len(self.ids), np.float32)) for _ in requests]


def measure(model: str) -> dict[str, float]:
    """Turns per second in every environment, of the fastest round."""
    from creditflow.agents.backends.base import Sampling
    from creditflow.agents.language_model.pretrained import PromptingConfig, open_tokenizer
    from creditflow.envs.registration import bare_env
    from creditflow.train.rollout.engine import RolloutEngine
    from creditflow.train.rollout.tasks import group_env_factory
    from creditflow.train.settings.schema import EnvConfig

    tokenizer, found = open_tokenizer(model), {}
    for name, (options, prompt, dialect, answer, window) in CASES.items():
        prompting = PromptingConfig(prompt=prompt, dialect=dialect, history="window", window=window)
        engine = RolloutEngine(group_env_factory(EnvConfig(name=name, options=options), 8, texts=True))
        source = bare_env(name, options).tasks
        tasks = [source.get(task_id) for task_id in source.task_ids()[:8]]
        backend = Answers([*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id])
        agent = prompting.agent(backend, tokenizer, Sampling(16), end_ids=())
        speeds = []
        for seed in range(ROUNDS):
            backend.turns, began = 0, time.perf_counter()
            engine.play(agent, tasks, seed=seed)
            speeds.append(backend.turns / (time.perf_counter() - began))
        found[name] = max(speeds)
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder with a tokenizer that has a chat template")
    parser.add_argument("--before", type=Path, help="checkout to compare with")
    parser.add_argument("--json", action="store_true", help="print one line of JSON, of this checkout alone")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure(options.model)))
        return
    trees = {
        "now": Path(__file__).resolve().parents[2],
        **({"before": options.before.resolve()} if options.before else {}),
    }
    best: dict[str, dict[str, float]] = {name: {} for name in trees}
    for _ in range(2):
        for name, tree in trees.items():
            command = [sys.executable, __file__, "--model", options.model, "--json"]
            environment = os.environ | {"PYTHONPATH": str(tree / "src"), "RAYON_NUM_THREADS": "1"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for case, speed in json.loads(done.stdout.splitlines()[-1]).items():
                best[name][case] = max(speed, best[name].get(case, 0.0))
    for case, speed in best["now"].items():
        before = best.get("before", {}).get(case)
        print(f"{case:12} {speed:7.0f} turns/s" + (f"  {speed / before:.2f} times {before:.0f}" if before else ""))


if __name__ == "__main__":
    main()

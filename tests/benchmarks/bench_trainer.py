"""Effect of the trainer's design choices, as ratios within one run; with ``--peer trl`` its speed beside TRL's.

* one row per trajectory compared with one row per turn (the same gradient, append-only history), padded and packed;
* packed compared with padded micro-batches, for rows that share nothing, and for groups that share a long prompt;
* a shared prompt compared with prompts of its length that differ, packed; tokens computed compared with tokens of rows;
* a key-value cache kept over turns compared with recomputing every turn's prompt;
* the fraction of an iteration's time spent on credit, and the largest sampler mismatch (fp32).

  python tests/benchmarks/bench_trainer.py [--toy] [--episodes 32] [--turns 10] [--repeats 3]

``--peer trl``: this trainer and TRL 1.16's ``GRPOTrainer`` on its own path (``environment_factory``) start from one model and do the
same work, token by token: episodes of equal length, one optimiser step of one loss, fp32, one thread. The ratio is of CPU seconds
per iteration, TRL's over ours; its 95 % interval is over pairs of iterations.

  python tests/benchmarks/bench_trainer.py --peer trl [--rows "3 M, 8 turns"] [--out FILE.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import has_torch, leave_out, parser_of, print_ratio

if not has_torch("the trainer"):
    sys.exit()
import torch
from benchmarks.peer.compare import compare, run_part
from benchmarks.peer.work import WORKS
from gpu.rows import rows_with_prompt

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.optimizer import OptimizerConfig, make_optimizer
from creditflow.train.policy.samples import Row
from creditflow.train.policy.update import update_policy
from creditflow.train.run.metrics_log import read_metrics
from creditflow.train.settings.schema import UpdateConfig, load_settings

QUICKSTART = Path(__file__).resolve().parents[2] / "train/configs/quickstart.yaml"

GROUP, RESPONSE = 16, 100  # rows of a group, tokens of its longest response
READ, WRITTEN = 36, 4  # tokens of a turn: the observation of a small board, and a short completion


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median CPU seconds after one warm-up call."""
    times = []
    for _ in range(repeats + 1):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times[1:])


def episodes(count: int, turns: int, *, equal: bool) -> tuple[list[Row], list[Row]]:
    """The same episodes as whole-trajectory rows and as per-turn rows."""
    rng = np.random.default_rng(0)
    whole, parts = [], []
    for i in range(count):
        n = turns if equal else int(rng.integers(1, 2 * turns))
        ids = rng.integers(10, 250, n * (READ + WRITTEN)).astype(np.int32)
        target = np.concatenate([np.arange(READ, READ + WRITTEN) + t * (READ + WRITTEN) for t in range(n)])
        turn = np.repeat(np.arange(n, dtype=np.int32), WRITTEN)
        advantage, logprob = rng.normal(size=len(target)), np.full(len(target), -5.0, np.float32)
        whole.append(Row(ids, target, advantage, logprob, turn, i))
        for t in range(n):
            mine = turn == t
            end = (t + 1) * (READ + WRITTEN)
            parts.append(Row(ids[:end], target[mine], advantage[mine], logprob[mine], turn[mine], i, t))
    return whole, parts


def update_seconds(model: Any, rows: list[Row], repeats: int, **options: Any) -> float:
    """CPU seconds of one update."""
    config = UpdateConfig(**options)
    optimizer = make_optimizer(model, OptimizerConfig(lr=1e-9))
    return seconds(
        lambda: update_policy(
            model, optimizer, rows, OldLogprobs(None), config, aggregation="token_mean", temperature=1.0, lr=1e-9,
            rng=np.random.default_rng(0),
        ),
        repeats,
    )  # fmt: skip


def packing_ratios(model: Any, rows: dict[str, list[Row]], repeats: int, prompt: int) -> dict[str, float]:
    """Ratios of CPU seconds of updates, and of tokens computed to tokens of rows.

    Args:
        model: the policy.
        rows: "whole" trajectories of equal length, the same by turns ("parts"), and "uneven" ones.
        repeats: measured repetitions.
        prompt: tokens of a shared prompt.
    """
    rng = np.random.default_rng(0)
    rows = rows | {
        f"prompts {'shared' if shared else 'apart'}": [
            row
            for group in range(2)
            for row in rows_with_prompt(rng, GROUP, prompt, RESPONSE, shared=shared, first=group * GROUP)
        ]
        for shared in (True, False)
    }
    packed, padded = (
        {name: update_seconds(model, one, repeats, packing=packing, batch_tokens=4096) for name, one in rows.items()}
        for packing in ("packed", "padded")
    )
    apart = packed["prompts shared"] / packed["prompts apart"]
    figures = {
        "per-turn rows / whole trajectories, padded": padded["parts"] / padded["whole"],
        "per-turn rows / whole trajectories, packed": packed["parts"] / packed["whole"],
        "packed / padded, per-turn rows": packed["parts"] / padded["parts"],
        "packed / padded, equal lengths, nothing shared": packed["whole"] / padded["whole"],
        "packed / padded, unequal lengths": packed["uneven"] / padded["uneven"],
        f"packed / padded, groups of {GROUP}, prompts of {prompt}": packed["prompts shared"] / padded["prompts shared"],
        "the same prompt / other prompts of its length, packed": apart,
    }
    for name, one in rows.items():
        sizes = [batch.tokens for batch in batches_of(one, 4096, torch.device("cpu"), "packed")]
        figures[f"tokens computed / tokens of rows, packed, {name}"] = sum(sizes) / sum(map(len, one))
    return figures


def rollout_seconds(model: Any, count: int, turns: int, repeats: int, *, keep: bool) -> float:
    """CPU seconds of batched conversations with or without the cache kept over turns."""
    backend = TransformersBackend(model)

    def play() -> None:
        rng = np.random.default_rng(0)
        ids = [rng.integers(10, 250, READ).astype(np.int32) for _ in range(count)]
        for _ in range(turns):
            if not keep:
                backend.sync()
            requests = [GenerationRequest(i, one, rng.random(WRITTEN)) for i, one in enumerate(ids)]
            completions = backend.generate(requests, Sampling(max_new_tokens=WRITTEN), frozenset())
            ids = [np.concatenate([one, completion.ids, rng.integers(10, 250, READ).astype(np.int32)])
                   for one, completion in zip(ids, completions, strict=True)]  # fmt: skip
        backend.sync()

    return seconds(play, repeats)


def quickstart_shares(config: str, *overrides: str) -> dict[str, float]:
    """A few iterations of the quickstart: the fraction of time for credit and graph, and the sampler mismatch."""
    from creditflow.train.trainer import Trainer

    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(
            config, (f"out={folder}/run", "evaluation.panel=",
                     "evaluation.final_panel=", *overrides)
        )  # fmt: skip
        Trainer(settings).run()
        records = [r for r in read_metrics(Path(folder) / "run" / "metrics.jsonl") if r["kind"] == "iteration"]
    total = sum(r["seconds"] for r in records)
    return {
        "credit_share": sum(r["seconds_credit"] for r in records) / total,
        "graph_share": sum(r["seconds_graph"] for r in records) / total,
        "rollout_share": sum(r["seconds_rollout"] for r in records) / total,
        "sampler_mismatch_max": max(r["sampler_mismatch_max"] for r in records),
    }


def main() -> int:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--episodes", type=int, default=32, help="episodes of an update (default 32)")
    parser.add_argument("--turns", type=int, default=10, help="turns of an episode (default 10)")
    parser.add_argument("--repeats", type=int, default=3, help="measured repetitions (default 3)")
    parser.add_argument("--config", default=str(QUICKSTART), help="settings of the short run")
    parser.add_argument("--peer", choices=["trl"], help="the speed beside another trainer, which must be installed")
    parser.add_argument("--rows", nargs="+", choices=list(WORKS), default=list(WORKS), help="rows of --peer")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/peer.json"), help="JSON file of --peer, which is continued if it exists"
    )
    parser.add_argument("--part", help=argparse.SUPPRESS)  # one run of --peer, in its own process
    args = parser.parse_args()
    if args.part:
        print(json.dumps(run_part(json.loads(args.part))))
        return 0
    if args.peer:
        compare(args.rows, args.repeats, args.out, " ".join(sys.argv))
        return 0
    torch.set_num_threads(1)
    shorter = ["sft.steps=100", "update.iterations=4"]
    if args.toy:
        args.episodes, args.turns, args.repeats = 2, 2, 1
        shorter = ["sft.steps=2", "sft.episodes=8", "update.iterations=1"]
    sizes = ScratchConfig(hidden=128, layers=3, heads=4, kv_heads=2, intermediate=256, vocabulary=320, positions=4096)
    model = build_model(sizes, build_tokenizer(["up down left right"] * 4, sizes), seed=0)
    whole, parts = episodes(args.episodes, args.turns, equal=True)
    uneven, _ = episodes(args.episodes, args.turns, equal=False)
    figures: dict[str, float] = {
        **packing_ratios(
            model, {"whole": whole, "parts": parts, "uneven": uneven}, args.repeats, 20 if args.toy else 400
        ),
        "no cache over turns / cache": rollout_seconds(model, args.episodes, args.turns, args.repeats, keep=False)
        / rollout_seconds(model, args.episodes, args.turns, args.repeats, keep=True),
        **quickstart_shares(args.config, *shorter),
    }
    print(json.dumps({name: round(value, 7) for name, value in figures.items()}, indent=1))
    print_ratio("packed update, unequal lengths", "padded", 1 / figures["packed / padded, unequal lengths"])
    print_ratio(
        "one row per trajectory, packed", "one row per turn", figures["per-turn rows / whole trajectories, packed"]
    )
    print_ratio("sampling with a cache over turns", "without", figures["no cache over turns / cache"])
    leave_out("TRL's trainer", "it takes minutes and TRL's environment: --peer trl")
    return 0


if __name__ == "__main__":
    sys.exit(main())

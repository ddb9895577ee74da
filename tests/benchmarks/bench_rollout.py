"""Seconds of rollouts in lock step over seconds without it, on a served model whose answers take unequal times.

    python tests/benchmarks/bench_rollout.py [--toy] [--episodes 32] [--turns 12] [--mean 0.25] [--sigma 1.0] [--draws 200]

The server is a local one that speaks the OpenAI protocol. No model runs behind it: the latency of an answer is drawn from a
log-normal distribution (mean and sigma of the logarithm as given; at sigma 1 the 99th percentile is ten times the median),
by a hash of the prompt, so that both engines meet the same latencies. These are not measurements of a service. Environments
are real (Sokoban), and so are prompts, tokens and HTTP. Beside the measured times stand the bounds that latencies alone
allow: in lock step the sum over turns of the slowest answer, without it the slowest episode's own answers. The measured
ratio is that of one draw of latencies; the ratio of bounds is also computed for more draws, with the interval of its mean and
the range that holds 95 % of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import has_torch, parser_of, print_ratio

if not has_torch("asynchronous rollouts"):
    sys.exit()
from helpers.servers.openai_server import MODEL, openai_server, toy_choice

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.openai_agent import make_openai_agent
from creditflow.agents.language_model.pretrained import AGENT_FILE, PromptingConfig, open_tokenizer, write_agent_file
from creditflow.train.policy.network.scratch import ScratchConfig, build_tokenizer
from creditflow.train.rollout.asynchronous import AsynchronousEngine
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory, panel_tasks
from creditflow.train.settings.schema import EnvConfig
from creditflow.train.statistics import t_quantile
from creditflow.wrappers.records.group import Group

MOVES = ("up", "down", "left", "right")


def drawn(ids: Sequence[int], draw: int = 0) -> np.random.Generator:
    """The generator of a prompt."""
    digest = blake2b(np.asarray(ids, np.int32).tobytes(), digest_size=8, salt=draw.to_bytes(4, "big")).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def latencies(mean: float, sigma: float, draw: int = 0) -> Callable[[Sequence[int]], float]:
    """Seconds until a prompt is answered."""
    return lambda ids: float(drawn(ids, draw).lognormal(np.log(mean) - sigma**2 / 2, sigma))


def model_of(folder: Path, latency: Callable[[Sequence[int]], float]) -> Callable[[dict[str, Any]], Any]:
    """A model that moves at random; a request is answered when its slowest prompt is."""
    tokenizer = open_tokenizer(folder)
    moves = [[*tokenizer.encode(move, add_special_tokens=False), tokenizer.eos_token_id] for move in MOVES]

    def complete(body: dict[str, Any]) -> Any:
        prompts, n = body["prompt"], body["n"]
        time.sleep(max(map(latency, prompts)))
        choices = [
            toy_choice(p * n + k, prompt, moves[int(drawn(prompt).integers(2**31)) % 4], 1.0)
            for p, prompt in enumerate(prompts)
            for k in range(n)
        ]
        return {"choices": choices}

    return complete


def bounds(groups: Sequence[Group], latency: Callable[[Sequence[int]], float]) -> tuple[float, float]:
    """Seconds that latencies alone take: in lock step, and if every episode waits for its own answers only."""
    episodes = []
    for group in groups:
        for one in group.trajectories:
            assert one.tokens is not None
            mask = one.tokens.mask
            starts = np.flatnonzero(mask & ~np.concatenate([[False], mask[:-1]]))
            episodes.append([latency(one.tokens.ids[:start].tolist()) for start in starts])
    turns = range(max(map(len, episodes)))
    return sum(max(e[t] for e in episodes if t < len(e)) for t in turns), max(map(sum, episodes))


def main() -> int:
    """Print one JSON object."""
    parser = parser_of(__doc__)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--mean", type=float, default=0.25, help="mean latency of an answer, seconds")
    parser.add_argument("--sigma", type=float, default=1.0)
    parser.add_argument(
        "--draws", type=int, default=200, help="draws of latencies for the ratio of bounds (default 200)"
    )
    args = parser.parse_args()
    if args.toy:
        args.episodes, args.turns, args.mean, args.draws = 2, 2, 0.01, 2
    env = EnvConfig(name="sokoban", options={"max_steps": args.turns})
    tasks = panel_tasks(env, "standard-v1:train", args.episodes)
    latency = latencies(args.mean, args.sigma)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer = build_tokenizer([" ".join(MOVES)] * 8, ScratchConfig(vocabulary=300, pattern="[a-z]+"))
        tokenizer.save_pretrained(folder)
        write_agent_file(
            folder / AGENT_FILE, PromptingConfig(prompt="places-v1", dialect="bare"), Sampling(max_new_tokens=3)
        )
        served_model = MODEL | {"root": name, "max_model_len": 16384}
        with openai_server(model_of(folder, latency), [served_model]) as served:
            agent = make_openai_agent(f"{served.url}#toy")
            seconds, played = {}, {}
            for kind in (RolloutEngine, AsynchronousEngine):
                engine = kind(group_env_factory(env, 1))
                engine.play(agent, tasks[:1], seed=0)  # opens what is cached
                began = time.perf_counter()
                played[kind] = engine.play(agent, tasks, seed=1)
                seconds[kind] = time.perf_counter() - began
    in_step, alone = bounds(played[RolloutEngine], latency)
    result: dict[str, Any] = {
        "episodes": len(tasks),
        "turns": sum(len(group.turns) for group in played[RolloutEngine]),
        "groups equal": played[RolloutEngine] == played[AsynchronousEngine],
        "seconds in lock step": seconds[RolloutEngine],
        "seconds without": seconds[AsynchronousEngine],
        "ratio": seconds[RolloutEngine] / seconds[AsynchronousEngine],
        "bound in lock step": in_step,
        "bound without": alone,
        "ratio of bounds": in_step / alone,
    }
    if args.draws > 1:
        pairs = (
            bounds(played[RolloutEngine], latencies(args.mean, args.sigma, draw)) for draw in range(1, args.draws + 1)
        )
        ratios = np.array([one / other for one, other in pairs])
        error = t_quantile(args.draws - 1) * ratios.std(ddof=1) / args.draws**0.5
        result |= {
            "draws": args.draws,
            "ratio of bounds, mean": float(ratios.mean()),
            "interval": [round(float(ratios.mean() + sign * error), 3) for sign in (-1, 1)],
            "95 % of draws": [round(float(one), 3) for one in np.quantile(ratios, [0.025, 0.975])],
        }
    print(json.dumps({key: round(one, 3) if isinstance(one, float) else one for key, one in result.items()}, indent=1))
    print_ratio("asynchronous rollouts of a slow server", "our lock step", result["ratio"])
    return 0 if result["groups equal"] else 1


if __name__ == "__main__":
    sys.exit(main())

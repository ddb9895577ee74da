"""Speed of exact evaluation: states per CPU second on one core with the quickstart's model, by part, beside one state at a
time in the same run; what a larger model would cost.

  python tests/benchmarks/bench_exact_policy.py [--toy] [--model runs/quickstart/model] [--tasks 64]

Without ``--model`` the quickstart's SFT is run first: random weights give every token sequence some probability, so more of them
would be followed than with a trained model.

The cost of a larger model is an estimate, not measured: 2 floating-point operations per parameter and token read, at 20 % of the
989 TFLOP/s that an H200 has in bfloat16 without sparsity. The number of tokens per state is that of the quickstart, measured here,
or ``LONG`` for prompts of a usual tokenizer and text.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.ratios import has_torch, parser_of, print_ratio

GPU_FLOPS, UTILISATION = 989e12, 0.2
LARGE, LONG = 100_000_000, 500
ALONE = 200  # states of the peer, which reads one at a time


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Result and CPU seconds."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def open_agent(model: str, sft_steps: int | None) -> tuple[Any, Any, Any]:
    """Settings of the quickstart, and an agent with its tokenizer: of this folder, or after the quickstart's SFT alone."""
    from creditflow.agents.language_model.pretrained import make_hf_agent, open_tokenizer
    from creditflow.train.settings.schema import load_settings
    from creditflow.train.trainer import Trainer

    config = Path(__file__).parents[2] / "train" / "configs" / "quickstart.yaml"
    shorter = ["update.iterations=0", "evaluation.panel=", "evaluation.final_panel="]
    if sft_steps is not None:
        shorter += [f"sft.steps={sft_steps}", "sft.episodes=8"]
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(config, (*shorter, f"out={folder}/run"))
        if not model:
            Trainer(settings).run()
        path = model or f"{folder}/run/model"
        return settings, make_hf_agent(path, device="cpu"), open_tokenizer(path)


def estimate(tokens: float) -> dict[str, Any]:
    """States per second of a large model on a GPU, by arithmetic alone."""
    return {
        "assumption": f"{UTILISATION:.0%} of {GPU_FLOPS / 1e12:.0f} TFLOP/s, 2 operations per parameter and token",
        **{
            f"states_per_second at {count:.0f} tokens a state": round(GPU_FLOPS * UTILISATION / (2 * LARGE * count))
            for count in (tokens, LONG)
        },
    }


def main() -> int:
    """Measure and print one JSON object."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--model", default="", help="folder of a model trained by the quickstart (default: after its SFT alone)"
    )
    parser.add_argument("--tasks", type=int, default=64, help="number of levels of small-v1:test (default 64)")
    args = parser.parse_args()
    if not has_torch("exact evaluation of a policy"):
        return 0
    import torch

    import creditflow
    from creditflow.train.bench.language_model.evaluate import table_values
    from creditflow.train.bench.language_model.policy import ExactPolicy
    from creditflow.train.bench.language_model.tables import prompt_table
    from creditflow.train.bench.language_model.trie_search import TrieSearch
    from creditflow.train.rollout.tasks import panel_tasks

    torch.set_num_threads(1)
    settings, agent, tokenizer = open_agent(args.model, 2 if args.toy else None)
    env: Any = creditflow.make("sokoban", **settings.env.options).unwrapped
    tasks = panel_tasks(settings.env, "small-v1:test", 1 if args.toy else args.tasks)
    tables, table_seconds = timed(lambda: [prompt_table(agent, env, task) for task in tasks])
    states = sum(table.mdp.size for table in tables)
    policy = ExactPolicy.of_agent(agent, tokenizer, env, tables[0].actions)
    read = [0]

    def counted(self: TrieSearch, ids: Any, cache: Any, **options: Any) -> Any:
        read[0] += ids.numel()
        return reader(self, ids, cache)

    policy.probabilities(tables[:2])
    reader = TrieSearch.read
    with patch.object(TrieSearch, "read", counted):
        sampled, sampled_seconds = timed(lambda: policy.probabilities(tables))
    tokens = read[0] / states
    _, greedy_seconds = timed(lambda: policy.greedy(tables))
    _, value_seconds = timed(lambda: [table_values(t.mdp, p) for t, p in zip(tables, sampled, strict=True)])
    prompts = [prompt for table in tables for prompt in table.prompts]
    alone = prompts[:: max(1, len(prompts) // ALONE)]
    _, alone_seconds = timed(lambda: [policy.rows([prompt]) for prompt in alone])
    print(json.dumps({
        "states": states,
        "parameters": sum(p.numel() for p in policy.model.parameters()),
        "tokens_per_state": round(tokens, 1),
        "unresolved": policy.unresolved,
        "states_per_cpu_second": {
            "tables and prompts": round(states / table_seconds),
            "sampled policy": round(states / sampled_seconds),
            "greedy policy": round(states / greedy_seconds),
            "values": round(states / value_seconds),
            "sampled evaluation, all parts": round(states / (table_seconds + sampled_seconds + value_seconds)),
            "sampled and greedy evaluation": round(
                states / (table_seconds + sampled_seconds + greedy_seconds + 2 * value_seconds)
            ),
            "peer: sampled policy, one state at a time": round(len(alone) / alone_seconds),
        },
        "estimate_100M_parameters_on_an_H200": estimate(tokens),
    }, indent=1))  # fmt: skip
    batched = states / sampled_seconds * alone_seconds / len(alone)
    print_ratio("exact evaluation of a policy", "one state at a time", batched)
    return 0


if __name__ == "__main__":
    sys.exit(main())

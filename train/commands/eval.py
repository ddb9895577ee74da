"""Evaluate a language model on a panel: greedy and sampled success and pass@k, with intervals.

creditflow eval --agent hf:runs/quickstart/model --env sokoban --panel small-v1:test
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.train.commands.options import parse_rewards

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--agent", required=True, metavar="hf:PATH", help="folder or name of a Hugging Face model")
    parser.add_argument("--env", default="sokoban", help="environment (default sokoban)")
    parser.add_argument("--panel", required=True, metavar="NAME:SPLIT", help="tasks to play")
    parser.add_argument("--set", action="append", default=[], metavar="k=v", help="argument of the environment")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="only the first N tasks")
    parser.add_argument("--samples", type=int, default=4, metavar="K", help="sampled episodes per task (default 4)")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the sampled episodes (default 1)")
    parser.add_argument("--max-new-tokens", type=int, default=0, metavar="N", help="longest answer")
    parser.add_argument("--seed", type=int, default=0, help="of the sampled episodes (default 0)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, …")
    parser.add_argument(
        "--reward", action="append", default=[], metavar="NAME", help="also grade transcripts (repeat; search only)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.agents.pretrained import require_torch

    require_torch()
    kind, _, path = args.agent.partition(":")
    if kind != "hf" or not path:
        raise ConfigError(f"eval takes a language model as --agent hf:PATH, got {args.agent!r}")
    from creditflow.agents.pretrained import make_hf_agent
    from creditflow.train.assemble import group_maker, panel_tasks
    from creditflow.train.config import apply_overrides
    from creditflow.train.engine import Arena
    from creditflow.train.evaluation import evaluate
    from creditflow.train.settings import EnvConfig

    env = EnvConfig(name=args.env, options=apply_overrides({}, args.set))
    tasks = panel_tasks(env, args.panel, args.limit)
    agent = make_hf_agent(path, device=args.device)
    result = evaluate(
        Arena(group_maker(env, 1, texts=True)),
        _at(agent, 0.0, args.max_new_tokens),
        _at(agent, args.temperature, args.max_new_tokens) if args.samples else None,
        tasks,
        samples=args.samples,
        seed=args.seed,
        rewards=parse_rewards(args.reward),
    )
    summary: dict[str, Any] = {"agent": args.agent, "env": args.env, "panel": args.panel, **result.summary()}
    print(json.dumps(summary) if args.json else result.line())
    return 0


def _at(agent: Any, temperature: float, longest: int) -> Any:
    """The same model, sampled at another temperature."""
    import copy
    from dataclasses import replace

    other = copy.copy(agent)
    limit = longest or agent.sampling.max_new_tokens
    other.sampling = replace(agent.sampling, temperature=temperature, max_new_tokens=limit)
    return other

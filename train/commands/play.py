"""Play an environment yourself, in the terminal.

Besides the environment's actions: ? (actions), hint (an optimal action), undo, restart, quit.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import OracleLimitError
from creditflow.envs.registration import bare_env
from creditflow.train.arguments.options import add_env_arguments, env_arguments, seed

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_env_arguments(parser)
    parser.add_argument("--task", metavar="TASK_ID", help="id of the task to play (default: one sampled with --seed)")
    parser.add_argument("--seed", type=seed, default=0, help="random seed that samples the task (default 0)")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    env = bare_env(args.env, env_arguments(args))
    options = {"task_id": args.task} if args.task else None
    observation, info = env.reset(seed=args.seed, options=options)
    history: list[str] = []
    print(f"{info['task_id']}  (? lists the actions)")
    done = False
    while not done:
        print(f"\n{observation}\n")
        line = _ask(f"{info['elapsed_steps']}/{env.max_steps} > ")
        if line is None or line == "quit":
            return 0
        if line == "?":
            print("  ".join(info["admissible_actions"]), " | hint undo restart quit")
        elif line == "hint":
            _hint(env)
        elif line == "restart":
            history.clear()
            observation, info = env.reset(seed=args.seed, options=options)
        elif line == "undo":
            if history:
                observation, info = env.set_state(history.pop())
            else:
                print("nothing to undo")
        else:
            history.append(env.get_state())
            observation, reward, terminated, truncated, info = env.step(line)
            done = terminated or truncated
            if info["invalid_reason"]:
                print(f"rejected: {info['invalid_reason']}")
            elif not info["action_effective"]:
                print("nothing changed")
            if reward:
                print(f"reward {reward:g}")
    print(f"\n{observation}\n")
    unsolved = "the step limit" if truncated else "failure"
    end = "success" if info["success"] else unsolved
    print(f"episode ended after {info['elapsed_steps']} steps: {end}, score {info['score']:g}")
    return 0


def _ask(prompt: str) -> str | None:
    """Read a line; None at the end of the input."""
    try:
        return input(prompt) if sys.stdin.isatty() else _echoed(prompt)
    except EOFError:
        return None


def _echoed(prompt: str) -> str:
    line = input()
    print(prompt + line)
    return line


def _hint(env: AgentEnv[Any, Any, Any]) -> None:
    oracle, state = env.oracle, env.get_state()
    try:
        best, distance = oracle.optimal_actions(state), oracle.distance(state)
    except OracleLimitError as error:
        print(error)
        return
    print("success cannot be reached from here" if math.isinf(distance) else f"{best[0]}  ({distance:g} steps to go)")

"""Play an environment yourself, in the terminal.

  creditflow play sokoban
  creditflow play webshop --panel standard-v1:train

Type an action, ? to list the actions, hint for an optimal one, undo, restart or quit. Where the actions are up, down,
left and right, the arrow keys work too.
"""

from __future__ import annotations

import argparse
import codecs
import math
import os
import select
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import OracleLimitError
from creditflow.envs.registration import ENVIRONMENTS, bare_env
from creditflow.train.arguments.options import add_env_settings, add_seed, env_arguments
from creditflow.train.arguments.programs import add_code

__all__ = ["add_arguments", "run"]

ESCAPE_SECONDS: Final = 0.05  # the rest of what a key sends comes within this time; a person's next key does not
# what terminals send for arrow keys, in both of their modes
ARROWS: Final = {
    start + letter: word
    for start in ("\x1b[", "\x1bO")
    for letter, word in zip("ABCD", ("up", "down", "right", "left"), strict=True)
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser,
        "name",
        "environment",
        metavar="ENV",
        nargs="?",
        default="sokoban",
        help=f"environment: {', '.join(ENVIRONMENTS)}, a Gymnasium id, or your own: path/to/file.py:NAME (default sokoban)",
    )
    add_env_settings(parser)
    parser.add_argument("--task", metavar="TASK_ID", help="id of the task to play (default: sampled with --seed)")
    add_seed(parser, "the sampled task")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    env = bare_env(args.name, env_arguments(args))
    options = {"task_id": args.task} if args.task else None
    observation, info = env.reset(seed=args.seed, options=options)
    history: list[str] = []
    print(f"{info['task_id']}  (? lists the actions)")
    done = False
    while not done:
        print(f"\n{observation}\n")
        line = _ask(f"{info['elapsed_steps']}/{env.max_steps} > ", info["admissible_actions"])
        if line is None or line == "quit":
            return 0
        if not line.strip() or not line.isprintable():
            print("that is no action; ? lists the actions")
        elif line == "?":
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


def _ask(prompt: str, actions: Sequence[str]) -> str | None:
    """Read a line, or an arrow key that is among the actions; None at the end of the input."""
    moves = {key: word for key, word in ARROWS.items() if word in actions}
    try:
        line = _typed(prompt, moves) if sys.stdin.isatty() else _echoed(prompt)
    except EOFError:
        return None
    return moves.get(line, line)


def _echoed(prompt: str) -> str:
    line = input()
    print(prompt + line)
    return line


def _typed(prompt: str, moves: Mapping[str, str]) -> str:
    """Read from a terminal: an arrow key at once, anything else as a line that can be edited."""
    import readline
    import termios
    import tty

    if not moves:
        return input(prompt)
    print(prompt, end="", flush=True)
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)  # what was typed meanwhile stays
        first = _key(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    if first.startswith("\x1b"):
        print(moves.get(first, ""))
        return first
    if first == "\n":
        return ""
    if first in ("", "\x04"):  # Ctrl-D
        print()
        raise EOFError
    readline.set_startup_hook(lambda: readline.insert_text(first))
    try:
        return input(f"\r{prompt}")
    finally:
        readline.set_startup_hook(None)


def _key(terminal: int) -> str:
    """What one key sends, or its first character; "" at the end of the input."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    key = ""
    while not key:
        data = os.read(terminal, 1)
        key = decoder.decode(data, final=not data)
        if not data:
            return key
    if key == "\x1b" and select.select([terminal], [], [], ESCAPE_SECONDS)[0]:
        key += os.read(terminal, 8).decode("utf-8", "replace")
    return key


def _hint(env: AgentEnv[Any, Any, Any]) -> None:
    oracle, state = env.oracle, env.get_state()
    try:
        best, distance = oracle.optimal_actions(state), oracle.distance(state)
    except OracleLimitError as error:
        print(error)
        return
    print("success cannot be reached from here" if math.isinf(distance) else f"{best[0]}  ({distance:g} steps to go)")

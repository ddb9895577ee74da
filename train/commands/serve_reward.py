"""Serve a success model: PiCA's released /get_reward, and /success for ``annotate --with success:http://HOST:PORT``.

  creditflow serve-reward --model runs/success/model --port 8001
  creditflow annotate --with success:http://127.0.0.1:8001 log.jsonl --out rated.jsonl
  creditflow annotate --with pica-server:http://127.0.0.1:8001 log.jsonl --out rated.jsonl

/get_reward says hazards and needs a model that was trained with loss.kind=hazard; /success takes any. There is no
password: listen on other addresses than loopback only where everybody may ask.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import listen
from creditflow.train.annotate.success.server import RewardLimits, create_reward_app
from creditflow.train.annotate.success.text import PLACEHOLDER
from creditflow.train.commands.arguments.options import positive

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["add_arguments", "run"]

LIMITS = RewardLimits()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of a success model")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, … (default auto)")
    parser.add_argument("--placeholder", default=PLACEHOLDER, help=f"end of a step in a text (default {PLACEHOLDER})")
    parser.add_argument("--batch-tokens", type=positive, default=16384, help="of a forward pass (default 16384)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; other than loopback, anybody can ask"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="answer to this Host too; * to any (repeat)"
    )
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--max-pending", type=positive, default=LIMITS.pending, help="texts that may wait; then 503")
    parser.add_argument("--max-seconds", type=float, default=LIMITS.seconds, help="seconds for one request; then 504")
    parser.add_argument("--max-body", type=positive, default=LIMITS.body, help="bytes of one request; then 413")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        ConfigError: a wrong option.
        DataError: the folder is no success model.
        MissingExtraError: the extra [serve] or [train] is not installed.
    """
    if not args.placeholder:
        raise ConfigError("--placeholder must not be empty")
    limits = RewardLimits(pending=args.max_pending, seconds=args.max_seconds, body=args.max_body)

    def app() -> Starlette:
        from creditflow.agents.language_model.pretrained import require_torch

        require_torch()
        from creditflow.train.annotate.success.rater import LocalRater

        rater = LocalRater(args.model, device=args.device, placeholder=args.placeholder, batch_tokens=args.batch_tokens)
        return create_reward_app(rater, limits=limits, hosts=args.allow_host)

    listen(app, args.host, args.port, "reward", seconds=limits.seconds)
    return 0

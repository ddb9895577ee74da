"""Serve a success model: PiCA's released /get_reward, and /success for ``annotate --with success:http://HOST:PORT``.

  creditflow serve-reward --model runs/success/model --port 8001
  creditflow annotate --with success:http://127.0.0.1:8001 log.jsonl --out rated.jsonl
  creditflow annotate --with pica-server:http://127.0.0.1:8001 log.jsonl --out rated.jsonl

/get_reward returns hazards and needs a model trained with loss.kind=hazard; /success works with any success model. There
is no authentication: listen on addresses other than loopback only if anyone on the network may send requests.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from creditflow.envs.errors import ConfigError
from creditflow.envs.http import listen
from creditflow.train.annotate.success.serving.released_format import PLACEHOLDER
from creditflow.train.annotate.success.serving.request_bodies import RewardLimits
from creditflow.train.annotate.success.serving.server import create_reward_app
from creditflow.train.arguments.options import positive
from creditflow.train.arguments.servers import add_server_arguments

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["add_arguments", "run"]

LIMITS = RewardLimits()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--model", required=True, metavar="DIR", help="folder of a success model")
    parser.add_argument(
        "--device", default="auto", help="device that runs the model: auto, cpu, cuda, … (default auto)"
    )
    parser.add_argument(
        "--placeholder", default=PLACEHOLDER, help=f"marker of the end of a turn in a text (default {PLACEHOLDER})"
    )
    parser.add_argument(
        "--batch-tokens", type=positive, default=16384, help="token budget of a forward pass (default 16384)"
    )
    add_server_arguments(parser, LIMITS, port=8001, queued="texts")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        ConfigError: a wrong option.
        DataError: the folder is not a success model.
        MissingExtraError: the extra [serve] or [train] is not installed.
    """
    if not args.placeholder:
        raise ConfigError("--placeholder must not be empty")
    limits = RewardLimits(pending=args.max_pending, seconds=args.max_seconds, body=args.max_body)

    def app() -> Starlette:
        from creditflow.agents.language_model.pretrained import require_torch

        require_torch()
        from creditflow.train.annotate.success.serving.rater import LocalRater

        rater = LocalRater(args.model, device=args.device, placeholder=args.placeholder, batch_tokens=args.batch_tokens)
        return create_reward_app(rater, limits=limits, hosts=args.allow_host)

    listen(app, args.host, args.port, "reward", key_variable=args.key_variable)
    return 0

"""``creditflow serve-search``: serve a corpus, or the fictional encyclopedia, to search agents."""

from __future__ import annotations

import argparse

from creditflow.envs.service import listen
from creditflow.envs.wikisearch.local import LocalRetriever, open_corpus
from creditflow.envs.wikisearch.request_bodies import ServerLimits
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES, DEFAULT_SEED, encyclopedia

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--corpus", help="passage file (JSON lines, .gz or plain) or index folder; default: the fictional encyclopedia"
    )
    parser.add_argument("--articles", type=int, default=DEFAULT_ARTICLES, help="size of the fictional encyclopedia")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="seed of the fictional encyclopedia")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; other than loopback, anybody can search"
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--topk", type=int, default=3, help="passages a query when a request names no number")
    parser.add_argument("--dialect", default="both", choices=("both", "search_r1", "rewardflow"))
    parser.add_argument("--max-pending", type=int, default=1024, help="queries that may wait; more are answered 503")
    parser.add_argument("--max-seconds", type=float, default=30.0, help="seconds for one request; then 504")
    parser.add_argument("--max-body", type=int, default=1_000_000, help="bytes of one request; then 413")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        ConfigError: a wrong option.
        DataError: the corpus is malformed.
        MissingExtraError: the extra [serve] is not installed.
    """
    from creditflow.envs.wikisearch.server import create_app

    limits = ServerLimits(pending=args.max_pending, seconds=args.max_seconds, body=args.max_body)
    listen(
        lambda: create_app(_engine(args), topk=args.topk, dialect=args.dialect, limits=limits),
        args.host,
        args.port,
        "search",
    )
    return 0


def _engine(args: argparse.Namespace) -> LocalRetriever:
    return open_corpus(args.corpus) if args.corpus else encyclopedia(args.seed, args.articles).retriever

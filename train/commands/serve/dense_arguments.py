"""Arguments of an index of vectors: the encoder and how an index is built from it."""

from __future__ import annotations

import argparse
from typing import Any

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.encoding.settings import POOLINGS
from creditflow.envs.text.vectors.shards import PRECISIONS
from creditflow.envs.wikisearch.retrieval.engines.base import ENCODED
from creditflow.envs.wikisearch.retrieval.engines.dense_options import LEXICAL, DenseOptions
from creditflow.train.arguments.outputs import add_input

__all__ = ["add_dense_arguments", "build_options", "dense_options"]

_BUILDS = ("pooling", "query_prefix", "passage_prefix", "max_tokens", "normalise", "precision", "approximate", "lists",
           "lexical", "batch")  # fmt: skip


def add_dense_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of the engines dense and hybrid."""
    add_input(
        parser, "--encoder", help="dense, hybrid: encoder folder (safetensors); searching needs the one of the build"
    )
    build = parser.add_argument_group("building an index for dense or hybrid; the index remembers them")
    build.add_argument("--pooling", choices=POOLINGS, help="default: what the encoder's folder says, else mean")
    build.add_argument("--query-prefix", metavar="TEXT", help="text before queries; E5: 'query: '")
    build.add_argument("--passage-prefix", metavar="TEXT", help="text before passages; E5: 'passage: '")
    build.add_argument("--max-tokens", type=int, metavar="N", help="longer texts are truncated (Search-R1: 256)")
    build.add_argument(
        "--normalise", action=argparse.BooleanOptionalAction, default=None, help="scale vectors to length 1"
    )
    build.add_argument("--precision", choices=tuple(PRECISIONS), help="dtype of the stored vectors")
    build.add_argument("--approximate", metavar="CODES", help="also build an approximate index: pqM (M bytes) or sq8")
    build.add_argument("--lists", type=int, metavar="N", help="inverted lists of it (default about √passages)")
    build.add_argument("--lexical", choices=LEXICAL, help="hybrid: the engine fused with the vectors (default bm25)")
    build.add_argument("--batch", type=int, metavar="N", help="passages encoded together (default 32)")
    parser.add_argument(
        "--probes",
        type=int,
        default=0,
        metavar="N",
        help="lists of an approximate index searched per query (default 64)",
    )
    parser.add_argument("--device", default="auto", help="where texts are encoded (default: a GPU if there is one)")


def build_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a build that are given; an index that is there already has those that it was built with."""
    return {name: value for name in _BUILDS if (value := getattr(args, name)) is not None}


def dense_options(args: argparse.Namespace, engine: str) -> DenseOptions | None:
    """Options of a build, or None for the other engines.

    Raises:
        ConfigError: an encoder is missing, or options are given to an engine that has none of them.
    """
    options = build_options(args)
    if engine not in ENCODED:
        searched = {"encoder": args.encoder, "probes": args.probes, "device": args.device != "auto"}
        if named := [*(name for name, value in searched.items() if value), *options]:
            raise ConfigError(
                f"--{named[0].replace('_', '-')} is for the engines {' and '.join(ENCODED)}, this is {engine}"
            )
        return None
    if not args.encoder:
        raise ConfigError(f"the engine {engine} needs --encoder FOLDER")
    return DenseOptions(encoder=args.encoder, device=args.device, **options)

"""Build and serve an index of a corpus, or of the fictional encyclopedia, to search agents.

  creditflow serve search                                                            the fictional encyclopedia
  creditflow serve search --corpus wiki.jsonl                                        BM25 in memory
  creditflow serve search --corpus wiki.jsonl --index wiki.idx --engine lucene       built if it does not exist, then served
  creditflow serve search --index wiki.idx                                           opened with the engine it was built for

Lucene trusts its index folders, so serve only folders from sources whose programs you would run. Checksums detect
damage, not manipulation. Passage files may come from any source.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.checksummed_folder import belongs_to_checksummed_folder
from creditflow.envs.http import listen
from creditflow.envs.reading.failures import naming
from creditflow.envs.wikisearch.retrieval.base import ENGINES, read_passages
from creditflow.envs.wikisearch.retrieval.engines.dense_index import DenseOptions
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.server import ServerLimits
from creditflow.envs.wikisearch.retrieval.store import open_engine, write_store
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES, DEFAULT_SEED, load_encyclopedia
from creditflow.train.arguments.options import seed
from creditflow.train.arguments.outputs import Output, add_input, add_output
from creditflow.train.commands.serve.arguments import add_server_arguments
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.settings.reading import read_dataclass

__all__ = ["add_arguments", "run"]

LIMITS = ServerLimits()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_input(
        parser,
        "--corpus",
        help="passage file (JSON lines, .gz or plain) or index folder; default: the fictional encyclopedia",
    )
    add_output(
        parser,
        "--index",
        Output(kind="folder", owned=belongs_to_checksummed_folder, only_with="build_only"),
        help="index folder to open, or to build from --corpus if it does not exist",
    )
    parser.add_argument(
        "--engine",
        default="auto",
        choices=("auto", *ENGINES),
        help="search engine (default: that of the index, otherwise bm25)",
    )
    parser.add_argument(
        "--build-only", action="store_true", help="build --index and exit; --force replaces an existing one"
    )
    parser.add_argument("--memory", default="", help="memory limit for Java, such as 512m or 4g")
    parser.add_argument(
        "--threads", type=int, default=1, help="number of threads for a batch of queries (not for bm25; default 1)"
    )
    add_dense_arguments(parser)
    parser.add_argument(
        "--articles", type=int, default=DEFAULT_ARTICLES, help="number of articles of the fictional encyclopedia"
    )
    parser.add_argument("--seed", type=seed, default=DEFAULT_SEED, help="seed of the fictional encyclopedia")
    parser.add_argument("--topk", type=int, default=3, help="passages per query if a request does not say (default 3)")
    add_server_arguments(
        parser,
        f"pending={LIMITS.pending} queries (more get status 503), seconds={LIMITS.seconds:g} a request (504), body={LIMITS.body} bytes (413)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted, or with ``--build-only`` until the index is built.

    Raises:
        ConfigError: a wrong option.
        DataError: the corpus or index is malformed.
        MissingExtraError: the extra [serve] or the engine's is not installed.
    """
    if args.build_only:
        _build(args)
        return 0
    from creditflow.envs.wikisearch.retrieval.server import create_app

    limits = read_dataclass(ServerLimits, apply_overrides({}, args.limit), "--limit")
    listen(lambda: create_app(_engine(args), topk=args.topk, limits=limits), args.port, "search")
    return 0


def _build(args: argparse.Namespace) -> None:
    """Build the index folder from the passage file."""
    if not (args.corpus and args.index):
        raise ConfigError("building an index needs both --corpus FILE and --index FOLDER")
    engine = "bm25" if args.engine == "auto" else args.engine
    dense = dense_options(args, engine)
    quiet = not sys.stderr.isatty()
    with naming(args.corpus), tqdm(read_passages(args.corpus), unit=" passages", disable=quiet) as passages:
        write_store(args.index, passages, engine, args.memory, replace=args.build_only, dense=dense)
    print(f"{args.index}: built for {engine}", file=sys.stderr)


def _engine(args: argparse.Namespace) -> LocalRetriever:
    if not (args.corpus or args.index):
        if args.engine not in ("auto", "bm25") or args.memory or args.threads != 1:
            raise ConfigError(
                "the fictional encyclopedia is searched with bm25; other engines need --corpus or --index"
            )
        dense_options(args, "bm25")
        return load_encyclopedia(args.seed, args.articles).retriever
    corpus = args.corpus or ""
    if args.index and args.corpus and not Path(args.index).exists():
        _build(args)
        corpus = ""  # it has just been indexed
    elif args.build:
        raise ConfigError("--build is for building an index; an existing index keeps the settings it was built with")
    return open_engine(
        corpus=corpus,
        index=args.index or "",
        engine=args.engine,
        memory=args.memory,
        threads=args.threads,
        encoder=args.encoder or "",
        device=args.device,
    )


def add_dense_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of the engine dense."""
    add_input(
        parser, "--encoder", help="dense: encoder folder (safetensors); search with the encoder that built the index"
    )
    parser.add_argument(
        "--build",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="dense: how to build the index, which stores it (repeatable): pooling, query_prefix (E5: 'query_prefix=query: '), passage_prefix, "
        "max_tokens (Search-R1: 256), normalise, precision, batch",
    )
    parser.add_argument("--device", default="auto", help="device that encodes texts (default: a GPU if there is one)")


def dense_options(args: argparse.Namespace, engine: str) -> DenseOptions | None:
    """Options of a build, or None for the other engines.

    Raises:
        ConfigError: an encoder is missing, or options are given to an engine that has none of them.
    """
    if engine != "dense":
        searched = {"build": args.build, "encoder": args.encoder, "device": args.device != "auto"}
        if named := [name for name, value in searched.items() if value]:
            raise ConfigError(f"--{named[0]} is for the engine dense, this is {engine}")
        return None
    if not args.encoder:
        raise ConfigError(f"the engine {engine} needs --encoder FOLDER")
    options = {"encoder": args.encoder, "device": args.device, **apply_overrides({}, args.build)}
    return read_dataclass(DenseOptions, options, "--build")

"""Build and serve an index of a corpus, or of the fictional encyclopedia, to search agents.

  creditflow serve search                                                            the fictional encyclopedia
  creditflow serve search --corpus wiki.jsonl                                        BM25 in memory
  creditflow serve search --corpus wiki.jsonl --index wiki.idx --engine lucene       built if it does not exist, then served
  creditflow serve search --index wiki.idx                                           opened with the engine it was built for
  creditflow serve search --index bm25/ [--corpus wiki.jsonl]                        a Lucene index of Anserini or pyserini
  creditflow serve search --index wikipedia-dpr-100w --engine lucene                 one of pyserini's prebuilt indexes

Index folders of the engine lucene are opened by Lucene, which trusts them: serve only folders from
sources whose programs you would run. Checksums detect damage, not manipulation. Passage files may come from any source.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.checksummed_folder import belongs_to_checksummed_folder
from creditflow.envs.http import listen
from creditflow.envs.reading.failures import naming
from creditflow.envs.text.encoding.settings import POOLINGS
from creditflow.envs.text.vectors.shards import PRECISIONS
from creditflow.envs.wikisearch.retrieval.documents import read_passages
from creditflow.envs.wikisearch.retrieval.engines.base import ENGINES
from creditflow.envs.wikisearch.retrieval.engines.dense_options import DenseOptions
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.opening import open_engine
from creditflow.envs.wikisearch.retrieval.server import ServerLimits
from creditflow.envs.wikisearch.retrieval.store import write_store
from creditflow.envs.wikisearch.world.encyclopedia import DEFAULT_ARTICLES, DEFAULT_SEED, load_encyclopedia
from creditflow.train.arguments.options import positive, seed
from creditflow.train.arguments.outputs import Output, add_input, add_output
from creditflow.train.commands.serve.arguments import add_server_arguments

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
        parser, "--index", Output(kind="folder", owned=belongs_to_checksummed_folder, only_with="build_only"),
        help="index folder: opened, or built from --corpus if there is none yet; or a Lucene index, or the name of a prebuilt one of pyserini",
    )  # fmt: skip
    parser.add_argument(
        "--engine",
        default="auto",
        choices=("auto", *ENGINES),
        help="search engine (default: that of the index, otherwise bm25)",
    )
    parser.add_argument(
        "--build-only", action="store_true", help="build --index and exit; --force replaces an existing one"
    )
    parser.add_argument("--memory", default="", help="memory limit of Java, such as 512m or 4g")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="number of threads that search a batch of queries (all but bm25; default 1)",
    )
    add_dense_arguments(parser)
    parser.add_argument(
        "--articles", type=int, default=DEFAULT_ARTICLES, help="number of articles of the fictional encyclopedia"
    )
    parser.add_argument("--seed", type=seed, default=DEFAULT_SEED, help="seed of the fictional encyclopedia")
    parser.add_argument(
        "--topk", type=int, default=3, help="passages per query when a request does not set it (default 3)"
    )
    add_server_arguments(parser)
    parser.add_argument(
        "--max-pending", type=positive, default=LIMITS.pending,
        help=f"maximum number of queued queries; more get status 503 (default {LIMITS.pending})",
    )  # fmt: skip
    parser.add_argument(
        "--max-seconds", type=float, default=LIMITS.seconds,
        help=f"time limit of a request in seconds; then status 504 (default {LIMITS.seconds:g})",
    )  # fmt: skip
    parser.add_argument(
        "--max-body", type=positive, default=LIMITS.body,
        help=f"maximum size of a request in bytes; larger ones get status 413 (default {LIMITS.body})",
    )  # fmt: skip


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

    limits = ServerLimits(pending=args.max_pending, seconds=args.max_seconds, body=args.max_body)
    listen(
        lambda: create_app(_engine(args), topk=args.topk, limits=limits, hosts=args.allow_host),
        args.host,
        args.port,
        "search",
        key_variable=args.key_variable,
    )
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
    elif options := build_options(args):
        raise ConfigError(
            f"--{next(iter(options)).replace('_', '-')} is for building an index; an existing index keeps the settings it was built with"
        )
    return open_engine(
        corpus=corpus, index=args.index or "", engine=args.engine, memory=args.memory, threads=args.threads,
        encoder=args.encoder or "", probes=args.probes, device=args.device,
    )  # fmt: skip


_BUILDS = ("pooling", "query_prefix", "passage_prefix", "max_tokens", "normalise", "precision", "approximate", "lists",
           "batch")  # fmt: skip


def add_dense_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of the engine dense."""
    add_input(parser, "--encoder", help="dense: encoder folder (safetensors); searching needs the one of the build")
    build = parser.add_argument_group("building an index for dense; the index remembers them")
    build.add_argument("--pooling", choices=POOLINGS, help="default: that of the encoder's folder, otherwise mean")
    build.add_argument("--query-prefix", metavar="TEXT", help="text before queries; E5: 'query: '")
    build.add_argument("--passage-prefix", metavar="TEXT", help="text before passages; E5: 'passage: '")
    build.add_argument("--max-tokens", type=int, metavar="N", help="longer texts are truncated (Search-R1: 256)")
    build.add_argument(
        "--normalise", action=argparse.BooleanOptionalAction, default=None, help="scale vectors to length 1"
    )
    build.add_argument("--precision", choices=tuple(PRECISIONS), help="dtype of the stored vectors")
    build.add_argument("--approximate", metavar="CODES", help="also build an approximate index: pqM (M bytes) or sq8")
    build.add_argument("--lists", type=int, metavar="N", help="inverted lists of it (default about √passages)")
    build.add_argument("--batch", type=int, metavar="N", help="passages encoded together (default 32)")
    parser.add_argument(
        "--probes",
        type=int,
        default=0,
        metavar="N",
        help="lists of an approximate index searched per query (default 64)",
    )
    parser.add_argument("--device", default="auto", help="device that encodes texts (default: a GPU if there is one)")


def build_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a build that are given; an index that is there already has those that it was built with."""
    return {name: value for name in _BUILDS if (value := getattr(args, name)) is not None}


def dense_options(args: argparse.Namespace, engine: str) -> DenseOptions | None:
    """Options of a build, or None for the other engines.

    Raises:
        ConfigError: an encoder is missing, or options are given to an engine that has none of them.
    """
    options = build_options(args)
    if engine != "dense":
        searched = {"encoder": args.encoder, "probes": args.probes, "device": args.device != "auto"}
        if named := [*(name for name, value in searched.items() if value), *options]:
            raise ConfigError(f"--{named[0].replace('_', '-')} is for the engine dense, this is {engine}")
        return None
    if not args.encoder:
        raise ConfigError(f"the engine {engine} needs --encoder FOLDER")
    return DenseOptions(encoder=args.encoder, device=args.device, **options)

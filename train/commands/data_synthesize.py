"""Arguments of ``data synthesize``, and its run."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from creditflow.agents.language_model.openai_agent import KEY_VARIABLE, parse_served
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.opening import open_corpus
from creditflow.envs.wikisearch.synthesis.difficulty import difficulty_of
from creditflow.envs.wikisearch.synthesis.walks import RECIPES
from creditflow.envs.wikisearch.synthesis.writer import ModelWriter
from creditflow.train.arguments.options import positive, seed
from creditflow.train.arguments.outputs import Output, add_input, add_output
from creditflow.train.synthesis.build import provenance_of, synthesize
from creditflow.train.synthesis.settings import TEMPLATES, SynthesisSettings
from creditflow.train.synthesis.yields import Yield

__all__ = ["add_synthesize_arguments", "run_synthesize"]


def add_synthesize_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments."""
    defaults = SynthesisSettings(limit=1)
    add_input(
        parser, "--corpus", required=True, metavar="PATH", help="passage file (.jsonl, .jsonl.gz) or index folder"
    )
    parser.add_argument("--limit", type=positive, required=True, metavar="N", help="number of questions wanted")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="random seed (default 0)")
    parser.add_argument(
        "--recipe",
        default=",".join(RECIPES),
        metavar="NAMES",
        help=f"comma-separated recipes (default {','.join(RECIPES)})",
    )
    parser.add_argument(
        "--hops", type=_hops, default=defaults.hops, metavar="A-B", help="shortest and longest chain (default 2-3)"
    )
    parser.add_argument(
        "--top-k", type=positive, default=defaults.top_k, metavar="K",
        help=f"results of a search within which every passage must be found (default {defaults.top_k})",
    )  # fmt: skip
    parser.add_argument(
        "--attempts", type=positive, default=defaults.attempts, metavar="N",
        help=f"candidates tried for each question wanted (default {defaults.attempts})",
    )  # fmt: skip
    parser.add_argument(
        "--max-passages", type=positive, default=defaults.max_passages, metavar="N",
        help=f"maximum number of passages to read; of a larger corpus, a range is read (default {defaults.max_passages})",
    )  # fmt: skip
    parser.add_argument(
        "--writer", default=TEMPLATES, metavar="WRITER",
        help="what words the questions: templates (default), or openai:URL#MODEL, which also verifies them",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=_seconds, default=120.0, metavar="S", help="time limit of a reply in seconds (default 120)"
    )
    parser.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="number of parallel requests (default 1)"
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue an interrupted synthesis with the same settings"
    )
    parser.add_argument("--json", action="store_true", help="print the yield as JSON")
    add_output(
        parser, "--out", Output(grows=True, also=provenance_of), required=True, metavar="FILE",
        help="question file to write, .jsonl or .jsonl.gz; its provenance is written next to it",
    )  # fmt: skip


def _hops(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a number or two, such as 2-3, got {short_repr(text)}")
    return int(first), int(last or first)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds > 0, got {short_repr(text)}")
    return seconds


def run_synthesize(args: argparse.Namespace) -> int:
    """Write the questions and print the yield."""
    settings = SynthesisSettings(
        limit=args.limit, seed=args.seed, recipes=tuple(args.recipe.split(",")), hops=args.hops, top_k=args.top_k,
        attempts=args.attempts, max_passages=args.max_passages, writer=args.writer,
    )  # fmt: skip
    if args.out.removesuffix(".gz").endswith(".csv"):
        raise ConfigError(
            f"questions are written as JSON lines, and {args.out} would be read as a table: name it .jsonl"
        )
    served = _served(args.writer)
    retriever = open_corpus(args.corpus)
    writer = None if served is None else ModelWriter(
        retriever, *served, key_variable=KEY_VARIABLE, timeout=args.timeout
    )  # fmt: skip
    outcome, graph = synthesize(
        retriever, settings, Path(args.out), writer=writer, workers=args.workers, resume=args.resume
    )
    document = summary_of(outcome, retriever)
    if graph is not None:
        document["graph"] = {
            "passages": len(graph.mention_starts) - 1, "names": len(graph.nodes), "statements": len(graph.statements)
        }  # fmt: skip
    print(json.dumps(document, indent=1, allow_nan=False) if args.json else _text(args.out, document))
    return 0


def _served(writer: str) -> tuple[str, str] | None:
    name, _, argument = writer.partition(":")
    if name == "openai":
        url, model, _ = parse_served(argument)
        return url, model
    if writer != TEMPLATES:
        raise ConfigError(f"a writer is templates or openai:URL#MODEL, got {short_repr(writer)}")
    return None


def summary_of(outcome: Yield, retriever: LocalRetriever) -> dict[str, Any]:
    """The yield as JSON values: questions by kind, rejected candidates by recipe and reason, difficulty."""
    reasons: dict[str, dict[str, int]] = {recipe: {} for recipe in outcome.settings.recipes}
    for (recipe, reason), count in sorted(outcome.reasons.items()):
        reasons[recipe][reason] = count
    return {
        "questions": len(outcome.questions), "wanted": outcome.settings.limit, "candidates": outcome.candidates,
        "kinds": dict(sorted(Counter(question.kind for question in outcome.questions).items())),
        "relations": dict(sorted(Counter(question.edges[-1][1] for question in outcome.questions).items())),
        "rejected": reasons,
        "difficulty": difficulty_of(retriever, outcome.questions, outcome.settings.top_k),
    }  # fmt: skip


def _text(out: str, document: dict[str, Any]) -> str:
    lines = [
        f"{out}: {document['questions']} questions of {document['wanted']} wanted, from {document['candidates']} candidates",
        "  kinds: " + ", ".join(f"{name} {count}" for name, count in document["kinds"].items()),
    ]
    for recipe, reasons in document["rejected"].items():
        lines.append(f"  rejected, {recipe}: " + ", ".join(f"{reason} {count}" for reason, count in reasons.items()))
    lines.append("  difficulty: " + ", ".join(f"{name} {value:g}" for name, value in document["difficulty"].items()))
    return "\n".join(lines)

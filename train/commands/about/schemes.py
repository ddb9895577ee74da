"""List the credit schemes, or show a scheme's reference card: needs, properties, cost, results, and when it fails.

  creditflow schemes
  creditflow schemes gigpo
  creditflow schemes rtmc --json
  creditflow schemes --all --out cards
  creditflow schemes path/to/file.py:NAME

The card is generated when the command runs. The scheme is checked on random groups, and the results come from stored runs of the
benchmark, which the package ships with their commands and commits. --all takes about half a minute.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from creditflow.envs.errors import ConfigError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.arguments.outputs import Output, add_output
from creditflow.train.arguments.plugins import add_code
from creditflow.wrappers import credit

__all__ = ["add_arguments", "run"]

PAGE = "SCHEMES.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser, "name", "scheme", nargs="?", default="", metavar="NAME", help=f"one of: {', '.join(credit.names())}"
    )
    parser.add_argument("--all", action="store_true", help="the cards of all schemes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--measure-cost", action="store_true", help="measure the cost on this machine instead of showing the stored one"
    )
    add_output(parser, "--out", Output(kind="folder"), metavar="DIR", help=f"with --all, write DIR/{PAGE}")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.train.cards.card import make_card
    from creditflow.train.cards.figures import shipped
    from creditflow.train.cards.page import card_text, cards_page, overview
    from creditflow.train.rollout.plugins import plugins_text
    from creditflow.train.text_table import text_table
    from creditflow.wrappers.credit.registry import SCHEMES

    if bool(args.name) and args.all:
        raise ConfigError("give the name of a scheme or --all, not both")
    if args.measure_cost and not (args.name or args.all):
        raise ConfigError("--measure-cost needs the name of a scheme or --all; the list shows stored costs")
    if args.out and not args.all:
        raise ConfigError(f"--out writes the page of all schemes: add --all, or leave out --out {args.out}")
    figures = shipped()
    names = list(credit.names()) if args.all else list(filter(None, [args.name]))
    cards = [make_card(name, figures, measure_cost=args.measure_cost) for name in names]
    if not names:
        plugins = SCHEMES.rows()
        of_plugins = {row["name"] for row in plugins}
        rows = overview(figures, [name for name in credit.names() if name not in of_plugins])
        table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]] + plugins
        print(
            json.dumps(table, indent=1, ensure_ascii=False) if args.json else text_table(rows) + plugins_text(plugins)
        )
    elif args.json:
        data = [card.to_json() for card in cards]
        print(json.dumps(data if args.all else data[0], indent=1, ensure_ascii=False, allow_nan=False))
    elif not args.out:
        print("\n\n\n".join(map(card_text, cards)))
    if args.out:
        Path(args.out).mkdir(parents=True, exist_ok=True)
        with atomic_writer(Path(args.out) / PAGE, encoding="utf-8") as stream:
            stream.write(cards_page(cards, figures))
    return 0

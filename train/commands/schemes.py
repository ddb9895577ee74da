"""List the credit schemes, or show a scheme's card: formula, needs, properties, result, and when it fails.

  creditflow schemes
  creditflow schemes gigpo
  creditflow schemes gigpo --json
  creditflow schemes path/to/file.py:NAME

The properties are checked on random groups as the command runs. The result comes from the 96 settings of
tests/evidence/settings.
"""

from __future__ import annotations

import argparse
import json

from creditflow.envs.errors import ConfigError
from creditflow.train.arguments.outputs import add_json
from creditflow.train.arguments.programs import add_code
from creditflow.wrappers import credit

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser, "name", "scheme", nargs="?", default="", metavar="NAME", help=f"one of: {', '.join(credit.names())}"
    )
    add_json(parser, "print JSON")
    parser.add_argument("--markdown", action="store_true", help="print the page wrappers/credit/SCHEMES.md")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.train.cards import card_text, make_card, markdown_page, overview
    from creditflow.train.rollout.plugins import plugins_text
    from creditflow.train.text_table import terminal_width, text_table
    from creditflow.wrappers.credit.registry import SCHEMES

    if args.markdown and (args.name or args.json):
        raise ConfigError("--markdown prints the page of all schemes; leave out NAME and --json")
    if args.markdown:
        print(markdown_page(), end="")
        return 0
    if args.name:
        card = make_card(args.name)
        print(json.dumps(card.to_json(), indent=1, ensure_ascii=False) if args.json else card_text(card))
        return 0
    plugins = SCHEMES.rows()
    of_plugins = {row["name"] for row in plugins}
    rows = overview([name for name in credit.names() if name not in of_plugins])
    if args.json:
        table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]] + plugins
        print(json.dumps(table, indent=1, ensure_ascii=False))
    else:
        print(f"{text_table(rows, width=terminal_width())}{plugins_text(plugins)}")
    return 0

"""Command lines of the scripts: what most of them read from their users."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["described_parser", "parse_source"]


def described_parser(description: str | None, source: str, help_text: str) -> argparse.ArgumentParser:
    """A parser with the script's docstring and one path, ``source``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(source, type=Path, help=help_text)
    return parser


def parse_source(description: str | None, source: str, help_text: str, out: Path) -> tuple[Path, Path]:
    """The source of a script that writes one embedded file or folder, and where to write it (``--out``)."""
    parser = described_parser(description, source, help_text)
    parser.add_argument("--out", type=Path, default=out, help="where to write (default: the embedded one)")
    args = parser.parse_args()
    return getattr(args, source), args.out

"""``creditflow data export``: a log in the format of a data library, with a data card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from creditflow.envs.files.atomic import new_folder
from creditflow.train.adapters.export.pictures import PICTURES, copy_pictures
from creditflow.train.arguments.outputs import Output, add_input, add_output, named
from creditflow.wrappers.records.picture_folder import pictures_beside

__all__ = ["add_export_arguments", "run_export"]

FORMATS: Final = ("parquet", "hf", "minari")


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the arguments of ``data export``."""
    add_input(parser, "path", metavar="LOG.jsonl", help="trajectory log to export")
    parser.add_argument(
        "--format", choices=FORMATS, default="hf",
        help="parquet: files and a card; hf (default): the same in the Hub's layout, for datasets.load_dataset; minari: a Minari dataset",
    )  # fmt: skip
    owned = named("README.md", "data", "creditflow", "log.jsonl.gz", "namespace_metadata.json", PICTURES)
    add_output(
        parser,
        "--out",
        Output(kind="folder", owned=owned),
        required=True,
        metavar="DIR",
        help="folder to create",
    )
    parser.add_argument(
        "--license",
        default="",
        metavar="NAME",
        help="licence for the card, such as cc-by-4.0 (default: to be filled in)",
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run_export(args: argparse.Namespace) -> int:
    """Export a log; print what was written. The folder gets its name when everything is in it."""
    from creditflow.train.adapters.export.card import data_card, file_digest
    from creditflow.wrappers.records.jsonl import read_log

    folder, source = Path(args.out), Path(args.path)
    log = read_log(source)
    groups = log.groups
    with new_folder(folder, replace=True) as temporary:
        if args.format == "minari":
            from creditflow.train.adapters.export.minari import write_minari

            data = write_minari(temporary, log)
        else:
            from creditflow.train.adapters.export.parquet import write_parquet

            data = write_parquet(temporary, log)
        pictures = copy_pictures(groups, pictures_beside(source), temporary / PICTURES)
        card = data_card(
            groups, source=source.name, digest=file_digest(source), form=args.format, license_name=args.license
        )
        (temporary / "README.md").write_text(card, encoding="utf-8")
        written = folder / data.relative_to(temporary)
    counts = {
        "groups": len(groups),
        "rollouts": sum(map(len, groups)),
        "turns": sum(len(group.turns) for group in groups),
        **pictures.to_json(),
    }
    if args.json:
        print(json.dumps({"out": str(folder), "format": args.format, "file": str(written), **counts}, indent=1))
    else:
        print(
            f"{written}: {counts['rollouts']} trajectories in {counts['groups']} groups, {counts['turns']} turns"
            f"{pictures.to_text()}; fill in {folder / 'README.md'}"
        )
    return 0

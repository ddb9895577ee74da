"""Write a checkpoint of a training run as a Hugging Face folder, with the prompts and the tokenizer of the run.

  creditflow export runs/graphgpo --at 100 --out models/graphgpo-100    # the policy after 100 iterations
  creditflow eval --agent hf:models/graphgpo-100 --env sokoban --panel paper-6x6-v1:test

A run keeps as many checkpoints as checkpoint.keep specifies (0 keeps all). With checkpoint.hf=true it writes such a folder into each
of them, and checkpoint.best=true keeps the policy that did best on the validation panel as OUT/best.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from creditflow.envs.errors import DataError
from creditflow.train.arguments.outputs import Output, add_input, add_output

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_input(parser, "folder", metavar="RUN", help="the folder of a training run")
    parser.add_argument("--at", type=int, metavar="N", help="number of finished iterations (default: the latest)")
    add_output(parser, "--out", Output(kind="folder"), required=True, metavar="DIR", help="folder to write")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.agents.language_model.pretrained import require_torch
    from creditflow.train.settings.schema import load_settings

    require_torch()
    folder = Path(args.folder)
    if not (folder / "config.yaml").is_file():
        raise DataError(f"{folder} is not the folder of a run: no config.yaml")
    settings = load_settings(folder / "config.yaml")
    if (folder / "verl").is_dir():
        from creditflow.train.engines.verl import export_checkpoint

        print(f"wrote {export_checkpoint(settings, folder, args.at or 0, Path(args.out))}")
        return 0
    from creditflow.train.policy.checkpoint import checkpoint_at, load_checkpoint
    from creditflow.train.run.assemble import make_policy
    from creditflow.train.run.folder import export_model, load_run_tokenizer, save_policy

    checkpoint = checkpoint_at(folder / "checkpoints", args.at)
    model, tokenizer = make_policy(settings, load_run_tokenizer(folder), [])
    load_checkpoint(checkpoint, model, policy_only=True)
    export_model(Path(args.out), partial(save_policy, model, tokenizer, settings))
    print(f"{checkpoint} was written to {args.out}")
    return 0

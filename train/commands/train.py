"""Train a language-model policy with any credit scheme, or a success model for PiCA (kind: success_model).

  creditflow train train/configs/quickstart.yaml --set credit.scheme=graphgpo --set out=runs/graphgpo
  creditflow train train/configs/quickstart.yaml --set credit.scheme=mt_ppo --set critic.kind=shared --set out=runs/ppo
  creditflow train quickstart                              # a recipe of train/configs, by its name
  creditflow train --resume runs/graphgpo
  creditflow train CONFIG --set generation.backend=vllm    # episodes sampled by vLLM, weights pushed after every update
  creditflow train CONFIG --engine verl                    # by verl, on all GPUs of a node, for models of 1.5B to 7B

--resume continues a run only with the settings, versions and files that it was started with, and lists any differences.

The run folder contains the resolved config, checkpoints, metrics.jsonl and, at the end, the model for --agent
hf:DIR/model. --dry-run checks everything that can be checked without downloading a model, and prints the resolved
config, the GPU memory that the run needs and an estimate of its GPU hours. With --engine verl it prints verl's
configuration, the source of every line and what verl cannot do. This needs neither verl nor a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from creditflow.envs.errors import ConfigError, DataError, unknown_name_error
from creditflow.envs.registration import env_id
from creditflow.train.arguments.outputs import Output, Target, add_input, claimed, named
from creditflow.train.run.identity import RUN_FILE
from creditflow.train.run.named_paths import paths_named

__all__ = ["add_arguments", "run"]

RUN = Output(
    kind="folder",
    cleared=True,
    owned=named(
        "config.yaml",
        RUN_FILE,
        "tokenizer",
        "checkpoints",
        "metrics.jsonl",
        "model",
        "adapter",
        "critic",
        "reference",
        "diverged",
        "best",
        "tensorboard",
        "wandb",
        "verl",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_input(
        parser,
        "config",
        nargs="?",
        metavar="CONFIG",
        help="configuration file (.yaml), or the name of a recipe such as quickstart; not needed with --resume",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting of the config (repeatable)"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check the settings and print the resolved config, without training"
    )
    parser.add_argument(
        "--resume", metavar="DIR", help="continue the run in DIR, with the settings it was started with"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "creditflow", "verl"),
        default="auto",
        help="trainer: creditflow (uses one GPU) or verl; auto (default) is creditflow, and says so if several GPUs are "
        "visible; a resumed run keeps its engine",
    )
    parser.add_argument("--force", action="store_true", help="delete the run in the folder and start over")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.agents.language_model.pretrained import require_torch

    if not args.dry_run and args.engine != "verl":  # which has torch
        require_torch()
    from creditflow.train.dry_run import describe
    from creditflow.train.settings.reading import load_mapping
    from creditflow.train.settings.schema import load_settings
    from creditflow.wrappers.credit.registry import option_names

    if (args.config is None) == (args.resume is None):
        raise ConfigError("give either a CONFIG to start a run, or --resume DIR to continue one")
    source = Path(args.resume) / "config.yaml" if args.resume else _recipe(args.config)
    started = any(source.with_name(name).exists() for name in (RUN_FILE, "checkpoints"))
    if args.resume and not (started and source.is_file()):  # a config.yaml alone may be the user's own
        raise DataError(
            f"{args.resume} is not the folder of a run: no config.yaml, or neither {RUN_FILE} nor checkpoints"
        )
    overrides = [*args.set, *([f"out={args.resume}"] if args.resume else [])]
    if load_mapping(source).get("kind", "policy") != "policy":
        if _engine(args) == "verl":
            raise ConfigError("verl trains policies; a success model is trained by creditflow: leave out --engine verl")
        return _success_model(source, overrides, args)
    settings = load_settings(source, tuple(overrides))
    option_names(settings.credit.scheme)  # an installed plug-in is part of the run's identity as soon as it is known
    env_id(settings.env.name)
    if _engine(args) == "verl":
        return _run_verl(settings, args)
    if args.dry_run:
        describe(settings)
        return 0
    from creditflow.train.trainer import Trainer

    if args.engine == "auto" and settings.device != "cpu" and (gpus := _visible_gpus()) > 1:
        print(
            f"{gpus} GPUs are visible, and this trainer uses one of them; --engine verl trains on all (--engine creditflow: on one, "
            "without this line)",
            file=sys.stderr,
        )
    with _claimed(settings, args):
        Trainer(settings, resume=args.resume is not None).run()
    return 0


def _recipe(name: str) -> Path:
    """The configuration file of this path, or the recipe of this name.

    Raises:
        ConfigError: no file, and no recipe has such a name; suggests the nearest one.
    """
    path = Path(name)
    if path.suffix or path.exists() or path.parent != Path():
        return path
    folder = Path(str(files("creditflow.train") / "configs"))
    recipes = {recipe.stem: recipe for recipe in folder.glob("*.yaml")}
    if name not in recipes:
        raise unknown_name_error("recipe", name, recipes)
    return recipes[name]


def _visible_gpus() -> int:
    import torch

    return int(torch.cuda.device_count())


def _engine(args: argparse.Namespace) -> str:
    """The trainer of the run; a resumed run keeps its own."""
    if args.resume is None:
        return "creditflow" if args.engine == "auto" else str(args.engine)
    engine = "verl" if (Path(args.resume) / "verl").is_dir() else "creditflow"
    if args.engine not in ("auto", engine):
        raise ConfigError(f"{args.resume} is a run of {engine}: resume it without --engine {args.engine}")
    return engine


def _run_verl(settings: Any, args: argparse.Namespace) -> int:
    """Train with verl, or with ``--dry-run`` print what it would be given."""
    from creditflow.train.engines.verl import describe, run_verl

    if args.dry_run:
        return describe(settings)
    with _claimed(settings, args):
        run_verl(settings, resume=args.resume is not None)
    return 0


@contextlib.contextmanager
def _claimed(settings: Any, args: argparse.Namespace) -> Iterator[None]:
    """Claim the run's folder as an output; a resumed run must have the settings it was started with."""
    from creditflow.train.run.folder import require_same_run
    from creditflow.train.settings.reading import to_plain_data

    out = Target(Path(settings.out), RUN, "out =")
    values = {name: value for name, value in to_plain_data(settings).items() if name != "out"}
    inputs = paths_named([values, args.config])
    with claimed([out], inputs, force=args.force, resume=args.resume is not None):
        if args.resume is not None:
            require_same_run(Path(settings.out), settings)
        yield


def _success_model(source: Path, overrides: list[str], args: argparse.Namespace) -> int:
    """Train a success model, or with ``--dry-run`` print its settings."""
    import yaml

    from creditflow.train.annotate.success.settings import KIND, SuccessTrainConfig
    from creditflow.train.annotate.success.training import SuccessTrainer
    from creditflow.train.settings.overrides import apply_overrides
    from creditflow.train.settings.reading import load_mapping, read_dataclass, to_plain_data

    data = apply_overrides(load_mapping(source), overrides)
    if data["kind"] != KIND:
        raise unknown_name_error("kind of training run", str(data["kind"]), ("policy", KIND))
    settings = read_dataclass(SuccessTrainConfig, data)
    if args.dry_run:
        print(yaml.safe_dump(to_plain_data(settings), sort_keys=False), end="")
        return 0
    with _claimed(settings, args):
        SuccessTrainer(settings, resume=args.resume is not None).run()
    return 0

"""Report which credit schemes suit a trajectory log: groups without contrast, state aliasing, coverage, and schemes without a signal.

  creditflow audit rollouts.jsonl
  creditflow audit --json rollouts.jsonl.gz --out audit.json
  creditflow audit train.jsonl --validation valid.jsonl
  creditflow audit rollouts.jsonl --replay 16 --out replayed.jsonl

The report starts with a recommended scheme: grouptd where states repeat, blend where they rarely do,
none where every group has a single rollout. It ends with the evidence for grouptd.

--replay K measures whether the credit is right. The log's agent, or --agent, plays on K times from before and from
after every turn, and the report compares every scheme, and every number in the log, with the measured values. The log
with these values is written to --out; --resume continues an interrupted replay, and auditing that file repeats the
comparison without playing. With --alternatives the other actions that the environment lists are tried too, and the
report compares the turn's action with their mean and with the best of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from creditflow.agents.registry import check_options
from creditflow.envs.errors import ConfigError
from creditflow.envs.reading.plain_data import nan_as_none
from creditflow.envs.registration import env_id
from creditflow.train.analyses.audit import audit
from creditflow.train.analyses.audit_advice import (
    EVIDENCE,
    audit_text,
    evidence_text,
    recommendation_text,
    recommended,
    warnings,
)
from creditflow.train.analyses.leakage import overlap
from creditflow.train.analyses.replayed import is_replayed, replayed, replayed_text
from creditflow.train.annotate.log import annotate_log
from creditflow.train.annotate.workers import AnnotatorSpec, annotated_text
from creditflow.train.arguments.model_options import add_model_options, model_options
from creditflow.train.arguments.options import add_env_arguments, add_seed, add_workers, env_arguments, positive
from creditflow.train.arguments.outputs import (
    Output,
    add_input,
    add_json,
    add_log_argument,
    add_output,
    print_text,
    read_log,
)
from creditflow.train.arguments.programs import add_code
from creditflow.train.run.recorded import as_recorded, recorded_run
from creditflow.train.statistics import scipy_module
from creditflow.train.text_table import counted
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser)
    add_input(
        parser,
        "--validation",
        default="",
        metavar="LOG|ENV/PANEL:SPLIT",
        help="also report how many of these tasks occur in the audited log, compared by content",
    )
    add_json(parser, "print the findings as JSON")
    parser.add_argument(
        "--replay",
        type=positive,
        metavar="K",
        help="compare credit with K continuations from before and from after every turn",
    )
    parser.add_argument(
        "--alternatives",
        action="store_true",
        help="with --replay: also K continuations after every other action that the environment lists",
    )
    add_code(
        parser, "--agent", "agent", default="", help="with --replay: agent that plays on (default: the log's agent)"
    )
    add_env_arguments(parser)
    parser.set_defaults(env="")
    add_seed(parser, "the continuations")
    add_workers(parser, "replay")
    add_model_options(parser, "sampling temperature of the continuations")
    add_output(
        parser,
        "--out",
        Output(grows=True),
        default="-",
        metavar="FILE",
        help="file for the report, - (default) is standard output; with --replay, file for the log with the measured values",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.replay is None:
        _require_no_replay(args)
        groups, report = read_log(args), args.out
    else:
        _replay(args)
        args.input, report = args.out, "-"
        groups = read_log(args)
    comparison = replayed(groups) if is_replayed(groups) else None
    measured = audit(groups)
    if args.validation and args.input == "-":
        raise ConfigError("--validation needs the log as a file, not on standard input")
    leaked = overlap(args.input, args.validation) if args.validation else None
    scheme, reason = recommended(measured)
    if args.json:
        evidence = EVIDENCE if scheme == "grouptd" else ()
        advice = {"scheme": scheme, "reason": reason, "evidence": evidence}
        data: dict[str, Any] = asdict(measured) | {"warnings": warnings(measured), "recommendation": advice}
        if comparison is not None:
            data["replay"] = asdict(comparison)
        if leaked is not None:
            data["validation"] = leaked._asdict()
        text = json.dumps(nan_as_none(data), indent=1, allow_nan=False)
    else:
        sections = [replayed_text(comparison)] if comparison is not None else []
        sections += [recommendation_text(scheme, reason), audit_text(measured)]
        sections += [evidence_text()] if scheme == "grouptd" else []
        text = "\n\n".join([f"{leaked}."] * (leaked is not None) + sections)
    print_text(text, report)
    return 0


def _require_no_replay(args: argparse.Namespace) -> None:
    """Refuse options that only ``--replay`` reads.

    Raises:
        ConfigError: one of them was given.
    """
    names = ("agent", "env", "env_set", "panel", "max_turns", "alternatives", "seed", "workers", "resume")
    for name in [*(name for name in names if getattr(args, name)), *model_options(args).given()]:
        option = f"--{name.replace('_', '-')}"
        raise ConfigError(f"{option} has no effect without --replay K; leave it out, or replay the log")


def _replay(args: argparse.Namespace) -> None:
    """Write the log with the values of its continuations to ``--out``."""
    if args.out == "-":
        raise ConfigError(
            "replayed values are written to a file, so that an interrupted command can be resumed: --out OUT.jsonl"
        )
    scipy_module("special")  # the report needs it: asked for before the continuations are played
    check_options(args.agent or "hf", model_options(args))
    groups = read_groups(sys.stdin if args.input == "-" else args.input)
    recorded = recorded_run(groups)
    env = env_id(args.env) if args.env else str(recorded.get("env", {}).get("id", ""))
    if not env:
        raise ConfigError("the log does not name the environment that it was recorded in: name it with --env")
    args.env = env
    model = model_options(args).given()
    settings = {"agent": args.agent, "seed": args.seed, "model": model, "alternatives": args.alternatives}
    spec = AnnotatorSpec(
        f"forks:{args.replay}", settings, env, as_recorded(groups, env, env_arguments(args)), recorded=recorded
    )
    annotator = spec.annotator()
    played = annotator.provenance.parameters["agent"]
    print(_budget(groups, args.replay, played), file=sys.stderr)
    if args.alternatives:
        print("and as many again for every other action that the environment lists in a state", file=sys.stderr)
    if recorded.get("agent", {}).get("name", played) != played:
        print(
            f"the log was played by {recorded['agent']['name']}: the advantages are those of {played}, another policy",
            file=sys.stderr,
        )
    workers = min(args.workers, len(groups))
    annotate_log(
        groups,
        annotator,
        Path(args.out),
        batch=1,
        resume=args.resume,
        workers=workers,
        function=partial(annotated_text, spec.to_text()),
    )


def _budget(groups: Sequence[Group], continuations: int, agent: str) -> str:
    """What a replay will cost: as many turns as the log's episodes went on from each of their states."""
    lengths = [len(member.turns) for group in groups for member in group.trajectories]
    turns = sum(lengths)
    rest = sum(n * (n + 1) // 2 for n in lengths) * continuations
    sampled = [member.tokens for group in groups for member in group.trajectories if member.tokens is not None]
    prompts = sum(len(prompt) for tokens in sampled for prompt in tokens.prompts)
    per_turn = (sum(len(tokens.ids) for tokens in sampled) + prompts) / max(turns, 1)
    tokens = f" and {rest * per_turn:,.0f} tokens" if sampled else ""
    return (
        f"replay: {counted(turns, 'turn')} in {counted(len(groups), 'group')}; {continuations} continuations of {agent} from before each: "
        f"{counted(turns * continuations, 'episode')}, about {counted(rest, 'turn')}{tokens}"
    )

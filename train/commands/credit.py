"""Compute the credit of a trajectory log with a scheme: one line per trajectory, with an advantage for every turn.

  creditflow credit --scheme graphgpo rollouts.jsonl --out credit.jsonl
  creditflow credit --scheme gigpo --set discount=0.9 --set step_weight=0.5 rollouts.jsonl.gz
  creditflow credit --scheme gigpo log.jsonl --tokenizer runs/model --out credit.jsonl      also one advantage per token
  creditflow credit --scheme rewardflow --explain
  creditflow credit --scheme graphgpo rollouts.jsonl --why t3:2      why turn 2 of trajectory t3 has its advantage

Lines keep the order and the ids of the log. With --tokenizer every turn also has the token ids of its response
(``token_ids``, without the special tokens that a chat template adds) and an advantage for each of them
(``token_advantages``).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.train.arguments.outputs import add_input, add_json, add_log_argument, add_output, log_of, open_output
from creditflow.train.arguments.programs import add_code
from creditflow.train.settings.overrides import apply_overrides
from creditflow.train.text_table import counted
from creditflow.wrappers import credit
from creditflow.wrappers.credit.registry import assigned
from creditflow.wrappers.records.group import Group

__all__ = ["add_arguments", "credit_lines", "run"]

FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_log_argument(parser, optional=True)
    add_code(parser, "--scheme", "scheme", required=True, help="credit scheme; `creditflow schemes` lists them")
    parser.add_argument(
        "--semantics",
        default="paper",
        help="paper (the published formula) or release (the released code); default paper",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="parameter of the scheme (repeatable)"
    )
    parser.add_argument(
        "--reward",
        metavar="NAME",
        help="compute credit from this transcript reward instead of the recorded one (WikiSearch only; "
        "an unknown name prints the available ones)",
    )
    add_input(
        parser,
        "--tokenizer",
        metavar="FOLDER",
        help="tokenizer folder; also write the token ids of every response, with an advantage for each",
    )
    parser.add_argument(
        "--explain", action="store_true", help="explain what the scheme computes and what its parameters are"
    )
    parser.add_argument(
        "--why",
        metavar="TRAJECTORY:TURN",
        help="explain one advantage: its terms, the turns it was compared with, mean, deviation and weights; turns "
        "count from 0; if the id occurs in several groups, write GROUP/TRAJECTORY:TURN",
    )
    add_json(parser, "with --why: print JSON")
    add_output(parser, "--out", default="-", metavar="OUT.jsonl", help="file to write; - (default) is standard output")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    _refuse_without_effect(args)
    if args.explain:
        print(credit.describe(args.scheme))
        return 0
    if args.input is None:
        raise ConfigError("pass a trajectory log (or - for standard input), or --explain")
    parameters = apply_overrides({}, args.set)
    semantics = parameters.pop("semantics", args.semantics)  # also a parameter of ``make``
    scheme = credit.make(args.scheme, semantics=semantics, **parameters)
    texts = (
        None if args.reward else {*scheme.texts, *(["response"] if args.tokenizer else [])}
    )  # a transcript needs all
    log = log_of(args, texts)
    groups = list(log.groups)
    if args.reward:
        from creditflow.envs.wikisearch.grading.rewards import named_reward  # imports the environment of the rewards
        from creditflow.wrappers.episode_rewards import with_reward

        reward = named_reward(args.reward)
        groups = [with_reward(group, reward) for group in groups]
    if args.why:
        group, trajectory, turn = _turn_of(args.why, groups)
        why = credit.explain(group, scheme, trajectory, turn, batch=groups)
        print(json.dumps(why.to_json(), ensure_ascii=True, allow_nan=False) if args.json else why)
        return 0
    encode = _encoder(args.tokenizer, groups) if args.tokenizer else None
    began = time.perf_counter()
    results = assigned(scheme, groups)
    seconds = time.perf_counter() - began
    target = open_output(args.out)
    with target as stream:
        lines = (
            credit_lines(group, result, args.scheme, encode) for group, result in zip(groups, results, strict=True)
        )
        for line in log.in_order(lines):
            stream.write(json.dumps(line, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n")
    turns = sum(len(group.turns) for group in groups)
    moved = sum(int(np.count_nonzero(result.flat_step_advantages)) for result in results)
    print(
        f"{args.scheme} ({semantics}): {counted(len(groups), 'group')}, {counted(sum(map(len, groups)), 'trajectory')}, {counted(turns, 'turn')} "
        f"in {seconds:.3f} s; step credit on {moved / max(turns, 1):.0%} of the turns",
        file=sys.stderr,
    )
    if unnamed := sorted({name for result in results for name in result.diagnostics.get("unmatchable", ())}):
        print(
            f"entities that no text can mention, and which are ignored: {short_repr(unnamed[0])}"
            + (f" and {len(unnamed) - 1} more" if len(unnamed) > 1 else ""),
            file=sys.stderr,
        )
    for warning in _warnings(scheme, groups, results):
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _refuse_without_effect(args: argparse.Namespace) -> None:
    """Raise ConfigError for an option that the others leave without effect."""
    writes = {"--tokenizer": args.tokenizer, "--out": args.out != "-"}
    if args.explain:
        options = {
            "a log": args.input,
            "--why": args.why,
            "--json": args.json,
            "--reward": args.reward,
            "--set": args.set,
            **writes,
        }
        where = "--explain, which describes a scheme"
    elif args.why:
        options, where = writes, "--why, which prints one advantage"
    else:
        options, where = {"--json": args.json}, "lines of trajectories, which are JSON anyway; it is an option of --why"
    for name, value in options.items():
        if value:
            raise ConfigError(f"{name} has no effect on {where}; leave it out")


def _turn_of(text: str, groups: Sequence[Group]) -> tuple[Group, str, int]:
    """The group, trajectory id and turn of ``TRAJECTORY:TURN`` or ``GROUP/TRAJECTORY:TURN``."""
    name, colon, number = text.rpartition(":")
    if not colon or not number.isdecimal():
        raise ConfigError(f"--why takes TRAJECTORY:TURN, such as t3:2, got {short_repr(text)}")
    places = [(group, member.trajectory_id) for group in groups for member in group.trajectories]
    matches = [
        (group, trajectory) for group, trajectory in places if name in (trajectory, f"{group.group_id}/{trajectory}")
    ]
    if not matches:
        raise unknown_name_error("trajectory", name, [trajectory for _, trajectory in places])
    if len(matches) > 1:
        ids = [group.group_id for group, _ in matches]
        raise ConfigError(
            f"{len(matches)} groups have a trajectory {name!r}; give the group too: --why {ids[0]}/{name}:{number} (or "
            f"{', '.join(ids[1:4])})"
        )
    [(group, trajectory)] = matches
    return group, trajectory, int(number)


def _encoder(tokenizer: str, groups: Sequence[Group]) -> Callable[[str], list[int]]:
    """A function from a response to its token ids.

    Raises:
        DataError: no response in the log, or no tokenizer in the folder.
        MissingExtraError: transformers is not installed.
    """
    if not any(turn.response for group in groups for turn in group.turns):
        raise DataError("the log has no responses, whose tokens --tokenizer could count; record texts, or leave it out")
    from creditflow.agents.language_model.pretrained import open_tokenizer

    opened = open_tokenizer(tokenizer)
    return lambda response: list(opened(response, add_special_tokens=False)["input_ids"])


def _warnings(scheme: credit.Scheme, groups: Sequence[Group], results: Sequence[credit.Credit]) -> list[str]:
    """What leaves turns without credit of their own, counted."""
    texts = list[str]()
    total, trajectories = len(groups), sum(map(len, groups))
    if empty := sum(not member.turns for group in groups for member in group.trajectories):
        texts.append(f"{empty:,} of {trajectories:,} trajectories have no turns")
    if single := sum(len(group) == 1 for group in groups):
        texts.append(f"{single:,} of {total:,} groups have one trajectory, which nothing is compared with")
    if not any(advantages.any() for result in results for advantages in result.advantages):
        texts.append(
            f"all {total:,} groups have advantages of 0, so this scheme learns nothing from this log; `creditflow audit` says why"
        )
        return texts
    compares_states = hasattr(scheme, "key")
    if compares_states and total > single and not any(result.flat_step_advantages.any() for result in results):
        texts.append(
            f"no advantage of {sum(len(group.turns) for group in groups):,} turns differs from its episode's: the scheme found no two "
            "states to compare; `creditflow audit` counts the states, `data import --state-key` chooses them"
        )
    return texts


def credit_lines(
    group: Group, result: credit.Credit, scheme: str, encode: Callable[[str], list[int]] | None = None
) -> Iterator[dict[str, Any]]:
    """The line of each trajectory of a group: its advantages and what they consist of."""
    columns = zip(
        group.trajectories,
        result.outcome_advantages,
        result.step_rewards,
        result.step_advantages,
        result.advantages,
        result.loss_mask,
        strict=True,
    )
    for trajectory, outcome, rewards, steps, total, mask in columns:
        line = {
            "format_version": FORMAT_VERSION,
            "scheme": scheme,
            "group_id": group.group_id,
            "trajectory_id": trajectory.trajectory_id,
            "outcome_advantage": float(outcome),
            "step_rewards": rewards.tolist(),
            "step_advantages": steps.tolist(),
            "advantages": total.tolist(),
            "loss_mask": mask.tolist(),
            "aggregation": result.aggregation,
        }
        if encode is not None:
            ids = [encode(turn.response) for turn in trajectory.turns]
            line["token_ids"] = ids
            line["token_advantages"] = [
                [value] * len(of_turn) for value, of_turn in zip(total.tolist(), ids, strict=True)
            ]
        yield line

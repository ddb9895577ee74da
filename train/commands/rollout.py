"""Play groups of episodes and write them as a trajectory log.

  creditflow rollout --env sokoban --agent noisy:0.3 --panel standard-v1:train --limit 20 --group-size 8 --out log.jsonl

Finished groups are written to OUT.partial, which becomes OUT at the end. After an interruption, run the same command
with --resume; the result is the same file. A larger --limit adds tasks to a finished log. Every trajectory records the
settings of its run (environment and options, agent, seed, versions, …), and --resume refuses any other settings.

--workers N plays in N processes. The file is identical to that of a single process. If a worker dies, the command stops.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.agents.registry import check_agent, check_options
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.registration import bare_env, env_id, maker
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.grading.rewards import REWARDS, named_reward
from creditflow.train.arguments.model_options import add_model_options, model_options
from creditflow.train.arguments.options import add_env_arguments, add_seed, add_workers, env_arguments, positive
from creditflow.train.arguments.outputs import Output, add_output
from creditflow.train.arguments.programs import add_code
from creditflow.train.progress import progress
from creditflow.train.rollout.workers.play import RolloutSpec, RolloutWorker, play_text, read_group, write_task
from creditflow.train.rollout.workers.pool import run_in_order
from creditflow.train.run.identity import Identity, agent_identity, contents, identity_text, require_same_log, versions
from creditflow.train.run.interrupted import complete_groups, write_log
from creditflow.train.text_table import counted
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl
from creditflow.wrappers.records.picture_folder import pictures_beside

__all__ = ["add_arguments", "identity_of", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_env_arguments(parser)
    add_code(
        parser,
        "--agent",
        "agent",
        default="random",
        help="agent: random, expert, noisy[:NOISE], tabular[:OPTIMAL_PROB], hf:PATH, vllm:PATH, openai:URL#MODEL, or your own: "
        "path/to/file.py:NAME",
    )
    parser.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="play only the first N tasks (required if the source of tasks is endless)",
    )
    parser.add_argument("--group-size", type=positive, default=8, metavar="G", help="rollouts per task (default 8)")
    parser.add_argument(
        "--invalid-actions",
        default="keep",
        help="what to do with invalid actions: keep, penalise, retry or terminate (default keep)",
    )
    parser.add_argument("--oracle", action="store_true", help="record the oracle's value and distance in every turn")
    parser.add_argument(
        "--reward",
        action="append",
        default=[],
        metavar="NAME",
        help="additional reward to compute from the transcript and record (repeatable; WikiSearch only): "
        + ", ".join(REWARDS),
    )
    add_seed(parser, "the agent and of sampled tasks")
    add_workers(parser, "play")
    add_model_options(parser, "sampling temperature; 0 always takes the most likely token")
    add_output(
        parser,
        "--out",
        Output(grows=True),
        required=True,
        metavar="FILE",
        help="trajectory log to write, .jsonl or .jsonl.gz; - is standard output; images in observations go to FILE.pictures",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    settings = env_arguments(args)
    check_options(args.agent, model_options(args))
    rewards = {name: named_reward(name) for name in args.reward}
    tasks = _tasks(args, settings)
    spec = RolloutSpec(
        env=args.env,
        options=settings,
        agent=args.agent,
        model=model_options(args).given(),
        group_size=args.group_size,
        seed=args.seed,
        invalid_actions=args.invalid_actions,
        oracle=args.oracle,
        rewards=tuple(rewards),
        pictures="" if args.out == "-" else str(pictures_beside(args.out)),
    )
    play = _player(spec := replace(spec, run=identity_text(identity_of(spec))), args)
    if args.out == "-":
        groups = list(progress(play(tasks), "rollout", len(tasks)))
        write_jsonl(sys.stdout, groups)
    else:
        groups = _to_file(Path(args.out), play, tasks, spec, args.resume)
    episodes = [trajectory for group in groups for trajectory in group.trajectories]
    turns = sum(len(episode.turns) for episode in episodes)
    print(
        f"{counted(len(groups), 'group')}, {counted(len(episodes), 'episode')}, {counted(turns, 'turn')}, "
        f"success {np.mean([t.success for t in episodes]):.3f}, mean score {np.mean([t.score for t in episodes]):.3f}",
        file=sys.stderr,
    )
    for name in rewards:
        print(f"reward.{name} {np.mean([t.values[f'reward.{name}'] for t in episodes]):.3f}", file=sys.stderr)
    return 0


def identity_of(spec: RolloutSpec) -> Identity:
    """Everything that determines an episode except its task; the number of tasks and the workers do not."""
    check_agent(spec.agent)
    return {
        "versions": versions(),
        "env": {"id": env_id(spec.env), "options": spec.options},
        "files": contents(spec.options),
        "agent": agent_identity(spec.agent),
        "model": spec.model,
        "group_size": spec.group_size,
        "invalid_actions": spec.invalid_actions,
        "oracle": spec.oracle,
        "rewards": list(spec.rewards),
        "seed": spec.seed,
    }


def _tasks(args: argparse.Namespace, settings: dict[str, Any]) -> list[Task]:
    """The tasks to play: the source's list, or samples from an endless source."""
    source = bare_env(args.env, settings).tasks
    ids = source.task_ids()
    if ids:
        return [source.get(task_id) for task_id in ids[: args.limit]]
    if args.limit is None:
        raise ConfigError("this task source is endless; give the number of tasks with --limit N")
    rng = np.random.default_rng(args.seed)
    return [source.sample(rng) for _ in range(args.limit)]


def _player(spec: RolloutSpec, args: argparse.Namespace) -> Callable[[Sequence[Task]], Iterator[Group]]:
    """A function that plays tasks in order, in this process or on workers. Checks names before anything is written."""
    if not args.workers:
        worker = RolloutWorker(spec)
        return lambda tasks: (worker.play_task(task) for task in tasks)
    check_agent(spec.agent)
    GroupEnv(maker(spec.env, spec.options), size=1, invalid_actions=spec.invalid_actions, oracle=spec.oracle)
    # a worker plays whole tasks
    return lambda tasks: _on_workers(spec, tasks, max(1, min(args.workers, len(tasks))))


def _on_workers(spec: RolloutSpec, tasks: Sequence[Task], workers: int) -> Iterator[Group]:
    play = partial(play_text, spec.to_text())
    with closing(run_in_order(play, [write_task(task) for task in tasks], workers)) as results:
        yield from map(read_group, results)


def _to_file(
    out: Path, play: Callable[[Sequence[Task]], Iterator[Group]], tasks: Sequence[Task], spec: RolloutSpec, resume: bool
) -> list[Group]:
    def finished(left: Path) -> list[Group]:
        groups = _finished(left, tasks, spec)
        print(f"resuming after {len(groups)} of {len(tasks)} groups", file=sys.stderr)
        return groups

    def remaining(found: int) -> Iterator[list[Group]]:
        rest = tasks[found:]
        return ([group] for group in progress(play(rest), "rollout", len(rest)))

    groups, _ = write_log(out, remaining, finished=finished, resume=resume)
    return groups


def _finished(left: Path, tasks: Sequence[Task], spec: RolloutSpec) -> list[Group]:
    """The complete groups in an interrupted log.

    Raises:
        TrajectoryError: they are not the first groups that this command would write.
    """
    groups = complete_groups(left)
    for group in groups:
        require_same_log(group, json.loads(spec.run), str(left))
    if groups and len(groups[-1]) < spec.group_size:
        groups.pop()
    for group, task in zip(groups, tasks, strict=False):
        if (group.task_id, len(group)) != (task.task_id, spec.group_size):
            raise TrajectoryError(
                f"{left}: group {group.group_id} was not written by this command, which plays {task.task_id} with "
                f"{spec.group_size} rollouts here, not {group.task_id} with {len(group)}: did the tasks change? Start "
                "over with --force or with another output"
            )
    if len(groups) > len(tasks):
        raise TrajectoryError(
            f"{left} has {len(groups)} groups, but only {len(tasks)} are requested. Use a larger --limit, or start over with "
            "--force or with another output"
        )
    return groups

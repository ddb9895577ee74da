"""Play groups of episodes and write them as a trajectory log.

  creditflow rollout --env sokoban --agent noisy:0.3 --panel standard-v1:train --limit 20 --group-size 8 --out log.jsonl

Groups are written to OUT.partial as they finish; OUT appears when all are there. After an interruption the same
command with --resume goes on where it stopped and gives the same file.

--workers N plays on N processes, --ray ADDRESS on N actors of a running Ray cluster. The file is the same as from one
process, in the same order; the task of a worker that was lost is played again.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.agents.registry import check_agent
from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.envs.reading.limits import MAX_ROWS_FILE
from creditflow.envs.reading.streams import read_text
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.rewards import REWARDS
from creditflow.train.commands.options import add_env_arguments, bare_env, env_arguments, parse_rewards, positive
from creditflow.train.progress import progress
from creditflow.train.workers.play import Player, RolloutSpec, read_group, write_task
from creditflow.train.workers.pool import Executor, run_units
from creditflow.train.workers.processes import ProcessExecutor
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.groups import Group
from creditflow.wrappers.jsonl import read_groups, write_jsonl

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_env_arguments(parser)
    parser.add_argument(
        "--agent", default="random",
        help="random, expert, noisy[:NOISE], tabular[:GUIDANCE], hf:PATH, vllm:PATH or openai:URL#MODEL",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="only the first N tasks (needed for endless sources)"
    )
    parser.add_argument("--group-size", type=positive, default=8, metavar="G", help="rollouts per task (default 8)")
    parser.add_argument("--invalid-actions", default="keep", help="keep, penalise, retry or terminate (default keep)")
    parser.add_argument("--oracle", action="store_true", help="write the oracle's value and distance into every turn")
    parser.add_argument(
        "--reward", action="append", default=[], metavar="NAME",
        help="also grade each rollout's transcript, into the trajectory's values (repeat; search only): "
        + ", ".join(REWARDS),
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the agent's choices (default 0)")
    parser.add_argument(
        "--workers", type=positive, default=0, metavar="N", help="processes (default: play in this one)"
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="play on this Ray cluster instead (auto, HOST:PORT); extra [ray]"
    )
    parser.add_argument("--resume", action="store_true", help="go on with OUT.partial")
    parser.add_argument("--out", required=True, metavar="FILE", help="a .jsonl or .jsonl.gz file; - is standard output")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    settings = env_arguments(args)
    rewards = parse_rewards(args.reward)
    tasks = _tasks(args, settings)
    spec = RolloutSpec(
        env=args.env, options=settings, agent=args.agent, group_size=args.group_size, seed=args.seed,
        invalid_actions=args.invalid_actions, oracle=args.oracle, rewards=tuple(rewards),
    )  # fmt: skip
    play = _player(spec, args)
    if args.out == "-":
        groups = list(progress(play(tasks), "rollout", len(tasks)))
        write_jsonl(sys.stdout, groups)
    else:
        groups = _to_file(Path(args.out), play, tasks, args)
    episodes = [trajectory for group in groups for trajectory in group.trajectories]
    print(
        f"{len(groups)} groups, {len(episodes)} episodes, {sum(len(t.turns) for t in episodes)} turns, "
        f"success {np.mean([t.success for t in episodes]):.3f}, mean score {np.mean([t.score for t in episodes]):.3f}",
        file=sys.stderr,
    )
    for name in rewards:
        print(f"reward.{name} {np.mean([t.values[f'reward.{name}'] for t in episodes]):.3f}", file=sys.stderr)
    return 0


def _tasks(args: argparse.Namespace, settings: dict[str, Any]) -> list[Task]:
    """The tasks to play: the source's list, or draws from an endless source."""
    source = bare_env(args.env, settings).tasks
    ids = source.task_ids()
    if ids:
        return [source.get(task_id) for task_id in ids[: args.limit]]
    if args.limit is None:
        raise ConfigError("this task source is endless: say how many tasks with --limit N")
    rng = np.random.default_rng(args.seed)
    return [source.draw(rng) for _ in range(args.limit)]


def _player(spec: RolloutSpec, args: argparse.Namespace) -> Callable[[Sequence[Task]], Iterator[Group]]:
    """What plays tasks in order: this process, or workers. A wrong name is told here, before anything is written."""
    if not args.workers and args.ray is None:
        player = Player(spec)
        return lambda tasks: map(player.group, tasks)
    check_agent(spec.agent)
    GroupEnv(spec.env, size=1, invalid_actions=spec.invalid_actions, oracle=spec.oracle, **spec.options)
    return lambda tasks: _on_workers(_executor(spec, args), tasks)


def _on_workers(executor: Executor, tasks: Sequence[Task]) -> Iterator[Group]:
    with closing(run_units(executor, [write_task(task) for task in tasks])) as results:
        yield from map(read_group, results)


def _executor(spec: RolloutSpec, args: argparse.Namespace) -> Executor:
    if args.ray is not None:
        from creditflow.train.workers.ray_cluster import RayExecutor

        return RayExecutor(spec, args.workers or 2, args.ray)
    return ProcessExecutor(spec, args.workers)


def _to_file(
    out: Path, play: Callable[[Sequence[Task]], Iterator[Group]], tasks: Sequence[Task], args: argparse.Namespace
) -> list[Group]:
    partial = out.with_name(out.name + ".partial")
    done: list[Group] = []
    if partial.exists():
        if not args.resume:
            raise ConfigError(f"{partial} is left from an interrupted run: go on with --resume, or delete it")
        done = _finished(partial, tasks, args)
        write_jsonl(partial, done)  # without a torn last group
        print(f"resuming after {len(done)} of {len(tasks)} groups", file=sys.stderr)
    out.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("a", encoding="ascii") as stream:
        rest = tasks[len(done) :]
        for group in progress(play(rest), "rollout", len(rest)):
            write_jsonl(stream, [group])
            stream.flush()
            done.append(group)
    write_jsonl(out, done)
    partial.unlink()
    return done


def _finished(partial: Path, tasks: Sequence[Task], args: argparse.Namespace) -> list[Group]:
    """The whole groups in an interrupted log, if they are what this command would have written first."""
    text = read_text(partial, MAX_ROWS_FILE, "ascii")
    whole = text[: text.rfind("\n") + 1]
    try:
        groups = read_groups(io.StringIO(whole))
    except TrajectoryError as error:
        raise TrajectoryError(f"{partial}: {error}; delete the file to begin anew") from error
    if groups and len(groups[-1]) < args.group_size:
        groups.pop()
    for group, task in zip(groups, tasks, strict=False):
        first = group.trajectories[0]
        if (group.task_id, len(group), first.seed, first.policy) != (
            task.task_id, args.group_size, args.seed, args.agent,
        ):  # fmt: skip
            raise TrajectoryError(
                f"{partial}: group {group.group_id} was not written by this command (task, group size, seed or agent "
                "differ); delete the file to begin anew"
            )
    return groups[: len(tasks)]

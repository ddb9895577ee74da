"""Evaluate a language model: success, score and pass@k with confidence intervals, tables in the papers' layout, and transcripts.

  creditflow eval --agent hf:runs/quickstart/model --env sokoban --panel small-v1:test
  creditflow eval --agent react:hf:PATH --env alfworld --panel standard-v1:valid --out transcripts.jsonl
  creditflow eval --agent reflexion:hf:PATH --trials 3 --env webshop --panel standard-v1:valid
  creditflow eval --agent react:hf:PATH --env wikisearch --panel standard-v1:test
  creditflow eval --agent openai:http://127.0.0.1:8000/v1#runs/quickstart/model --panel small-v1:test
  creditflow eval --exact --agent hf:runs/quickstart/model --panel small-v1:test --env-set symbols=ascii

hf:PATH prompts the model in the format it was trained with. vllm:PATH does the same with vLLM in this process, and
openai:URL#MODEL with an OpenAI-compatible server, exchanging token ids (MODEL@FOLDER if the tokenizer is in another
folder; the API key is read from CREDITFLOW_API_KEY). A prefix selects a prompting method:

    react:      thought and action
    reflexion:  the same with reflections between trials

--exact plays no episodes. It enumerates the states of every task, asks the model for the probability of every action in
each of them, and computes success without sampling noise, greedily and at --temperature. It needs hf:PATH, prompts that
depend on the state alone (history: window, window: 0), the dialect bare, and tasks whose states can be enumerated
(Sokoban, grids, small houses).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from creditflow.envs.errors import ConfigError, TrajectoryError, short_repr
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.registration import bare_env, env_id
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.grading.rewards import named_reward
from creditflow.train.arguments.model_options import add_model_options, model_options
from creditflow.train.arguments.options import add_seed, non_negative, positive
from creditflow.train.arguments.outputs import Output, add_json, add_output
from creditflow.train.arguments.programs import add_code
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES
from creditflow.train.progress import note, progress
from creditflow.train.rollout.running import marked
from creditflow.train.run.identity import Identity, agent_identity, contents, identity_text, require_same_log, versions
from creditflow.train.run.interrupted import complete_groups, write_log
from creditflow.wrappers.records.group import Group

if TYPE_CHECKING:
    from creditflow.train.settings.schema import EnvConfig

__all__ = ["add_arguments", "run"]

SAMPLES: Final = 4
TEMPERATURE: Final = 1.0
# tasks that are played, and then written, together: more keep a GPU busy, fewer lose less to an interruption
WAVE_ON_CPU: Final = 8
WAVE_WRITTEN: Final = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_code(
        parser,
        "--agent",
        "agent",
        required=True,
        metavar="hf:PATH",
        help="hf:PATH, vllm:PATH or openai:URL#MODEL, optionally with the prefix react: or reflexion:",
    )
    add_code(parser, "--env", "environment", default="sokoban", help="environment (default sokoban)")
    parser.add_argument(
        "--panel",
        metavar="NAME:SPLIT",
        help="embedded tasks to play (default: all that the environment's options list)",
    )
    parser.add_argument(
        "--env-set", action="append", default=[], metavar="KEY=VALUE", help="argument of the environment (repeatable)"
    )
    parser.add_argument(
        "--limit", type=non_negative, default=0, metavar="N", help="evaluate only the first N tasks (default all)"
    )
    parser.add_argument(
        "--samples",
        type=non_negative,
        default=SAMPLES,
        metavar="K",
        help=f"number of sampled episodes per task (default {SAMPLES})",
    )
    add_seed(parser, "the sampled episodes")
    parser.add_argument(
        "--device", default="auto", help="device that runs the model: auto, cpu, cuda, … (default auto)"
    )
    add_model_options(parser, "sampling temperature of the sampled episodes (default 1)")
    parser.add_argument(
        "--reward",
        action="append",
        default=[],
        metavar="NAME",
        help="transcript reward to report too (repeatable; search only)",
    )
    parser.add_argument(
        "--trials",
        type=positive,
        default=1,
        metavar="T",
        help="number of trials per episode (reflexion only; default 1)",
    )
    parser.add_argument(
        "--exact", action="store_true", help="compute success from the model's probabilities, without episodes"
    )
    parser.add_argument(
        "--max-states",
        type=positive,
        default=MAX_TABLE_STATES,
        metavar="N",
        help=f"maximum number of states of a task (--exact only; default {MAX_TABLE_STATES})",
    )
    add_output(
        parser,
        "--out",
        Output(grows=True),
        metavar="FILE",
        help="trajectory log to write, one group per task: the greedy episode, then the sampled ones (.jsonl, .jsonl.gz); with "
        "--exact, one line of values per task",
    )
    add_json(parser, "print the results as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from creditflow.agents.language_model.pretrained import require_torch

    require_torch()
    from creditflow.agents.registry import make_agent
    from creditflow.train.rollout.engine import RolloutEngine
    from creditflow.train.rollout.evaluation import dialect_of, measured_tasks, played_tasks
    from creditflow.train.rollout.score_table import score_rows, score_text
    from creditflow.train.rollout.tasks import group_env_factory, listed_tasks, on_panel
    from creditflow.train.settings.overrides import apply_overrides
    from creditflow.train.settings.schema import EnvConfig

    env = EnvConfig(name=args.env, options=apply_overrides({}, args.env_set))
    env = on_panel(env, args.panel) if args.panel else env
    tasks = listed_tasks(env, args.limit)
    agent = make_agent(args.agent, device=args.device, options=replace(model_options(args), temperature=None))
    if not hasattr(agent, "with_sampling"):
        raise ConfigError(
            f"eval needs a language model, as in --agent hf:PATH, vllm:PATH or openai:URL#MODEL; got {short_repr(args.agent)}"
        )
    temperature = TEMPERATURE if args.temperature is None else args.temperature
    if args.exact:
        return _run_exactly(args, agent, env, tasks, temperature)
    rewards = {name: named_reward(name) for name in args.reward}
    make_env = group_env_factory(env, 1, texts=True)
    playing = RolloutEngine(make_env)
    on_cpu = str(getattr(getattr(agent, "backend", None), "device", "")) == "cpu"
    wave = WAVE_ON_CPU if on_cpu else WAVE_WRITTEN

    def play(rest: Sequence[Task]) -> Iterator[list[Group]]:
        played = played_tasks(
            playing,
            _at(agent, 0.0),
            _at(agent, temperature) if args.samples else None,
            rest,
            samples=args.samples,
            seed=args.seed,
            trials=args.trials,
            wave=wave,
        )
        return progress(played, "eval", len(rest)) if rest else iter(())

    played = _logged(args, env, tasks, play, wave) if args.out else list(play(tasks))
    result = measured_tasks(
        tasks,
        played,
        samples=args.samples,
        rewards=rewards,
        trials=args.trials,
        dialect=dialect_of(make_env().members[0].base),
    )
    rows = score_rows(result)
    if args.json:
        named = {"agent": args.agent, "env": args.env, "panel": args.panel}
        print(json.dumps(named | result.summary() | {"table": [row.to_json() for row in rows]}))
    else:
        print(result.line() + (f"\n\n{score_text(rows)}" if len(rows) > 1 else ""))
    return 0


def _logged(
    args: argparse.Namespace,
    env: EnvConfig,
    tasks: Sequence[Task],
    play: Callable[[Sequence[Task]], Iterator[list[Group]]],
    wave: int,
) -> list[list[Group]]:
    """The groups of every task, written as they are played; with ``--resume`` after those that are in the log.

    Whole waves are kept, so that tasks share a batch with the same others and the log is the same.
    """
    identity = _identity(args, env)
    run = identity_text(identity)

    def finished(left: Path) -> list[Group]:
        groups = complete_groups(left)
        for group in groups:
            require_same_log(group, identity, str(left))
        by_task = _by_task(groups)
        if by_task and (args.trials > 1 or len(by_task[-1][0]) <= args.samples):
            by_task.pop()  # its last group, or a further trial, may be missing
        if len(by_task) < len(tasks):
            del by_task[len(by_task) // wave * wave :]
        if [groups[0].task_id for groups in by_task] != [task.task_id for task in tasks[: len(by_task)]]:
            raise TrajectoryError(f"{left} has other tasks; start over with --force or with another output")
        note(f"resuming after {len(by_task)} of {len(tasks)} tasks")
        return [group for groups in by_task for group in groups]

    def remaining(found: int) -> Iterator[list[Group]]:
        del found  # groups; several trials have several
        rest = tasks[len(_by_task(kept)) :]
        for groups in play(rest):
            yield [marked(_played_by(group, args.agent), run) for group in groups]

    kept: list[Group] = []

    def keep(left: Path) -> list[Group]:
        kept.extend(finished(left))
        return list(kept)

    groups, _ = write_log(Path(args.out), remaining, finished=keep, resume=args.resume)
    return _by_task(groups)


def _by_task(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups that follow one another and have one task, together."""
    return [list(some) for _, some in groupby(groups, key=lambda group: group.task_id)]


def _run_exactly(
    args: argparse.Namespace, agent: Any, env: EnvConfig, tasks: Sequence[Task], temperature: float
) -> int:
    """Evaluate exactly, and print or write the results.

    Raises:
        ConfigError: the agent is not hf:PATH, or an option applies to episodes only.
    """
    from creditflow.agents.language_model.pretrained import open_tokenizer
    from creditflow.train.bench.language_model.evaluate import evaluate_exactly

    kind, _, path = args.agent.partition(":")
    if kind != "hf":
        raise ConfigError(f"--exact needs the model itself, --agent hf:PATH; got {short_repr(args.agent)}")
    for name, is_set in (
        ("--reward", bool(args.reward)),
        ("--trials", args.trials > 1),
        ("--samples", args.samples != SAMPLES),
        ("--seed", args.seed != 0),
    ):
        if is_set:
            raise ConfigError(f"--exact plays no episodes, so {name} has no effect; leave it out, or leave out --exact")
    result = evaluate_exactly(
        _at(agent, temperature),
        open_tokenizer(path),
        bare_env(args.env, env.options),
        tasks,
        temperature=temperature,
        max_states=args.max_states,
    )
    if args.out:
        with atomic_writer(Path(args.out)) as stream:
            stream.writelines(json.dumps(row) + "\n" for row in result.rows())
    summary = {"agent": args.agent, "env": args.env, "panel": args.panel, **result.summary()}
    print(json.dumps(summary) if args.json else result.line())
    return 0


def _identity(args: argparse.Namespace, env: EnvConfig) -> Identity:
    """Everything that determines an episode except its task."""
    return {
        "versions": versions(),
        "env": {"id": env_id(env.name), "options": {**env.options, "panel": args.panel}},
        "files": contents(env.options),
        "agent": agent_identity(args.agent),
        "model": model_options(args).given(),
        "samples": args.samples,
        "trials": args.trials,
        "seed": args.seed,
    }


def _at(agent: Any, temperature: float) -> Any:
    """The same agent at another temperature."""
    return agent.with_sampling(replace(agent.sampling, temperature=temperature))


def _played_by(group: Group, name: str) -> Group:
    """The group with the agent's full name as its policy."""
    return Group(tuple(replace(member, policy=name) for member in group.trajectories), group.task)

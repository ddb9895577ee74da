"""What the jobs of one family and seed share: training tasks, the model, and the two sets of tasks that are evaluated.

Tasks are tables together with the prompt of every state.

A family of tasks is generated and split into three sets, each small enough for exact tables. It fixes environment, dialect and
network; the form of a turn decides on prompt, tokenizer and completions. A prompt shows the board, which is the full state, and
with a window the last actions. A state of ``FiniteMDP`` is then board and last actions together, so a language model is a policy
on these states. Their keys are those of the boards.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, cast

import numpy as np
import torch
from evidence.language_models.model_policy import ModelPolicy, load_parameters, parameter_vector
from evidence.language_models.tables import with_history, with_plans
from evidence.language_models.work import LanguageModelWork, TurnForm
from evidence.settings.cells import Changes
from helpers.worlds.gridworlds import layout_task
from helpers.worlds.tabulated import tabulate
from numpy.typing import NDArray

import creditflow
from creditflow.agents.base import View
from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import unknown_name_error
from creditflow.envs.files.atomic import atomic_path
from creditflow.envs.reading.failures import loading
from creditflow.envs.tasks import Task
from creditflow.train.bench.exact.grid_layouts import generate_layout
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.language_model.tables import PromptTable, with_action
from creditflow.train.policy.network.scratch import build_model
from creditflow.train.run.assemble import scratch_tokenizer
from creditflow.train.settings.model import ModelConfig, ScratchConfig
from creditflow.train.settings.schema import EnvConfig, RolloutConfig, TrainConfig
from creditflow.wrappers.records.trajectory import Turn

__all__ = [
    "FAMILIES",
    "FILE",
    "Family",
    "Setting",
    "Split",
    "completions_of",
    "family_settings",
    "family_tasks",
    "family_tokenizer",
    "open_family",
    "open_setting",
    "parameters_of",
    "parameters_text",
    "prompted_tasks",
    "save_parameters",
]

Split = Literal["train", "valid", "test"]
Completions = tuple[tuple[tuple[int, ...], ...], ...]
SPLITS: Final = (
    "test",
    "valid",
    "train",
)  # in the order of generation: a larger training split leaves the others unchanged
MAX_TASKS: Final = 512  # of a split
HORIZON: Final = 20
# a symbol with its offset is one token, and so is an action; x is a symbol (a pit)
PATTERN: Final = " ?[^ a-wyz](?:[ud][0-9])?(?:[lr][0-9])?|[a-z]+| ?."
SPELLED: Final = PATTERN.replace("[a-z]+", "[a-z]")
PLANNED: Final = 2  # moves of a plan
LETTERS: Final = 6  # of the longest action, with an end token
FORM: Final = TurnForm()
UNUSED: Final = np.random.default_rng(0)  # building a prompt uses no randomness


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks of one environment, and the network that learns them.

    Attributes:
        name: name of the family.
        env: name of the environment.
        options: arguments of the environment.
        network: the model, trained from scratch.
    """

    name: str
    env: str
    options: Mapping[str, Any]
    network: ScratchConfig = field(
        default_factory=lambda: ScratchConfig(
            hidden=64,
            layers=2,
            heads=4,
            kv_heads=2,
            intermediate=128,
            vocabulary=1024,
            pattern=PATTERN,
            positions=96,
            init=0.1,
        )
    )


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "sokoban": Family(
            "sokoban",
            "sokoban",
            {
                "generator": {"height": 6, "width": 6, "boxes": 1, "min_length": 3, "max_length": 12},
                "max_steps": HORIZON,
                "symbols": "ascii",
                "separator": "",
            },
        ),
        "pits": Family("pits", "grid-pits", {"max_steps": HORIZON}),
    }
)


def open_family(name: str) -> Family:
    """A family by name.

    Raises:
        ConfigError: an unknown name; suggests the nearest one.
    """
    if name not in FAMILIES:
        raise unknown_name_error("task family", name, FAMILIES)
    return FAMILIES[name]


@lru_cache(maxsize=16)
def family_tasks(name: str, split: Split, count: int, seed: int = 0) -> tuple[Task, ...]:
    """The first ``count`` tasks of a split; no two tasks of a seed, in one split or in two, are equal up to symmetry.

    Args:
        name: name of the family.
        split: which tasks.
        count: number of tasks.
        seed: seed of the generator; every seed has other tasks.
    """
    return _splits(name, seed)[split][:count]


@lru_cache(maxsize=4)
def _splits(name: str, seed: int) -> Mapping[str, tuple[Task, ...]]:
    family = open_family(name)
    seen, splits = set[str](), dict[str, tuple[Task, ...]]()
    for number, split in enumerate(SPLITS):
        chosen = list[Task]()
        for task in _endless(family, [seed, number]):
            if task.canonical_id not in seen:
                seen.add(task.canonical_id)
                chosen.append(task)
            if len(chosen) == MAX_TASKS:
                break
        splits[split] = tuple(chosen)
    return splits


def _endless(family: Family, seed: list[int]) -> Any:
    """Yield generated tasks endlessly."""
    if family.env.startswith("grid-"):
        kind, number = family.env.removeprefix("grid-"), 0
        while True:
            yield layout_task(family.env, generate_layout(kind, np.random.default_rng([*seed, number])))
            number += 1
    source, rng = bare_env(family).tasks, np.random.default_rng(seed)
    while True:
        yield source.sample(rng)


def bare_env(family: Family) -> AgentEnv[Any, Any, Any]:
    """The family's environment without wrappers."""
    return cast("AgentEnv[Any, Any, Any]", creditflow.make(family.env, **family.options).unwrapped)


def family_settings(family: Family, form: TurnForm = FORM) -> TrainConfig:
    """The family as settings of ``creditflow train``, for a training run of the same model on sampled episodes.

    No dialect reads a plan, so with one there is no such run, and these are the settings without it.
    """
    spelled = form.completion == "letters"
    network = replace(family.network, pattern=SPELLED) if spelled else family.network
    prompt = "around-moves-v1" if form.window else "around-v1"
    return TrainConfig(
        out="",
        env=EnvConfig(name=family.env, options=dict(family.options)),
        model=ModelConfig(scratch=network),
        prompting=PromptingConfig(prompt=prompt, dialect="bare", history="window", window=form.window),
        rollout=RolloutConfig(max_new_tokens=LETTERS if spelled else 1),
    )


FILE: Final = ".npy"  # how the name of a file of parameters ends
TOKENIZER_TASKS = 256


@dataclass(frozen=True, eq=False)
class Setting:
    """One family with a model.

    Attributes:
        model: the model, changed in place by training.
        pool: training tasks.
        held_out: tasks that are never trained on.
        completions: for each action the ids of the completions that are read as it.
        evaluated: number of evaluated tasks in each of the two sets.
    """

    model: Any
    pool: tuple[PromptTable, ...]
    held_out: tuple[PromptTable, ...]
    completions: Completions
    evaluated: int

    @property
    def policy(self) -> ModelPolicy:
        """The model on the training tasks and, after these, the held-out ones."""
        return ModelPolicy(self.model, (*self.pool, *self.held_out), self.completions)

    def evaluated_policies(self, temperature: float = 1.0, model: Any = None) -> dict[str, ModelPolicy]:
        """The model, or another one, on the evaluated training tasks ("train") and on the held-out tasks ("held_out")."""
        sets, model = {"train": self.pool[: self.evaluated], "held_out": self.held_out}, model or self.model
        return {name: ModelPolicy(model, tasks, self.completions, temperature) for name, tasks in sets.items()}


def open_setting(family: str, work: LanguageModelWork, seed: int, device: str, parameters: str = "") -> Setting:
    """A family with a new model of this seed, or with the given parameters.

    Limits torch to one CPU thread, and lets products of matrices on a GPU round their factors to TF32.

    Args:
        family: name of the family.
        work: sizes.
        seed: seed of the random weights.
        device: device of the model.
        parameters: parameters as ``parameters_text`` encodes them, or the path of a file of ``save_parameters``; "" for
            random weights.
    """
    torch.set_num_threads(1)
    if torch.device(device).type == "cuda":
        torch.set_float32_matmul_precision("high")
    form, tasks = work.form, work.task_seed
    network = family_settings(open_family(family), form).model.scratch
    if work.size is not None:
        network = replace(network, **asdict(work.size))
    model = build_model(network, family_tokenizer(family, tasks, form), seed=seed, device=device)
    if parameters.endswith(FILE):
        with loading(f"cannot read the parameters of the warm-up, {parameters}"):
            load_parameters(model, np.load(parameters, allow_pickle=False))
    elif parameters:
        load_parameters(model, parameters_of(parameters))
    pool = prompted_tasks(family, "train", work.pool, tasks, form)
    held_out = prompted_tasks(family, cast("Split", work.split), work.evaluated, tasks, form)
    changes = Changes(merged=work.learning.keys == "merged")
    pool = tuple(replace(table, mdp=changes.of(table.mdp)) for table in pool)
    moves = tuple(dict.fromkeys(pool[0].actions))
    return Setting(model, pool, held_out, completions_of(family, moves, tasks, form), work.evaluated)


def save_parameters(model: Any, path: Path) -> None:
    """Write all parameters to a file, whole or not at all; its name ends with ".npy"."""
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, parameter_vector(model))


def parameters_text(model: Any) -> str:
    """Encode all parameters as base64 of little-endian float32."""
    return base64.b64encode(parameter_vector(model).astype("<f4").tobytes()).decode("ascii")


def parameters_of(text: str) -> NDArray[np.float32]:
    """Decode the parameters: float32 (P,); the inverse of ``parameters_text``."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32)


@lru_cache(maxsize=4)
def family_tokenizer(name: str, seed: int = 0, form: TurnForm = FORM) -> Any:
    """The family's tokenizer, trained on prompts and actions of the seed's first training tasks."""
    settings = family_settings(open_family(name), form)
    return scratch_tokenizer(settings, list(family_tasks(name, "train", TOKENIZER_TASKS, seed)))


@lru_cache(maxsize=4)
def completions_of(name: str, moves: tuple[str, ...], seed: int = 0, form: TurnForm = FORM) -> Completions:
    """For each action of a table the ids of the completions that are read as it.

    Args:
        name: name of the family.
        moves: the actions of the environment, without the invalid one.
        seed: seed of the tokenizer's tasks.
        form: the form of a turn.

    Raises:
        ConfigError: the family's tokenizer cannot be used in its chat.
    """
    settings, tokenizer = family_settings(open_family(name), form), family_tokenizer(name, seed, form)
    dialect, chat = make_dialect(settings.prompting.dialect), settings.prompting.conversations(tokenizer, ()).chat
    if form.completion == "letters":
        return tuple(((*chat.encode_completion(move).tolist(),),) for move in moves)
    read_as: dict[str, list[tuple[int, ...]]] = {move: [] for move in moves}
    for token in range(len(tokenizer)):
        decision = dialect.parse(chat.decode_completion([token]))
        if decision.valid and decision.action in read_as:
            read_as[decision.action].append((token,))
    if form.completion == "token":
        return tuple(map(tuple, read_as.values()))
    firsts = [completions[0][0] for completions in read_as.values()]
    return tuple((ids,) for ids in product(firsts, repeat=PLANNED + 1))


@lru_cache(maxsize=16)
def prompted_tasks(
    name: str, split: Split, count: int, seed: int = 0, form: TurnForm = FORM
) -> tuple[PromptTable, ...]:
    """The first ``count`` tasks of a split of a family, with prompts; another seed gives other tasks."""
    family = open_family(name)
    env = bare_env(family)
    conversations = family_settings(family, form).prompting.conversations(family_tokenizer(name, seed, form), ())
    return tuple(prompted_task(task, env, conversations, form) for task in family_tasks(name, split, count, seed))


def prompted_task(
    task: Task, env: AgentEnv[Any, Any, Any], conversations: Conversations, form: TurnForm = FORM
) -> PromptTable:
    """Tabulate a task and build the prompt of every acting state.

    Raises:
        ConfigError, OracleLimitError: as ``tabulate``.
    """
    env.reset(options={"task_id": task.task_id, "task": dict(task.content)})
    boards = tabulate(env)
    views = _views(boards, env)
    # "" is the invalid action: it uses a turn and changes nothing else
    boards = with_action(boards, "", np.arange(boards.size, dtype=np.int32))
    mdp, states = with_history(boards, form.window) if form.window else (boards, [(s, ()) for s in range(boards.size)])
    prompts = []
    for state, history in states:
        observation, info = views[state]
        turns = tuple(Turn("", boards.actions[action], "") for action in history)
        prompts.append(conversations.build_prompt(View(observation, info, turns, env, UNUSED)).ids)
    return PromptTable(with_plans(mdp, PLANNED) if form.completion == "plan" else mdp, tuple(prompts))


def _views(mdp: FiniteMDP, env: AgentEnv[Any, Any, Any]) -> dict[int, tuple[Any, dict[str, Any]]]:
    """Observation and info of each acting state; the states are visited once, by snapshots."""
    snapshots: dict[int, str] = {mdp.start: env.get_state()}
    views: dict[int, tuple[Any, dict[str, Any]]] = {}
    pending = [mdp.start]
    for state in pending:  # grows while it is iterated
        views[state] = env.set_state(snapshots[state])
        for action, after in enumerate(mdp.next_states[state, :, 0].tolist()):
            if after < mdp.size and after not in snapshots:
                env.set_state(snapshots[state])
                env.step(env.action_from_text(mdp.actions[action]))
                snapshots[after] = env.get_state()
                pending.append(after)
    return views

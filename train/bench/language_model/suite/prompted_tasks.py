"""Tasks as tables together with the prompt of every state, for a language model whose prompt shows the state alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.parsing import make_dialect
from creditflow.envs.core import AgentEnv
from creditflow.envs.tasks import Task
from creditflow.train.bench.exact.mdp import FiniteMDP, tabulate
from creditflow.train.bench.language_model.suite.families import (
    Split,
    bare_env,
    family_settings,
    family_tasks,
    open_family,
)
from creditflow.train.bench.language_model.tables import PromptTable, prompt_ids, with_action
from creditflow.train.run.assemble import scratch_tokenizer

__all__ = ["action_tokens", "family_tokenizer", "prompted_task", "prompted_tasks"]

TOKENIZER_TASKS = 256


@lru_cache(maxsize=4)
def family_tokenizer(name: str, seed: int = 0) -> Any:
    """The family's tokenizer, trained on prompts and actions of the seed's first training tasks."""
    settings = family_settings(open_family(name))
    return scratch_tokenizer(settings, list(family_tasks(name, "train", TOKENIZER_TASKS, seed)))


@lru_cache(maxsize=4)
def action_tokens(name: str, actions: tuple[str, ...], seed: int = 0) -> tuple[NDArray[np.int64], ...]:
    """For each action the ids of the tokens that are read as it when they are the entire completion: int64 each.

    Raises:
        ConfigError: the family's tokenizer cannot be used in its chat.
    """
    settings, tokenizer = family_settings(open_family(name)), family_tokenizer(name, seed)
    dialect, chat = make_dialect(settings.prompting.dialect), settings.prompting.conversations(tokenizer, ()).chat
    parsed = [dialect.parse(chat.decode_completion([token])) for token in range(len(tokenizer))]
    read_as = np.array([decision.action if decision.valid else None for decision in parsed], dtype=object)
    return tuple(np.flatnonzero(read_as == action) for action in actions)


@lru_cache(maxsize=16)
def prompted_tasks(name: str, split: Split, count: int, seed: int = 0) -> tuple[PromptTable, ...]:
    """The first ``count`` tasks of a split of a family, with prompts; another seed gives other tasks."""
    family = open_family(name)
    env = bare_env(family)
    conversations = family_settings(family).prompting.conversations(family_tokenizer(name, seed), ())
    return tuple(prompted_task(task, env, conversations) for task in family_tasks(name, split, count, seed))


def prompted_task(task: Task, env: AgentEnv[Any, Any, Any], conversations: Conversations) -> PromptTable:
    """Tabulate a task and build the prompt of every acting state.

    Raises:
        ConfigError, OracleLimitError: as ``tabulate``.
    """
    env.reset(options={"task_id": task.task_id, "task": dict(task.content)})
    mdp = tabulate(env)
    prompts = _prompts(mdp, env, conversations)
    # "" is the invalid action: it uses a turn and changes nothing else
    return PromptTable(with_action(mdp, "", np.arange(mdp.size, dtype=np.int32)), prompts)


def _prompts(
    mdp: FiniteMDP, env: AgentEnv[Any, Any, Any], conversations: Conversations
) -> tuple[NDArray[np.int32], ...]:
    """The prompt of each acting state, from its observation; the states are visited once, by snapshots."""
    snapshots: dict[int, str] = {mdp.start: env.get_state()}
    prompts: dict[int, NDArray[np.int32]] = {}
    pending = [mdp.start]
    for state in pending:  # grows while it is iterated
        observation, info = env.set_state(snapshots[state])
        prompts[state] = prompt_ids(conversations, env, observation, info)
        for action, after in enumerate(mdp.next_states[state, :, 0].tolist()):
            if after < mdp.size and after not in snapshots:
                env.set_state(snapshots[state])
                env.step(env.action_from_text(mdp.actions[action]))
                snapshots[after] = env.get_state()
                pending.append(after)
    return tuple(prompts[state] for state in range(mdp.size))

"""Exact evaluation of a language model on tasks: success, score and turns as expectations instead of sampled estimates.

The values have no sampling noise. Their intervals are over tasks: how much the mean could differ on another panel of such tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP
from creditflow.train.bench.exact.values import state_occupancy, success
from creditflow.train.bench.language_model.policy import ExactPolicy
from creditflow.train.bench.language_model.tables import PromptTable, prompt_table
from creditflow.train.progress import progress
from creditflow.train.rollout.evaluation import clustered_interval
from creditflow.wrappers.invalid_actions import Policy

__all__ = ["ExactEvaluation", "TableValues", "evaluate_exactly", "table_values"]

STATES_AT_ONCE: Final = 4096  # tables are evaluated together until they have so many states
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TableValues:
    """Expectations of one policy on one task.

    Attributes:
        success: probability of success.
        score: expected score.
        turns: expected number of turns.
        invalid: expected number of invalid turns.
    """

    success: float
    score: float
    turns: float
    invalid: float


@dataclass(frozen=True)
class ExactEvaluation:
    """Exact values of one policy on several tasks.

    Attributes:
        task_ids: ids of the tasks.
        states: number of states of each task.
        temperature: of the sampled policy.
        sampled, greedy: values of each task.
        unresolved: largest probability in one state of prefixes that were pruned and count as invalid; times the number of
            turns, a bound on the error of the sampled values.
    """

    task_ids: tuple[str, ...]
    states: tuple[int, ...]
    temperature: float
    sampled: tuple[TableValues, ...]
    greedy: tuple[TableValues, ...]
    unresolved: float

    def per_task(self, policy: str, name: str) -> Floats:
        """float64 (tasks,): one value ("success", "score", "turns", "invalid") of the "sampled" or the "greedy" policy."""
        return np.array([getattr(values, name) for values in getattr(self, policy)])

    def summary(self) -> dict[str, Any]:
        """Numbers for tables, by name; intervals are over tasks."""
        out: dict[str, Any] = {
            "exact": True,
            "tasks": len(self.task_ids),
            "states": sum(self.states),
            "temperature": self.temperature,
        }
        for policy in ("sampled", "greedy"):
            for name in ("success", "score"):
                values = self.per_task(policy, name)
                low, high = clustered_interval(np.clip(values, 0.0, 1.0))
                key = policy if name == "success" else f"{policy}_score"
                out |= {key: float(values.mean()), f"{key}_ci_low": low, f"{key}_ci_high": high}
            turns, invalid = self.per_task(policy, "turns"), self.per_task(policy, "invalid")
            out |= {
                f"{policy}_turns": float(turns.mean()),
                f"{policy}_invalid_fraction": float(invalid.sum() / turns.sum()),
            }
        out["sampled_error_bound"] = self.unresolved * out["sampled_turns"]
        return out

    def line(self) -> str:
        """Format the results as one line."""
        s = self.summary()
        clauses = [
            f"{policy}{label} {s[policy]:.4f} [{s[f'{policy}_ci_low']:.3f}, {s[f'{policy}_ci_high']:.3f}] in "
            f"{s[f'{policy}_turns']:.1f} turns, invalid {s[f'{policy}_invalid_fraction']:.4f}"
            for policy, label in (("greedy", ""), ("sampled", f" at temperature {self.temperature:g}"))
        ]
        return f"exact: {'; '.join(clauses)}; {s['tasks']} tasks, {s['states']} states"

    def rows(self) -> list[dict[str, Any]]:
        """One row per task: id, number of states, and the values of both policies."""
        rows = []
        columns = zip(self.task_ids, self.states, self.sampled, self.greedy, strict=True)
        for task_id, states, sampled, greedy in columns:
            row: dict[str, Any] = {"task_id": task_id, "states": states}
            for policy, values in (("sampled", sampled), ("greedy", greedy)):
                for name in ("success", "score", "turns", "invalid"):
                    row[f"{policy}_{name}"] = getattr(values, name)
            rows.append(row)
        return rows


def table_values(mdp: FiniteMDP, policy: Floats) -> TableValues:
    """Exact success, score, turns and invalid turns of a tabular policy, float64 (S, A), on a task."""
    flags = replace(mdp, terminal_score=mdp.terminal_success.astype(float), limit_score=np.zeros(mdp.size))
    occupied = state_occupancy(mdp, policy).sum(axis=0)
    invalid = (policy * ~mdp.valid).sum(axis=1)
    return TableValues(
        float(success(flags, policy)), float(success(mdp, policy)), float(occupied.sum()), float(occupied @ invalid)
    )


def evaluate_exactly(
    agent: LanguageModelAgent,
    tokenizer: Any,
    env: AgentEnv[Any, Any, Any],
    tasks: Sequence[Task],
    *,
    temperature: float = 1.0,
    invalid_actions: Policy = "keep",
    max_states: int = MAX_TABLE_STATES,
) -> ExactEvaluation:
    """Evaluate a model on tasks, sampled and greedily.

    Args:
        agent: a language model whose backend is ``transformers``.
        tokenizer: the model's tokenizer.
        env: environment of the tasks; it is reset.
        tasks: tasks to tabulate.
        temperature: of the sampled policy, > 0.
        invalid_actions: what an invalid action does, as in ``InvalidActions``.
        max_states: maximum number of states of a task.

    Raises:
        ConfigError: no tasks, or a model, prompt, dialect or environment that has no finite table.
        OracleLimitError: a task with more than ``max_states`` states.
    """
    if not tasks:
        raise ConfigError("exact evaluation needs at least one task, got none")
    if not temperature > 0.0:
        raise ConfigError(
            f"the sampled policy needs a temperature above 0, got {temperature}; greedy is always evaluated"
        )
    policies: dict[tuple[str, ...], ExactPolicy] = {}
    sampled, greedy, sizes = list[TableValues](), list[TableValues](), list[int]()
    for tables in _together(agent, env, tasks, invalid_actions, max_states):
        actions = tables[0].actions
        if actions not in policies:
            policies[actions] = ExactPolicy.of_agent(agent, tokenizer, env, actions)
        policy = policies[actions]
        for values, of_tables in (
            (sampled, policy.probabilities(tables, temperature)),
            (greedy, policy.greedy(tables)),
        ):
            values += [
                table_values(table.mdp, values_of_policy)
                for table, values_of_policy in zip(tables, of_tables, strict=True)
            ]
        sizes += [table.mdp.size for table in tables]
    return ExactEvaluation(
        tuple(task.task_id for task in tasks),
        tuple(sizes),
        temperature,
        tuple(sampled),
        tuple(greedy),
        max(policy.unresolved for policy in policies.values()),
    )


def _together(
    agent: LanguageModelAgent,
    env: AgentEnv[Any, Any, Any],
    tasks: Sequence[Task],
    invalid_actions: Policy,
    max_states: int,
) -> Iterator[list[PromptTable]]:
    """Yield the tables in order, several at once if they have the same actions, with progress over tasks."""
    waiting: list[PromptTable] = []
    for task in progress(tasks, "exact evaluation", len(tasks)):
        table = prompt_table(agent, env, task, invalid_actions=invalid_actions, max_states=max_states)
        full = sum(tabulated.mdp.size for tabulated in waiting) >= STATES_AT_ONCE
        if waiting and (full or waiting[0].actions != table.actions):
            yield waiting
            waiting = []
        waiting.append(table)
    yield waiting

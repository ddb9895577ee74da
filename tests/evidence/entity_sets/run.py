"""E-GRPO's two sets of entities: what the embedded questions say of them, and what a failed rollout earns by each.

    python tests/evidence/entity_sets/run.py --out tests/evidence/entity_sets/results.json

Every question of the panel's splits valid and test has a group of four failed rollouts of one turn: its thought repeats the
question, names the answer, names the entities that the construction replaced, or names nothing. Needs the core alone; half a
minute.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.tasks import open_library
from creditflow.wrappers.credit.entities.egrpo import EGRPO
from creditflow.wrappers.graphs.entity_graph import EntityGraph
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

SETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "graph": {"entities": "graph", "exclude_query_entities": False},
    "graph without the question's": {"entities": "graph"},
    "construction": {},
}


def thoughts_of(task: dict[str, Any]) -> dict[str, str]:
    """The thought of each of the four rollouts."""
    return {
        "repeats the question": task["text"],
        "names the answer": f"I guess {task['answer_node']}.",
        "names what was replaced": f"So far: {', '.join(task['construction_entities'])}.",
        "names nothing": "I do not know.",
    }


def failed_group(task: dict[str, Any]) -> Group:
    """A group in which all rollouts failed."""
    members = []
    for name, thought in thoughts_of(task).items():
        turn = Turn("0", "answer[unknown]", "1", thought=thought)
        members.append(Trajectory(name, "g", "task", (turn,), False, 0.0, "failed", "1"))
    return Group(tuple(members), task)


def measure(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Per set: its size, what the question says of it, and the mean credit of each rollout."""
    results: dict[str, Any] = {"questions": len(tasks), "sets": {}}
    for name, options in SETS.items():
        scheme = EGRPO(**options)
        sizes, said, with_answer, advantages = [], [], [], []
        for task in tasks:
            entities = scheme.entity_set(EntityGraph.from_task(task))
            sizes.append(len(entities))
            said.append(len(entities.matcher("normalized").found(task["text"])))
            with_answer.append(task["answer_node"] in entities.names)
            advantages.append(scheme.assign(failed_group(task)).outcome_advantages)
        means = np.mean(advantages, axis=0).round(3).tolist()
        results["sets"][name] = {
            "entities": round(float(np.mean(sizes)), 2),
            "said by the question": round(sum(said) / sum(sizes), 3),
            "contains the answer": round(float(np.mean(with_answer)), 3),
            "advantage": dict(zip(thoughts_of(tasks[0]), means, strict=True)),
        }
    return results


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    tasks = []
    for split in ("valid", "test"):
        source = open_library(panel=f"standard-v1:{split}").tasks
        tasks += [dict(source.get(task_id).content) for task_id in source.task_ids()]
    results = measure(tasks)
    text = json.dumps(results, indent=1) + "\n"
    print(text, end="")
    with atomic_writer(arguments.out) as out:
        out.write(text)


if __name__ == "__main__":
    main()

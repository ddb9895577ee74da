"""Writes ``tests/evidence/search_baselines/results.json`` and the page: what the prompted search agents and simulated search let a scripted reader reach.

    PYTHONPATH=src:tests python tests/evidence/search_baselines/run.py

No language model plays: ``helpers.models.scripted_reader`` reads facts where they are written and knows none by itself, so the
numbers are upper bounds of each way of prompting, and of a search engine at each level of noise. All 192 test questions of the
embedded panel, one greedy episode each; two readers, one of which overlooks a fifth of the facts in a prompt.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from helpers.models.scripted_model import ScriptedBackend, scripted_model
from helpers.models.scripted_reader import ScriptedReader

from creditflow.agents.backends.base import Sampling
from creditflow.agents.base import Agent
from creditflow.agents.language_model.agent import LanguageModelAgent
from creditflow.agents.language_model.react import ReactAgent
from creditflow.agents.language_model.search_baselines import SearchBaseline
from creditflow.agents.language_model.search_o1 import SearchO1Agent
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.statistics.intervals import normal_interval, wilson_interval
from creditflow.wrappers.group_env import GroupEnv

TARGET = Path(__file__).with_name("results.json")
PANEL = "standard-v1:test"
NOISE = (0.0, 0.25, 0.5, 0.75, 1.0)
OVERLOOKS = (0.0, 0.2)
Maker = Callable[[LanguageModelAgent], Agent]
SEARCH_AGENT = "search (search-v1)"
AGENTS: dict[str, tuple[str, Maker]] = {
    "direct": ("search_r1", lambda model: SearchBaseline(model, "direct")),
    "cot": ("search_r1", lambda model: SearchBaseline(model, "cot")),
    "rag": ("search_r1", lambda model: SearchBaseline(model, "rag")),
    "react": ("plain", ReactAgent),
    SEARCH_AGENT: ("search_r1", lambda model: model.with_prompting("search-v1", "bare", name="search")),
    "search-o1": ("search_r1", SearchO1Agent),
}


def main() -> None:
    """Play every agent, and the searching agent at every level of noise."""
    rows = []
    for overlooks in OVERLOOKS:
        for name, (dialect, make) in AGENTS.items():
            rows.append(play(name, make, overlooks, dialect=dialect))
        dialect, make = AGENTS[SEARCH_AGENT]
        simulated = [{"start": noise, "end": noise} for noise in NOISE]
        rows += [play(SEARCH_AGENT, make, overlooks, dialect=dialect, simulation=one) for one in simulated]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    evidence = {
        "job": "search_baselines",
        "command": "python tests/evidence/search_baselines/run.py",
        "commit": commit,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": "1 thread of 2 cores",
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "model": "scripted reader (tests/helpers/models/scripted_reader.py), no language model; a token is a character",
        "panel": PANEL,
        "rows": rows,
    }
    with atomic_writer(TARGET) as stream:
        json.dump(evidence, stream, indent=1, allow_nan=False)
        stream.write("\n")
    with atomic_writer(TARGET.with_name("README.md")) as stream:
        stream.write(page(evidence))


def page(evidence: dict[str, Any]) -> str:
    """The table as a page."""
    lines = [
        "# Search agents and simulated search, played by a scripted reader",
        "",
        f"`{evidence['command']}` made these results at commit {evidence['commit'][:8]} on {evidence['date']}, with {evidence['machine']}. "
        f"The rows are in `{TARGET.name}`.",
        "",
        "No language model plays. A scripted reader knows the decomposition of every question and no fact, and reads what is in its prompt. "
        "The numbers therefore bound",
        "what each way of prompting lets through. They do not rank language models, and `direct` and `cot` are 0 by construction. "
        "`overlooks` is the fraction of the facts",
        f"in a prompt that are not read in that call. There are {evidence['rows'][0]['questions']} questions of `{evidence['panel']}`, "
        "with one greedy episode each, at most 10 turns and 3 passages per search.",
        "Exact match has its Wilson 95 % interval over questions. A token is a character.",
        "",
        "| overlooks | agent | search | exact match | golden passages seen | searches | model calls | longest prompt | characters read |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in evidence["rows"]:
        low, high = row["em_interval"]
        lines.append(
            f"| {row['overlooks']} | {row['agent']} | {row['search']} | {row['em']:.3f} [{low:.3f}, {high:.3f}] | {row['evidence']:.3f} | "
            f"{row['searches']:.2f} | {row['model_calls']:.2f} | {row['longest_prompt']:.0f} | {row['characters_read']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def play(name: str, make: Maker, overlooks: float, *, limit: int = 0, **options: Any) -> dict[str, Any]:
    """One row: an agent on the panel's questions (``limit``: the first ones), with intervals over questions."""
    env = GroupEnv("wikisearch", size=1, panel=PANEL, **options)
    base = env.members[0].base
    assert isinstance(base, WikiSearchEnv)
    tasks = [base.tasks.get(task_id) for task_id in base.tasks.task_ids()]
    tasks = tasks[:limit] if limit else tasks
    model = scripted_model(reader(base, [Question.from_json(task.content) for task in tasks], overlooks))
    agent = make(model.with_sampling(replace(Sampling(), max_new_tokens=1_000, temperature=0.0)))
    engine, backend = RolloutEngine(lambda: env), model.backend
    assert isinstance(backend, ScriptedBackend)
    measured: list[list[float]] = []
    for task in tasks:
        backend.asked.clear()
        [group] = engine.play(agent, [task], seed=0)
        [one] = group.trajectories
        grade = base.episode.grade
        lengths = [len(prompt) for prompt in backend.asked]
        seen = base.episode.bits.bit_count() / max(1, len(base.episode.question.supporting))
        calls = [len(lengths), sum(lengths), max(lengths)]
        measured.append([grade.em, grade.f1, seen, sum(bool(turn.queries) for turn in one.turns), *calls])
    row = {
        "agent": name,
        "overlooks": overlooks,
        "search": search_of(options),
        "questions": len(tasks),
        **summary(measured),
    }
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def reader(base: WikiSearchEnv, questions: Sequence[Question], overlooks: float) -> ScriptedReader:
    """The scripted reader of these questions."""
    retriever = base.library.retriever
    assert isinstance(retriever, LocalRetriever)
    names = sorted({step.passage_id for question in questions for step in question.steps if step.passage_id})
    texts = {passage.id: passage.text for passage in retriever.fetch(names)}
    return ScriptedReader({question.text: question for question in questions}, texts, overlooks)


def search_of(options: dict[str, Any]) -> str:
    """How searches are answered, in words."""
    return f"simulated, noise {options['simulation']['start']}" if "simulation" in options else "BM25"


def summary(measured: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Means over questions; 95 % intervals of exact match (Wilson), F1 and the share of golden passages seen (normal)."""
    em, f1, seen, searches, calls, read, longest = np.array(measured, np.float64).T
    return {
        "em": float(em.mean()), "em_interval": list(wilson_interval(float(em.sum()), len(em))),
        "f1": float(f1.mean()), "f1_interval": np.clip(normal_interval(f1), 0.0, 1.0).tolist(),
        "evidence": float(seen.mean()), "evidence_interval": np.clip(normal_interval(seen), 0.0, 1.0).tolist(),
        "searches": float(searches.mean()), "model_calls": float(calls.mean()),
        "characters_read": float(read.mean()), "longest_prompt": float(longest.mean()),
    }  # fmt: skip


if __name__ == "__main__":
    main()

"""Writes ``tests/evidence/synthesis/results.json``: yield, rejections and difficulty of questions over real passages, beside published ones.

    PYTHONPATH=src python tests/evidence/synthesis/run.py ../shared/data/search

The folder has passages.jsonl.gz, and hotpotqa, 2wiki and musique questions with golden passages in it. Only counts, numbers and
digests are written. About two minutes.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.question_files import read_questions
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.retrieval.opening import open_corpus
from creditflow.envs.wikisearch.synthesis.difficulty import difficulty_of
from creditflow.train.commands.data_synthesize import summary_of
from creditflow.train.statistics.intervals import wilson_interval
from creditflow.train.synthesis.build import synthesize
from creditflow.train.synthesis.settings import SynthesisSettings

TARGET = Path(__file__).with_name("results.json")
SEEDS, LIMIT, PLAYED = (0, 1, 2), 300, 100
COMMAND = "creditflow data synthesize --corpus passages.jsonl.gz --limit {limit} --seed {seed} --out questions.jsonl"
TOP_K = (3, 10)


def main(folder: str) -> None:
    """Synthesise with three seeds, play some of the questions, and measure the published ones."""
    corpus = Path(folder) / "passages.jsonl.gz"
    retriever = open_corpus(str(corpus))
    runs = []
    with tempfile.TemporaryDirectory() as place:
        for seed in SEEDS:
            print(f"seed {seed}", file=sys.stderr, flush=True)
            out = Path(place) / f"{seed}.jsonl"
            found, graph = synthesize(retriever, SynthesisSettings(limit=LIMIT, seed=seed), out)
            summary = summary_of(found, retriever)
            del summary["difficulty"]
            if graph is not None:
                summary["graph"] = {"names": len(graph.nodes), "statements": len(graph.statements)}
            runs.append({
                "command": COMMAND.format(limit=LIMIT, seed=seed), **summary,
                "blake2b": blake2b(out.read_bytes(), digest_size=16).hexdigest(),
                "difficulty": measured(retriever, found.questions), "played": played(str(out), str(corpus)),
            })  # fmt: skip
    published = {
        name: measured(retriever, [q for q in read_questions(f"{folder}/{name}.jsonl.gz") if q.supporting])
        for name in ("hotpotqa", "2wiki", "musique")
    }
    document = {
        "command": f"python tests/evidence/synthesis/run.py {folder}",
        "date": datetime.now(UTC).date().isoformat(),
        "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip(),
        "machine": f"{platform.system()} {platform.machine()}, 2 cores", "python": platform.python_version(),
        "numpy": np.__version__, "passages": len(retriever.corpus), "corpus": retriever.digest,
        "intervals": "95 %, Wilson, over questions", "synthesised": runs, "published": published,
    }  # fmt: skip
    with atomic_writer(TARGET) as stream:
        stream.write(json.dumps(document, indent=1, allow_nan=False) + "\n")


def measured(retriever: LocalRetriever, questions: Sequence[Question]) -> dict[str, Any]:
    """Fractions with intervals, by the number of results of a search."""
    return {f"top_{k}": intervals(difficulty_of(retriever, questions, k)) for k in TOP_K}


def intervals(found: dict[str, float]) -> dict[str, Any]:
    """Each fraction as [low, fraction, high]."""
    count = int(found["questions"])
    rows: dict[str, Any] = {"questions": count}
    for name, value in found.items():
        if name != "questions":
            interval = wilson_interval(value * count, count)
            rows[name] = [round(x, 4) for x in (interval.low, value, interval.high)]
    return rows


def played(questions: str, corpus: str) -> dict[str, Any]:
    """How many of the first questions the environment's exact expert answers, in how many steps."""
    env = WikiSearchEnv(questions=questions, corpus=corpus)
    steps = []
    for task_id in env.tasks.task_ids()[:PLAYED]:
        _, info = env.reset(options={"task_id": task_id})
        count, reward = 0, 0.0
        while not info["stop_reason"] and (actions := env.oracle.optimal_actions(env.get_state())):
            _, reward, _, _, info = env.step(actions[0])
            count += 1
        if reward == 1.0:
            steps.append(count)
    return {"questions": PLAYED, "answered": len(steps), "mean_steps": round(float(np.mean(steps)), 3)}


if __name__ == "__main__":
    main(*sys.argv[1:])

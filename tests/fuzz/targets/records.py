"""Small files that commands write and read again: results of benchmarks, metrics, labels, cached scores and verdicts, agents."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.pretrained import (
    PromptingConfig,
    folder_end_ids,
    read_agent_file,
    write_agent_file,
)
from creditflow.envs.wikisearch.grading.grade import ModelJudge
from creditflow.train.annotate.judge import JudgeAnnotator
from creditflow.train.annotate.success.labels import Labels, read_labels, write_labels
from creditflow.train.bench.document import read_results
from creditflow.train.bench.jobs import Job, JobRunner
from fuzz.mutate_bytes import mutate_bytes
from fuzz.mutate_data import freeze, mutate_json, mutate_lines
from fuzz.samples import bomb
from fuzz.target import Target
from fuzz.targets.commands import command

EVIDENCE = Path(__file__).parents[2] / "evidence" / "families" / "results.json.gz"
_HOSTILE = (b"[" * 200_000, b"9" * 5000, b"\xff\xfe", b"", b"[]", b"{}", b"null", b'{"a":' * 50_000, b"caf\xc3\xa9")


@lru_cache(maxsize=1)
def _document() -> bytes:
    """Return stored results of the benchmark, reduced to one suite."""
    document = json.loads(gzip.decompress(EVIDENCE.read_bytes()))
    document["suites"] = document["suites"][:1]
    return freeze(document)


def _results(data: bytes, folder: Path) -> None:
    path = folder / "results.json"
    path.write_bytes(data)
    command("bench", "--show", str(path))


def _packed_results(data: bytes, folder: Path) -> None:
    (folder / "results.json.gz").write_bytes(data)
    read_results(folder / "results.json.gz")


def _kept(data: bytes, folder: Path) -> None:
    """Resume a benchmark from a damaged result of a finished job."""
    job = Job("one", _work, ())
    JobRunner(folder, "mark", 1).run([job], "x")
    [kept] = folder.glob("mark/*.json")
    kept.write_bytes(data)
    JobRunner(folder, "mark", 1).run([job], "x")


def _work() -> Any:
    return {"a": 1}


def _labels(place: Path) -> Sequence[bytes]:
    write_labels(
        place / "labels.jsonl", [Labels("g", f"t{i}", ("+", "-", "0")[: 1 + i], True, "rule") for i in range(2)]
    )
    return [(place / "labels.jsonl").read_bytes()]


def _agents(place: Path) -> Sequence[bytes]:
    write_agent_file(place / "agent.json", PromptingConfig(), Sampling())
    return [(place / "agent.json").read_bytes()]


def _scores(data: bytes, folder: Path) -> None:
    (folder / "marks.jsonl").write_bytes(data)
    JudgeAnnotator("http://127.0.0.1:9", "m", cache=str(folder / "marks.jsonl"))


def _verdicts(data: bytes, folder: Path) -> None:
    (folder / "verdicts.jsonl").write_bytes(data)
    ModelJudge("http://127.0.0.1:9", "m", cache=str(folder / "verdicts.jsonl"))


def _reads(name: str, function: Any) -> Any:
    def read(data: bytes, folder: Path) -> None:
        (folder / name).write_bytes(data)
        function(folder / name)

    return read


def _metrics(path: Path) -> None:
    from creditflow.train.policy.checkpoint import Progress
    from creditflow.train.run.metrics_log import MetricsLogger

    MetricsLogger(path.parent, after=Progress("rl", 5))


METRICS = (
    b'{"phase": "sft", "step": 1, "kind": "train", "loss": 0.5}\n{"phase": "rl", "step": 2, "kind": "evaluation"}\n'
)

TARGETS = (
    Target(
        name="records/results", read=_results, seeds=lambda _: [_document()], mutate=mutate_json, cases=10,
        place="results.json", traps=lambda: _HOSTILE, seconds=20.0,
    ),
    Target(
        name="records/results-gz", read=_packed_results, seeds=lambda _: [gzip.compress(_document())], mutate=mutate_bytes,
        cases=12, place="results.json.gz", seconds=20.0,
        traps=lambda: [bomb(b'"', b"a" * 1000, 1500), bomb(b"", b"[" * 1000, 20), gzip.compress(_document())[:-9], b""],
    ),
    Target(name="records/kept-work", read=_kept, seeds=lambda _: [b'{"a":1}'], mutate=mutate_json, cases=30, traps=lambda: _HOSTILE),
    Target(
        name="records/labels", read=_reads("labels.jsonl", read_labels), seeds=_labels, mutate=mutate_lines, cases=80,
        place="labels.jsonl", traps=lambda: _HOSTILE,
    ),
    Target(
        name="records/agent", read=_reads("agent.json", read_agent_file), seeds=_agents, mutate=mutate_json, cases=80,
        place="agent.json", traps=lambda: _HOSTILE,
    ),
    Target(
        name="records/generation", read=_reads("generation_config.json", lambda path: folder_end_ids(str(path.parent))),
        seeds=lambda _: [b'{"eos_token_id": [1, 2], "pad_token_id": 0}'], mutate=mutate_json, cases=80,
        place="generation_config.json", traps=lambda: _HOSTILE,
    ),
    Target(
        name="records/marks", read=_scores, seeds=lambda _: [b'{"key": "k", "score": 0.5}\n'], mutate=mutate_lines, cases=80,
        place="marks.jsonl", traps=lambda: _HOSTILE,
    ),
    Target(
        name="records/verdicts", read=_verdicts, seeds=lambda _: [b'{"key": "k", "correct": true}\n'], mutate=mutate_lines,
        cases=80, place="verdicts.jsonl", traps=lambda: _HOSTILE,
    ),
    Target(
        name="records/metrics", read=_reads("metrics.jsonl", _metrics), seeds=lambda _: [METRICS], mutate=mutate_lines,
        cases=80, place="metrics.jsonl", traps=lambda: _HOSTILE, needs=("torch",),
    ),
)  # fmt: skip

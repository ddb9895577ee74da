"""The index of stored evidence: every file with one line, the command that made it, and its page."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any, Final

from creditflow.assets.site.make.submissions import FOLDER as SUBMITTED
from creditflow.assets.site.markdown import table
from creditflow.assets.site.repository import ROOT, TARGETS

__all__ = ["LINES", "pages"]

FOLDER = "tests/evidence"

# what a file shows, in one line; a file without an entry says it itself
LINES: Final = {
    "alfworld/fuzz.json": "our ALFWorld rules against TextWorld, step by step, under random play",
    "alfworld/games.json": "all released games parse, their solutions win, and the oracle's distance is their length",
    "alfworld/houses.json": "how close generated houses come to the released ones",
    "alfworld/manager.json": "batched games compared with ALFWorld's own batch environment, in steps per second",
    "alfworld/transfer/repeated.json": "the same transfer with repeated runs",
    "alfworld/transfer/results.json": "policies trained on generated houses, played on released games",
    "analyses/results.json": "the papers' own analyses on our rollouts",
    "bench/full.json.gz": "all schemes in 66 settings with exact values, and 22 predictions",
    "bench/predictions.json": "22 predictions, written before the run",
    "bench/sweep.json.gz": "GraphGPO's discount of distances, RewardFlow's three propagations",
    "choice/cells.json": "settings with features of their logs: can a rule choose the scheme?",
    "choice/options.json": "options of grouptd by what state keys do",
    "credit_bench/results.json": "AgentCreditBench's task families and both kinds of its metrics, with our schemes",
    "dense/encoder.json": "a small trained encoder compared with BM25",
    "dense/exact.json": "exact vector search up to a million vectors",
    "dense/libraries.json": "vector search libraries compared",
    "dense/lists.json": "recall and speed of inverted lists",
    "dense/published.json": "a published encoder compared with BM25 on questions with golden passages",
    "dense/published_states.json": "a published encoder compared with n-grams at finding equal states",
    "engines/ray.json": "rollouts on two nodes, one killed: nothing lost or doubled",
    "engines/trl.json": "a run in TRL with credit by turn, its contract and resume",
    "engines/verl.json": "contract tests, dry pass and sizes in verl",
    "engines/vllm.json": "vLLM as the sampler: agreement, weight pushes, speed",
    "entity_learning/replication/results.json.gz": "the same with a world and a base model for each seed, stated before it ran",
    "entity_learning/results.json.gz": "do small language models learn to search better from entity credit?",
    "estimators.json": "advantage code of TRL, verl and verl-agent evaluated by the same benchmark",
    "families/results.json.gz": "tables that learn in ALFWorld, WebShop and WikiSearch, every scheme",
    "gpu/h200.json": "equality tests and speed on an NVIDIA H200",
    "hours/results.json": "estimated and measured seconds of small training runs on one core",
    "language_models/lm.json.gz": "small language models, ten seeds, every scheme, exact success",
    "language_models/second.json.gz": "the same with other tasks",
    "protocol/first.json.gz": "80 settings of choices that should not matter, two kinds of task",
    "protocol/second.json.gz": "the same design with other tasks",
    "merging/results.json": "merging similar text states: effect on states and credit",
    "openenv.json": "steps per second of served environments compared with OpenEnv's template",
    "peer/trl.json": "our trainer compared with TRL's at the same work",
    "pica/downstream.json": "learning with PiCA under success models of varied error",
    "pica/fair.json": "PiCA's success model at reading relations, compared with linear models over the same words",
    "pica/proof.json": "PiCA's success model, trained from random weights, compared with a lexical baseline",
    "quickstart/quickstart.json": "RL after imitation compared with more imitation, four seeds",
    "retrieval.json": "Lucene, tantivy and our BM25: recall and speed up to a million passages",
    "sb3/sb3.json": "PPO with a dense reward from credit",
    "schemes/cost.json": "processor time of every scheme",
    "schemes/results.json.gz": "results of the schemes with tabular policies, and with one policy for many tasks",
    "search_baselines/results.json": "search agents and simulated search, played by a scripted reader",
    "search_training/analyses.json": "the papers' analyses of search, on rollouts of small trained models",
    "search_training/results.json.gz": "ARPO, ZeroSearch and no search, trained against grpo with the real engine",
    "sokoban/levels.json": "our generator compared with gym-sokoban's: the same distribution",
    "sokoban/speed.json": "steps per CPU second compared with gym-sokoban, jumanji and gem-llm",
    "text_games/results.json": "what a wrong state key costs",
    "vision/more_demonstrations.json": "a small policy that reads pictures, with more demonstrations",
    "vision/vision.json": "a small policy that reads pictures",
    "webshop_million.json": "a million products imported, opened and played",
}
_DIGITS: Final = re.compile(r"^[0-9a-f]{7,9}")  # "-dirty" or a remark may follow
# files made on a branch that was rebased before it landed: the commit that they name is not in the history
REBASED: Final = (
    "alfworld/transfer/repeated.json", "choice/options.json", "dense/published.json", "entity_learning/replication/pilot/results.json.gz",
    "entity_learning/replication/pilot_distractors/results.json.gz", "entity_learning/replication/results.json.gz",
    "sokoban/levels.json", "sokoban/speed.json",
)  # fmt: skip
# files whose command stands on the page of an environment
ELSEWHERE: Final = {
    "alfworld/transfer/repeated.json": "environments/alfworld_transfer",
    "alfworld/transfer/results.json": "environments/alfworld_transfer",
    "webshop_million.json": "environments/webshop",
}


def pages() -> dict[str, tuple[str, str]]:
    """The index; the pages of the folder are those of the repository."""
    rows = [["what it shows", "command", "commit", "file"]]
    for path in result_files():
        name = path.relative_to(ROOT / FOLDER).as_posix()
        document = json.loads(_text(path))
        command, commit = origin(document)
        commit += " (rebased since)" * (name in REBASED)
        where = f"{FOLDER}/{name}"
        page = next((TARGETS[target] for target in (str(Path(where).parent), where.replace(".json", ".md")) if target in TARGETS), "")  # fmt: skip
        page = page or ELSEWHERE.get(name, "")
        line = LINES.get(name) or about(document, name)
        label = f"[{line}](/{page}.md)" if page else line
        rows.append([label, f"`{command}`" if command else "see the page", commit, f"`{where}`"])
    listed = sorted(page.removeprefix("evidence/") for page in TARGETS.values() if page.startswith("evidence/"))
    tree = "```{toctree}\n:hidden:\n" + "\n".join(dict.fromkeys(listed)) + "\n```\n"
    head = (
        "# Evidence\n\nThis page lists the files behind the numbers on this site. Every number comes from a stored file that a command wrote. The command, and usually "
        "the commit and the machine, are in the file or on its page. The command in the table is that of the commit, and the page has the present one. If a row has a link, "
        "its page reports what was found and what was not. Commits marked as rebased have a new hash, which `git log FILE` finds.\n"
    )
    return {"evidence/index": ("", f"{head}\n{table(rows)}\n{tree}")}


def about(document: Any, name: str) -> str:
    """What a file without a line above says of itself.

    >>> about({"what": "a run"}, "a.json"), about([], "b/c_d.json.gz")
    ('a run', 'c d')
    """
    said = [document.get(key) for key in ("what", "job")] if isinstance(document, dict) else []
    return next(
        (text for text in said if isinstance(text, str) and text), Path(name).name.partition(".")[0].replace("_", " ")
    )


def result_files() -> list[Path]:
    """The result files of the folder, without those that others sent, which the leaderboard shows."""
    folder = ROOT / FOLDER
    paths = sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz")))
    return [path for path in paths if path.parent != ROOT / SUBMITTED]


def _text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")


def origin(document: Any) -> tuple[str, str]:
    """The command that wrote a result file, and its commit; "" where it does not say."""
    if not isinstance(document, dict):
        return "", ""
    records = [document, document.get("provenance") or {}]
    records += [value for value in document.values() if isinstance(value, dict)]
    command = next((record["command"] for record in records if isinstance(record.get("command"), str)), "")
    several = document.get("commands")
    command = command or (several[0] + " …" if isinstance(several, list) and several else "")
    commit = next((str(record["commit"]) for record in records if record.get("commit")), "")
    return command.partition(" --force")[0], "".join(_DIGITS.findall(commit)[:1])

"""Small language models trained by the search baselines: real search, ZeroSearch's simulations, ARPO's branches, no search at all.

    python tests/evidence/search_training/run.py --work runs/entity_learning --out tests/evidence/search_training

Every arm starts from the warm-ups of ``tests/evidence/entity_learning`` (run that study first: WORK holds its world and its warm-ups)
and takes as many updates of as many episodes under grpo as that study's arm ``grpo``, which is the baseline; all are judged with
the real engine, ``no search`` without it. Parts lie in ``WORK/baselines``, so that a killed run goes on. Needs torch; one thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.entity_learning.arms import Arm, Judge
from evidence.entity_learning.summary import interval_text
from evidence.entity_learning.warm_up import settings_of
from evidence.entity_learning.world import write_world

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.settings.branching import BranchConfig
from creditflow.train.settings.schema import CreditConfig, TrainConfig
from creditflow.train.statistics.clustered import crossed_mean
from creditflow.train.statistics.contrasts import contrasts_of
from creditflow.train.text_table import text_table
from creditflow.wrappers import Group

EPISODES: Final = 64  # an update's, of every arm
CONSTANT: Final = 0.194  # the mean of ZeroSearch's curriculum from 0 to 0.5 over a run
HALF: Final = 4  # first episodes of ARPO's groups of 8, as 8 of 16 in its release
ARPO: Final = BranchConfig(
    max_trajectories=8, entropy_tokens=18, rule="probability", base=0.5, slope=0.335, fill_group=True, shared_prefix_advantage="sum"
)  # fmt: skip
ARMS: Final[dict[str, dict[str, Any]]] = {
    "zerosearch": {"simulation": {"start": 0.0, "end": 0.5, "draw": "call"}},
    "zerosearch by query": {"simulation": {"start": 0.0, "end": 0.5}},
    "constant by query": {"simulation": {"start": CONSTANT, "end": CONSTANT}},
    "arpo": {},
    "no search": {"max_steps": 1},
}
BASELINE: Final = "grpo, real search"  # the entity study's arm grpo: same start, updates and judge


class SearchArm(Arm):
    """An arm of the entity study whose rollouts may branch."""

    def __init__(self, settings: TrainConfig, world: Path, names: Sequence[str]) -> None:
        super().__init__(settings, world, names)
        rollout, env = settings.rollout, settings.env
        self.rollouts._engine = RolloutEngine(
            group_env_factory(env, rollout.group_size, texts=True),
            branching=rollout.branching, make_branch=group_env_factory(env, 1, texts=True),
        )  # fmt: skip

    def measured(self, groups: Sequence[Group]) -> dict[str, float]:
        """What the rollouts of an update do, and how many there are."""
        return super().measured(groups) | {"episodes": sum(len(group) for group in groups)}


def settings_for(settings: TrainConfig, name: str) -> TrainConfig:
    """The settings of an arm: they differ in the environment's options, and for ARPO in the rollout."""
    env = replace(settings.env, options={**settings.env.options, **ARMS[name]})
    rollout = replace(settings.rollout, group_size=HALF, branching=ARPO) if name == "arpo" else settings.rollout
    return replace(settings, env=env, rollout=rollout, credit=CreditConfig(scheme="grpo"))


def learn(settings: TrainConfig, start: Path, name: str, world: Path, names: Sequence[str]) -> dict[str, Any]:
    """Train one arm from a warm-up; judged at temperature 1, as it was trained, and greedily."""
    trained = settings_for(settings, name)
    with tempfile.TemporaryDirectory() as folder:
        arm = SearchArm(
            replace(
                trained, out=f"{folder}/run", model=replace(trained.model, path=str(start)),
                sft=replace(trained.sft, episodes=0),
            ),
            world, names,
        )  # fmt: skip
        began = time.process_time()
        arm.run()
        spent = time.process_time() - began
    judged_with = trained if name == "no search" else settings
    judge = Judge(judged_with, arm.model, arm.tokenizer, world, names)
    return {"cpu_seconds": round(spent, 1), "behaviour": arm.behaviour} | judge.both(1.0)


def values(parts: Sequence[dict[str, Any]], kind: str, metric: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """float64 (seeds, questions)."""
    return np.array([part[kind][metric] for part in parts], np.float64)


def tables(parts: Sequence[dict[str, Any]]) -> str:
    """Exact match and F1 with 95 % intervals over seeds and questions, and differences from real search paired by both."""
    arms = {name: {part["seed"]: part for part in parts if part["arm"] == name} for name in (BASELINE, *ARMS)}
    if not arms[BASELINE]:
        raise DataError(
            f"no part of {BASELINE!r}, the entity study's arm grpo, under these seeds: run that study first"
        )
    seeds = sorted(set.intersection(*(set(found) for found in arms.values() if found)))
    if not seeds:
        raise DataError(f"no seed has parts of all arms ({', '.join(name for name, found in arms.items() if found)})")
    kept = {name: [found[seed] for seed in seeds] for name, found in arms.items() if found}
    rows = [
        [
            "percent",
            "exact match",
            "F1",
            "exact match, greedy",
            "success in the last 8 updates",
            "tokens an update",
            "CPU s",
        ]
    ]
    for name, found in kept.items():
        cells = [
            interval_text(crossed_mean(values(found, *what)))
            for what in (("sampled", "em"), ("sampled", "f1"), ("greedy", "em"))
        ]
        success = np.mean([step["success"] for part in found for step in part["behaviour"][-8:]])
        tokens = EPISODES * np.mean([step["tokens"] for part in found for step in part["behaviour"]])
        spent = np.mean([part["cpu_seconds"] for part in found])
        rows.append([name, *cells, f"{100 * success:.1f}", f"{tokens:.0f}", f"{spent:.0f}"])
    out = [
        f"{len(seeds)} seeds, {values(kept[BASELINE], 'greedy', 'em').shape[1]} held-out questions",
        "",
        text_table(rows),
    ]
    for kind in ("sampled", "greedy"):
        base = values(kept[BASELINE], kind, "em")
        means = {
            name: crossed_mean(values(found, kind, "em") - base) for name, found in kept.items() if name != BASELINE
        }
        lines = [
            [name, interval_text(one.difference, signed=True), f"{one.p_adjusted:.2g}"]
            for name, one in contrasts_of(means).items()
        ]
        out += ["", text_table([[f"exact match, {kind}, minus {BASELINE} (points)", "difference", "p (Holm)"], *lines])]
        for other in ("constant by query", "zerosearch"):
            if {other, by_query := "zerosearch by query"} <= set(kept):
                gap = crossed_mean(values(kept[by_query], kind, "em") - values(kept[other], kind, "em"))
                out += [f"{by_query} minus {other}: {interval_text(gap, signed=True)}"]
    return "\n".join(out) + "\n"


def main() -> int:
    """Run the arms that have no part yet, and write the evidence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/evidence/search_training"))
    parser.add_argument(
        "--work", type=Path, default=Path("runs/entity_learning"), help="the entity study's work folder"
    )
    parser.add_argument("--parts", type=Path, help="where parts lie (default WORK/baselines)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    parts = args.parts or args.work / "baselines"
    world = parts / "world"  # the same in every folder
    names = write_world(world)
    for seed in args.seeds:
        for name in args.arms:
            path = parts / f"{seed}-{name.replace(' ', '_')}.json"
            if not path.exists():
                found = learn(settings_of(world, seed), args.work / f"warm-up-{seed}", name, world, names)
                _write(path, json.dumps({"seed": seed, "arm": name, **found}))
                em = [round(float(np.mean(found[kind]["em"])), 3) for kind in ("sampled", "greedy")]
                print(time.strftime("%T"), seed, name, em, found["cpu_seconds"], flush=True)
    stored = [json.loads(path.read_text("ascii")) for path in sorted(parts.glob("*.json"))]
    seeds = {part["seed"] for part in stored}
    for path in sorted((args.work / "parts").glob("*-grpo.json")):
        baseline = json.loads(path.read_text("ascii")) | {"arm": BASELINE}
        stored += [baseline] if baseline["seed"] in seeds else []
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    evidence = {
        "command": "python tests/evidence/search_training/run.py", "commit": commit,
        "date": datetime.now(UTC).date().isoformat(), "machine": "1 thread of 2 cores, no GPU",
        "versions": {"python": platform.python_version(), "torch": torch.__version__}, "parts": stored,
    }  # fmt: skip
    text = tables(stored)  # before any file is replaced
    _write(args.out / "results.json.gz", json.dumps(evidence))
    _write(args.out / "tables.txt", text)
    print(text)
    return 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(path, encoding="utf-8") as stream:
        stream.write(text)


if __name__ == "__main__":
    sys.exit(main())

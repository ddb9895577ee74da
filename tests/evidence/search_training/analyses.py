"""E-GRPO's thoughts against trajectories and GDCR's uncited entities, on rollouts of small language models that write thoughts.

    python tests/evidence/search_training/analyses.py --work runs/entity_learning --out tests/evidence/search_training/analyses.json

The warm-ups of ``tests/evidence/entity_learning`` (WORK, after that study) play the first 80 held-out questions, all of two hops, with 8
rollouts each, at temperature 1; then ``creditflow analyse``'s ``egrpo`` and ``uncited`` read the groups. Needs torch; one thread, a minute.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.entity_learning.warm_up import settings_of, tasks_of
from evidence.entity_learning.world import write_world

from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.analyses import egrpo, uncited
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.run.assemble import make_policy_agent
from creditflow.train.statistics.clustered import crossed_mean
from creditflow.wrappers.records.group import Group

QUESTIONS: Final = 80
GROUP_SIZE: Final = 8


def rollouts(start: Path, world: Path, seed: int, questions: int = QUESTIONS) -> list[Group]:
    """Groups of a warm-up on held-out questions."""
    settings = settings_of(world, seed)
    model, tokenizer = open_pretrained(str(start), device="cpu", dtype="float32")
    rollout = replace(settings.rollout, group_size=GROUP_SIZE)
    agent = make_policy_agent(
        replace(settings, rollout=rollout), TransformersBackend(model), tokenizer, temperature=1.0
    )
    engine = RolloutEngine(group_env_factory(settings.env, GROUP_SIZE, texts=True))
    return engine.play(agent, list(tasks_of(world, "test"))[:questions], seed=seed)


def analysed(groups: Sequence[Group]) -> dict[str, Any]:
    """The numbers of both analyses, and the success of the rollouts."""
    members = [member for group in groups for member in group.trajectories]
    return {
        "rollouts": len(members),
        "success": float(np.mean([member.success for member in members])),
        "egrpo": egrpo.analyse(groups).numbers,
        "uncited": {key: value for key, value in uncited.analyse(groups).numbers.items() if key != "by_group"},
    }


def gaps(found: dict[str, Any]) -> dict[str, float]:
    """Correct minus incorrect of the normalised match rate, by scope; incorrect minus correct of the uncited share."""
    scopes = {scope: found["egrpo"][scope] for scope in ("thoughts", "trajectory")}
    rates = {scope: one["correct"]["normalised"] - one["incorrect"]["normalised"] for scope, one in scopes.items()}
    shares = {side: found["uncited"]["by_outcome"][side]["uncited"]["share"] for side in ("correct", "incorrect")}
    return {
        "match rate in thoughts": rates["thoughts"],
        "match rate in the trajectory": rates["trajectory"],
        "thoughts minus trajectory": rates["thoughts"] - rates["trajectory"],
        "uncited share": shares["incorrect"] - shares["correct"],
    }


def main() -> int:
    """Play, analyse, and write the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--work", type=Path, default=Path("runs/entity_learning"), help="the entity study's work folder"
    )
    parser.add_argument("--out", type=Path, default=Path("tests/evidence/search_training/analyses.json"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder)
        write_world(world)
        found = {seed: analysed(rollouts(args.work / f"warm-up-{seed}", world, seed)) for seed in args.seeds}
    by_seed = [gaps(one) for one in found.values()]
    means = {name: crossed_mean(np.array([[gap[name]] for gap in by_seed])) for name in by_seed[0]}
    summary = {name: {"mean": one.mean, "interval": list(one.interval)} for name, one in means.items()}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    evidence = {
        "command": "python tests/evidence/search_training/analyses.py", "commit": commit,
        "date": datetime.now(UTC).date().isoformat(), "machine": "1 thread of 2 cores, no GPU",
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "gaps over seeds, t intervals": summary, "by seed": found,
    }  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_writer(args.out) as stream:
        stream.write(json.dumps(evidence, indent=1) + "\n")
    print(json.dumps({"gaps": summary, "success": [round(one["success"], 3) for one in found.values()]}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

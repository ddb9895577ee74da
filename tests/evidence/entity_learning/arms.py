"""The arms of the study: each starts from the warm-up of its seed; those that learn take as many updates of as many rollouts."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from evidence.entity_learning import schemes
from evidence.entity_learning.demonstrator import Demonstrator, Faults
from evidence.entity_learning.measures import answers, behaviour
from evidence.entity_learning.warm_up import imitate, play, single_engine, tasks_of

from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import generation_ends, open_pretrained
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.task_sampling import SampledGroups
from creditflow.train.rollout.tasks import group_env_factory
from creditflow.train.run.assemble import make_policy_agent
from creditflow.train.settings.schema import CreditConfig, TrainConfig
from creditflow.train.trainer import Trainer
from creditflow.wrappers import Group

SCHEMES: Final[dict[str, dict[str, Any]]] = {
    "grpo": {},
    "gdcr": {},
    "sapo": {},
    "egrpo": {},
    "stepsearch": {},
    schemes.EntityCombination.name: {},
    "grouptd": {},
    schemes.ShuffledSAPO.name: {},
}  # their papers' parameters, which are the defaults
CONTROLS: Final = ("grouptd", schemes.ShuffledSAPO.name)
RIVALS: Final = ("warm_up", "more_imitation")
TEMPERATURES: Final = (1.0, 0.7, 0.5, 0.35, 0.2)
SAMPLES: Final = 2  # sampled episodes per held-out question


class Arm(Trainer):
    """The trainer from a given start, on tasks given to it; it records what its rollouts do."""

    def __init__(self, settings: TrainConfig, world: Path, names: Sequence[str]) -> None:
        super().__init__(settings, stream=io.StringIO())  # what it prints is in ``behaviour``
        rollouts, size = self.rollouts, settings.rollout.group_size
        rollouts._tasks = self.tasks = list(tasks_of(world, "train"))
        rollouts._engine = RolloutEngine(group_env_factory(settings.env, size, texts=True))  # texts for every scheme
        self.names, self.behaviour = names, list[dict[str, float]]()

    def sample(self, iteration: int) -> SampledGroups:
        """The groups of an iteration; what they do is recorded."""
        sampled = super().sample(iteration)
        self.behaviour.append(self.measured(sampled.groups))
        return sampled

    def measured(self, groups: Sequence[Group]) -> dict[str, float]:
        """What the rollouts of an update do."""
        return behaviour(groups, self.names)


def learn(settings: TrainConfig, start: Path, scheme: str, world: Path, names: Sequence[str]) -> dict[str, Any]:
    """Reinforcement learning with one scheme; judged at temperature 1, as it was trained, and greedily."""
    with tempfile.TemporaryDirectory() as folder:
        arm = Arm(
            replace(
                settings, out=f"{folder}/run", model=replace(settings.model, path=str(start)),
                sft=replace(settings.sft, episodes=0), credit=CreditConfig(scheme=scheme, parameters=SCHEMES[scheme]),
            ),
            world, names,
        )  # fmt: skip
        began = time.process_time()
        arm.run()
        spent = time.process_time() - began
    judge = Judge(settings, arm.model, arm.tokenizer, world, names)
    return {"cpu_seconds": round(spent, 1), "behaviour": arm.behaviour, "temperature": 1.0} | judge.both(1.0)


class Judge:
    """Plays a model on the questions of a split."""

    def __init__(self, settings: TrainConfig, model: Any, tokenizer: Any, world: Path, names: Sequence[str]) -> None:
        self.settings, self.tokenizer, self.world, self.names = settings, tokenizer, world, names
        self.backend, self.engine = TransformersBackend(model), single_engine(settings)

    def played(self, split: str, temperature: float, rounds: int) -> list[list[Any]]:
        """Rounds of one episode per question; all models meet the same random numbers."""
        agent = make_policy_agent(self.settings, self.backend, self.tokenizer, temperature=temperature)
        tasks = list(tasks_of(self.world, split))
        return [self.engine.play(agent, tasks, seed=1_000_003, iteration=k) for k in range(rounds)]

    def both(self, temperature: float) -> dict[str, Any]:
        """Exact match and F1 by held-out question, sampled and greedy, and what the sampled episodes do."""
        sampled, greedy = self.played("test", temperature, SAMPLES), self.played("test", 0.0, 1)
        found: dict[str, Any] = {"held_out": behaviour([group for groups in sampled for group in groups], self.names)}
        for kind, rounds in (("sampled", sampled), ("greedy", greedy)):
            found[kind] = {name: np.round(values, 4).tolist() for name, values in answers(rounds).items()}
        return found

    def best_temperature(self) -> float:
        """The temperature with most exact matches on the valid split."""
        means = {t: float(answers(self.played("valid", t, SAMPLES))["em"].mean()) for t in TEMPERATURES}
        return max(means, key=lambda t: means[t])


def rival(settings: TrainConfig, start: Path, name: str, world: Path, names: Sequence[str]) -> dict[str, Any]:
    """The warm-up itself, or after as many more demonstrations as reinforcement learning has episodes; at its best temperature too."""
    began = time.process_time()
    model, tokenizer = open_pretrained(str(start), device="cpu", dtype="float32")
    if name == "more_imitation":
        rollout, update = settings.rollout, settings.update
        episodes = update.iterations * rollout.tasks * rollout.group_size
        agent = Demonstrator(Faults(), settings.prompting.conversations(tokenizer, generation_ends(model)))
        groups = play(single_engine(settings), agent, tasks_of(world, "train"), episodes, settings.seed + 1000)
        tokens = sum(len(member.tokens.ids) for group in groups for member in group.trajectories if member.tokens)
        steps = -(-tokens // settings.sft.batch_tokens)  # one pass
        sft = replace(settings.sft, steps=steps, optimizer=replace(settings.sft.optimizer, lr=1e-3))
        imitate(model, groups, replace(settings, sft=sft))
    spent = time.process_time() - began
    judge = Judge(settings, model, tokenizer, world, names)
    found = {"cpu_seconds": round(spent, 1), "behaviour": [], "temperature": 1.0} | judge.both(1.0)
    if (best := judge.best_temperature()) != 1.0:
        return found | {"best": {"temperature": best} | judge.both(best)}
    return found

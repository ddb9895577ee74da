"""A curriculum of the environment follows the training run, and evaluations may have other options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.train.dry_run import describe
from creditflow.train.rollout.asynchronous import AsynchronousEngine
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.settings.branching import BranchConfig
from creditflow.wrappers.group_env import GroupEnv

LEVEL = "#######\n#@ $ .#\n#######"
SEARCH = (
    "env.name=wikisearch", "env.options={world: {articles: 400, questions: 16, seed: 3}, max_steps: 2, simulation: {end: 1.0}}",
    "prompting.prompt=search-v1", "prompting.dialect=bare", "sft.episodes=0", "evaluation.panel=", "evaluation.final_panel=",
)  # fmt: skip


class Watching:
    """Moves at random, always uncertain; notes how far training is in every environment that it plays."""

    name = "watching"

    def __init__(self) -> None:
        self.seen: list[float] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        self.seen += [view.env.training_progress for view in views]
        ids, logprobs = np.zeros(1, np.int32), np.zeros(1, np.float32)
        return [
            Decision("left", tokens=TurnTokens(ids, ids, logprobs, entropies=np.ones(1, np.float32))) for _ in views
        ]

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        """Nothing to copy."""


@pytest.mark.parametrize("kind", [RolloutEngine, AsynchronousEngine])
def test_every_episode_of_a_call_is_told_how_far_training_is_branches_included(kind: type[RolloutEngine]) -> None:
    def make(n: int) -> Callable[[], GroupEnv]:
        return lambda: GroupEnv(lambda: SokobanEnv(level=LEVEL, max_steps=3), size=n)

    branching = BranchConfig(max_trajectories=4, base=1.0, fill_group=True)
    engine, agent = kind(make(2), branching=branching, make_branch=make(1)), Watching()
    task: Task = SokobanEnv(level=LEVEL).tasks.sample(np.random.default_rng(0))
    for progress in (0.25, 0.75, 0.0):
        agent.seen.clear()
        [group] = engine.play(agent, [task], seed=0, progress=progress)
        assert len(group) == 4
        assert set(agent.seen) == {progress}


@pytest.mark.parametrize("more", [(), ("rollout.max_staleness=1", "update.loss.importance_cap=2.0")], ids=["", "ahead"])
def test_a_run_raises_the_noise_from_iteration_to_iteration(
    trainer_of: Any, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    asked: list[float] = []
    play = RolloutEngine.play

    def noted(self: RolloutEngine, *arguments: Any, **options: Any) -> Any:
        if "progress" in options:  # the new tokenizer's texts are played before the run
            asked.append(options["progress"])
        return play(self, *arguments, **options)

    monkeypatch.setattr(RolloutEngine, "play", noted)
    trainer_of(config, *SEARCH, "update.iterations=4", *more).run()
    assert asked == [0.0, 0.25, 0.5, 0.75]


def test_evaluations_have_their_own_options(
    trainer_of: Any, config: dict[str, Any], settings_of: Any, tmp_path: Path
) -> None:
    own = "evaluation.env_options={simulation: null, max_steps: 1}"
    run = trainer_of(config, *SEARCH, own, "update.iterations=0")
    trained = run.rollouts._engine._make_group().members[0].base
    evaluated = run.eval_engine._make_group().members[0].base
    assert (trained.library.simulation is not None, trained.max_steps) == (True, 2)
    assert (evaluated.library.simulation is None, evaluated.max_steps) == (True, 1)
    wrong = settings_of(config, "evaluation.env_options={max_step: 1}", f"out={tmp_path / 'wrong'}")
    with pytest.raises(ConfigError, match="did you mean 'max_steps'"):
        describe(wrong)

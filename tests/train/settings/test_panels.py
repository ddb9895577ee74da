"""Every task of a recipe's panels can be solved within the recipe's own limit of steps, by the environment's exact oracle."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.train.rollout.tasks import on_panel
from creditflow.train.settings.reading import load_mapping
from creditflow.train.settings.schema import EnvConfig, TrainConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
# answers without search by design: its only step is the answer
WITHOUT_SEARCH = "r1_instruct_wikisearch"
RECIPES = sorted(
    path
    for path in FOLDER.glob("*.yaml")
    if load_mapping(path).get("kind", "policy") == "policy" and path.stem != WITHOUT_SEARCH
)
# recipe -> fraction of tasks that may be beyond a limit that the paper states, as the recipe says
PUBLISHED_LIMITS = {"pica_wikisearch": 0.02}
SAMPLED = 12  # tasks of a panel in the fast test
# options that change neither tasks nor what an action does
UNRELATED = ("max_steps", "max_calls", "metric", "reward", "obs_mode", "symbols", "judge", "simulator")


def panels(settings: TrainConfig) -> list[tuple[EnvConfig, str]]:
    """The environment and "NAME:SPLIT" of the tasks that are trained on and evaluated."""
    evaluation, env = settings.evaluation, settings.env
    specs = [(env, settings.tasks.panel or env.options.get("panel", ""))]
    specs += [(settings.evaluation_env, spec) for spec in (evaluation.panel, evaluation.final_panel)]
    return [(config, spec) for config, spec in specs if spec]


@cache
def distances(name: str, options: str, spec: str, count: int) -> dict[str, float]:
    """Steps that the shortest solution of each task takes; with ``count`` of some of them."""
    env: Any = creditflow.make(name, **json.loads(options), panel=spec, max_steps=100).unwrapped
    ids = env.tasks.task_ids()
    needed: dict[str, float] = {}
    if count:
        ids = [ids[i] for i in np.random.default_rng(0).permutation(len(ids))[:count]]
    for task_id in ids:
        env.reset(options={"task_id": task_id})
        needed[task_id] = env.oracle.distance(env.get_state())
    return needed


def check_panels(settings: TrainConfig, count: int, share: float = 0.0) -> None:
    """Raise ConfigError if more than this share of the tasks need more steps than an episode may have."""
    for config, spec in panels(settings):
        env = on_panel(config, spec)
        limit = settings.rollout.max_turns or env.options["max_steps"]
        limit = min(limit, env.options["max_steps"])
        options = {name: value for name, value in env.options.items() if name not in (*UNRELATED, "panel")}
        needed = distances(env.name, json.dumps(options, sort_keys=True), spec, count)
        beyond = [task_id for task_id, steps in needed.items() if steps > limit]
        if len(beyond) > share * len(needed):
            raise ConfigError(
                f"{len(beyond)} of {len(needed)} tasks of {spec} need more than {limit} steps: {beyond[0]}"
            )


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_tasks_of_a_recipe_are_solvable_within_its_limit(path: Path) -> None:
    check_panels(load_settings(path), SAMPLED)


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_all_tasks_of_a_recipe_are_solvable_within_its_limit(path: Path) -> None:
    check_panels(load_settings(path), 0, PUBLISHED_LIMITS.get(path.stem, 0.0))


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("gigpo_sokoban", "env.options.panel=standard-v1:train"),  # levels of up to 20 moves, with 15 steps
        ("gigpo_alfworld", "env.options.max_steps=3"),
        ("gigpo_webshop", "env.options.max_steps=3"),
        ("search_r1_grpo_wikisearch", "env.options.max_steps=4"),
        ("instruct", "rollout.max_turns=1"),
    ],
)
def test_a_recipe_whose_panel_has_tasks_beyond_its_limit_is_refused(name: str, override: str) -> None:
    with pytest.raises(ConfigError, match=r"tasks of .* need more than \d+ steps"):
        check_panels(load_settings(FOLDER / f"{name}.yaml", (override,)), SAMPLED)

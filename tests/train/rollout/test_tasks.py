"""An evaluation panel replaces whatever source of tasks an environment was configured with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import creditflow
from creditflow.train.rollout.tasks import on_panel
from creditflow.train.settings.schema import EnvConfig, load_settings

FOLDER = Path(__file__).parents[3] / "train" / "configs"
# "…; the paper's: {questions: FILE, corpus: INDEX}" beside the panel of a recipe
ALTERNATIVE = re.compile(r"^    panel: .*#.*: (\{.*\})", re.MULTILINE)


def alternatives() -> list[tuple[str, dict[str, Any]]]:
    """The sources that recipes name instead of their panel."""
    recipes = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}
    return [(name, yaml.safe_load(text)) for name, recipe in recipes.items() for text in ALTERNATIVE.findall(recipe)]


def task_ids(env: str, options: dict[str, Any]) -> list[str]:
    made: Any = creditflow.make(env, **options).unwrapped
    return list(made.tasks.task_ids())


@pytest.mark.parametrize(("name", "source"), alternatives(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_recipe_that_follows_its_comment_is_still_evaluated_on_its_panels(name: str, source: dict[str, Any]) -> None:
    settings = load_settings(FOLDER / f"{name}.yaml")
    options = {option: value for option, value in settings.env.options.items() if option != "panel"} | source
    env = EnvConfig(name=settings.env.name, options=options)
    for spec in filter(None, (settings.evaluation.panel, settings.evaluation.final_panel)):
        evaluated = on_panel(env, spec).options
        evaluated.pop("data_path", None)  # a folder that every panel accepts, if it is there
        tasks = task_ids(env.name, evaluated)
        expected = task_ids(env.name, on_panel(settings.env, spec).options)
        assert tasks == expected


def test_all_environments_with_files_of_their_own_name_an_alternative() -> None:
    envs = {load_settings(FOLDER / f"{name}.yaml").env.name for name, _ in alternatives()}
    assert envs == {"alfworld", "webshop", "wikisearch"}


def test_panels_of_published_tasks_keep_the_files_that_they_are_about() -> None:
    shop = EnvConfig(name="webshop", options={"data": "DIR", "split": "train", "goals": "human"})
    assert on_panel(shop, "standard-v1:valid").options == {"panel": "standard-v1:valid"}
    assert on_panel(shop, "small-human-v1:test").options == {"data": "DIR", "panel": "small-human-v1:test"}
    search = EnvConfig(name="wikisearch", options={"questions": "FILE", "corpus": "INDEX", "top_k": 3})
    assert on_panel(search, "standard-v1:valid").options == {"top_k": 3, "panel": "standard-v1:valid"}
    assert on_panel(search, "slices-v1:hotpotqa").options == {**search.options, "panel": "slices-v1:hotpotqa"}
